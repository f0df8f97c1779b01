// The soft structural loss (sinkhorn.py): a thread has a graph. GIVES is the action head's class that gives a label.

#define MASS(index, spare, others) ((double)((index) == (spare) ? (others) : 1))  // what it touches is float64

KERNEL void structural(GLOBAL double* losses, GLOBAL float* extra, GLOBAL float* scratch, GLOBAL const int* places, GLOBAL const float* chances, GLOBAL const int* graphs, GLOBAL const int* labels, GLOBAL const int* parents, GLOBAL const int* next_graphs, GLOBAL const int* next_labels, GLOBAL const int* next_parents, GLOBAL const int* gives, int count, int C, int A, int rounds, float temperature, float weight) {
  int g = GROUP * GROUP_SIZE + LANE;
  if (g >= count) return;
  int begin = graphs[g], n = graphs[g + 1] - begin, low = next_graphs[g], m = next_graphs[g + 1] - low, wide = m + 1;
  int side = (n + 1) * wide;
  GLOBAL float* a = scratch + places[g];
  GLOBAL float* da = a + side;
  GLOBAL float* cost = da + side;
  GLOBAL float* dcost = cost + side;
  GLOBAL float* plan = dcost + side;
  GLOBAL float* dplan = plan + side;
  GLOBAL float* u = dplan + side;
  GLOBAL float* v = u + (rounds + 1) * (n + 1);
  GLOBAL float* du = v + (rounds + 1) * wide;
  GLOBAL float* dv = du + n + 1;
  GLOBAL float* dp = dv + wide;
  GLOBAL const float* p = chances + (i64)begin * C;
  labels += begin; parents += begin; next_labels += low; next_parents += low;
  for (int i = 0; i < n; i++)
    for (int t = 0; t < m; t++) {
      int wanted = next_labels[t];
      float keep = p[i * C + KEEP];
      float found = labels[i] == wanted ? keep : keep - keep;
      if (gives[wanted] >= 0) found = found + p[i * C + FIRST_LABEL + gives[wanted]];
      a[i * m + t] = found;
    }
  for (int i = 0; i < n; i++) {
    for (int t = 0; t < m; t++) {
      float both = parents[i] < 0 && next_parents[t] < 0 ? 1.0f : 0.0f;
      if (parents[i] >= 0 && next_parents[t] >= 0) both = a[parents[i] * m + next_parents[t]];
      cost[i * wide + t] = 1.0f - a[i * m + t] * 0.5f * (1.0f + both);
    }
    cost[i * wide + m] = 1.0f - p[i * C + DELETE_CLASS];
  }
  for (int t = 0; t < m; t++) cost[n * wide + t] = 1.0f;
  cost[n * wide + m] = 0.0f;
  for (int i = 0; i < side; i++) plan[i] = exp_chain(DIVIDE(-cost[i], temperature));
  for (int j = 0; j <= m; j++) v[j] = 1.0f;
  for (int t = 1; t <= rounds; t++) {
    for (int i = 0; i <= n; i++) {
      float total = plan[i * wide] * v[(t - 1) * wide];
      for (int j = 1; j <= m; j++) total = total + plan[i * wide + j] * v[(t - 1) * wide + j];
      u[t * (n + 1) + i] = (float)(MASS(i, n, m) / (double)total);
    }
    for (int j = 0; j <= m; j++) {
      float total = plan[j] * u[t * (n + 1)];
      for (int i = 1; i <= n; i++) total = total + plan[i * wide + j] * u[t * (n + 1) + i];
      v[t * wide + j] = (float)(MASS(j, m, n) / (double)total);
    }
  }
  GLOBAL float* last_u = u + rounds * (n + 1);
  GLOBAL float* last_v = v + rounds * wide;
  double loss = 0.0;
  for (int i = 0; i <= n; i++)
    for (int j = 0; j <= m; j++)
      loss = loss + (double)(last_u[i] * plan[i * wide + j] * last_v[j] * cost[i * wide + j]);
  losses[g] = loss;
  for (int i = 0; i <= n; i++) du[i] = 0.0f;
  for (int j = 0; j <= m; j++) dv[j] = 0.0f;
  for (int i = 0; i <= n; i++)
    for (int j = 0; j <= m; j++) {
      int at = i * wide + j;
      float share = last_u[i] * last_v[j];
      dplan[at] = share * cost[at];
      dcost[at] = share * plan[at];
      du[i] = du[i] + plan[at] * last_v[j] * cost[at];
      dv[j] = dv[j] + plan[at] * last_u[i] * cost[at];
    }
  for (int t = rounds; t > 0; t--) {
    GLOBAL float* ut = u + t * (n + 1);
    GLOBAL float* vt = v + t * wide;
    for (int j = 0; j <= m; j++) {
      double down = (double)(-dv[j] * vt[j] * vt[j]) / MASS(j, m, n);
      for (int i = 0; i <= n; i++) {
        du[i] = (float)(du[i] + plan[i * wide + j] * down);
        dplan[i * wide + j] = (float)(dplan[i * wide + j] + ut[i] * down);
      }
    }
    for (int j = 0; j <= m; j++) dv[j] = 0.0f;
    for (int i = 0; i <= n; i++) {
      double down = (double)(-du[i] * ut[i] * ut[i]) / MASS(i, n, m);
      for (int j = 0; j <= m; j++) {
        dv[j] = (float)(dv[j] + plan[i * wide + j] * down);
        dplan[i * wide + j] = (float)(dplan[i * wide + j] + down * v[(t - 1) * wide + j]);
      }
    }
    for (int i = 0; i <= n; i++) du[i] = 0.0f;
  }
  for (int i = 0; i < side; i++) dcost[i] = dcost[i] - DIVIDE(dplan[i] * plan[i], temperature);
  for (int i = 0; i < n * m; i++) da[i] = 0.0f;
  for (int i = 0; i < n * A; i++) dp[i] = 0.0f;
  for (int i = 0; i < n; i++) {
    for (int t = 0; t < m; t++) {
      float both = parents[i] < 0 && next_parents[t] < 0 ? 1.0f : 0.0f;
      if (parents[i] >= 0 && next_parents[t] >= 0) {
        int above = parents[i] * m + next_parents[t];
        both = a[above];
        da[above] = da[above] - dcost[i * wide + t] * 0.5f * a[i * m + t];
      }
      da[i * m + t] = da[i * m + t] - dcost[i * wide + t] * 0.5f * (1.0f + both);
    }
    dp[i * A + DELETE_CLASS] = dp[i * A + DELETE_CLASS] - dcost[i * wide + m];
  }
  for (int i = 0; i < n; i++)
    for (int t = 0; t < m; t++) {
      int wanted = next_labels[t];
      if (labels[i] == wanted) dp[i * A + KEEP] = dp[i * A + KEEP] + da[i * m + t];
      if (gives[wanted] >= 0) {
        int at = i * A + FIRST_LABEL + gives[wanted];
        dp[at] = dp[at] + da[i * m + t];
      }
    }
  for (int i = 0; i < n; i++) {
    float mean = 0.0f;
    for (int k = 0; k < A; k++) mean = mean + p[i * C + k] * dp[i * A + k];
    for (int k = 0; k < A; k++) extra[(i64)(begin + i) * A + k] = weight * p[i * C + k] * (dp[i * A + k] - mean);
  }
}
