// The transformer (kernels.py, attention.py): rows m of all samples at once, D numbers wide.

#define DEPTH_P 512  // terms of a panel
#define ELEMENT (GROUP * GROUP_SIZE + LANE)

KERNEL void embed(GLOBAL float* x, GLOBAL const float* token, GLOBAL const float* position, GLOBAL const int* inputs, int count, int D, int T) {
  int i = ELEMENT;
  if (i >= count) return;
  int m = i / D, e = i % D;
  x[i] = token[(i64)inputs[m] * D + e] + position[(m % T) * D + e];
}

// n = x · r, r = 1 / √(mean x² + eps): a warp a row
KERNEL void norm_forward(GLOBAL float* n, GLOBAL float* r, GLOBAL const float* x, int D) {
  SHARED float board[32];
  GLOBAL const float* row = x + (i64)GROUP * D;
  float sum = 0.0f;
  for (int i = LANE; i < D; i += 32) sum = FMA(row[i], row[i], sum);
  sum = sum_lanes32(board, sum);
  float share = (float)(1.0 / SQRT64((double)sum / D + 1e-5));
  if (LANE == 0) r[GROUP] = share;
  for (int i = LANE; i < D; i += 32) n[(i64)GROUP * D + i] = row[i] * share;
}

// dx += r · (dn − n · mean(dn·n)); from zero if `fresh`
KERNEL void norm_backward(GLOBAL float* dx, GLOBAL const float* dn, GLOBAL const float* n, GLOBAL const float* r, int D, int fresh) {
  SHARED float board[32];
  i64 at = (i64)GROUP * D;
  float sum = 0.0f;
  for (int i = LANE; i < D; i += 32) sum = FMA(dn[at + i], n[at + i], sum);
  float mean = DIVIDE(-sum_lanes32(board, sum), (float)D);
  for (int i = LANE; i < D; i += 32)
    dx[at + i] = FMA(r[GROUP], FMA(n[at + i], mean, dn[at + i]), fresh ? 0.0f : dx[at + i]);
}

KERNEL void square_relu_forward(GLOBAL float* a, GLOBAL float* p, int count) {
  int i = ELEMENT;
  if (i >= count) return;
  float positive = p[i] > 0.0f ? p[i] : 0.0f;
  p[i] = positive;
  a[i] = positive * positive;
}

KERNEL void square_relu_backward(GLOBAL float* a, GLOBAL float* dh, GLOBAL const float* p, int count) {
  int i = ELEMENT;
  if (i >= count) return;
  a[i] = p[i] * p[i];
  dh[i] = dh[i] * (2.0f * p[i]);
}

// 1 where a draw of 16 bits, by (seed, step, sample, site, element), is not below the threshold; a thread 16 draws
KERNEL void draw_dropout(GLOBAL uchar* mask, int each, int samples, int first, int site, int threshold, long seed, long step, int purpose) {
  int blocks = (each + 15) / 16, i = ELEMENT;
  if (i >= blocks * samples) return;
  int sample = i / blocks, block = i % blocks;
  u64 drawn[4] = {(u64)block, (u64)site, (u64)(first + sample), (u64)step};
  philox(drawn, (u64)seed, (u64)purpose);
  for (int j = 0; j < 16 && 16 * block + j < each; j++)
    mask[(i64)sample * each + 16 * block + j] = (int)((drawn[j >> 2] >> (16 * (j & 3))) & 0xFFFF) >= threshold;
}

KERNEL void add_with_dropout(GLOBAL float* x, GLOBAL const float* branch, GLOBAL const uchar* mask, float scale, int count) {
  int i = ELEMENT;
  if (i < count) x[i] = FMA(branch[i], (float)mask[i] * scale, x[i]);
}

KERNEL void apply_dropout(GLOBAL float* out, GLOBAL const float* x, GLOBAL const uchar* mask, float scale, int count) {
  int i = ELEMENT;
  if (i < count) out[i] = x[i] * ((float)mask[i] * scale);
}

// A warp has query i of a head of a sample. qkv (rows, 3D); chances (samples, H, T, T).
KERNEL void attention_forward(GLOBAL float* y, GLOBAL float* chances, GLOBAL const float* qkv, int T, int D, int H, float scale) {
  SHARED float board[32];
  SHARED float query[512];
  int i = GROUP % T, h = GROUP / T % H, s = GROUP / T / H, d = D / H;
  GLOBAL const float* rows = qkv + (i64)s * T * 3 * D + h * d;
  GLOBAL float* P = chances + (i64)GROUP * T;
  for (int e = LANE; e < d; e += 32) query[e] = scale * rows[(i64)i * 3 * D + e];
  BARRIER;
  float top = -INFINITY;
  for (int j = LANE; j <= i; j += 32) {
    float score = 0.0f;
    for (int e = 0; e < d; e++) score = FMA(query[e], rows[(i64)j * 3 * D + D + e], score);
    P[j] = score;
    if (score > top) top = score;
  }
  board[LANE] = top;
  BARRIER;
  for (int l = 0; l < 32; l++) if (board[l] > top) top = board[l];
  BARRIER;
  float sum = 0.0f;
  for (int j = LANE; j <= i; j += 32) {
    float grown = exp_chain(P[j] - top);
    P[j] = grown;
    sum = sum + grown;
  }
  float share = DIVIDE(1.0f, sum_lanes32(board, sum));
  for (int j = LANE; j <= i; j += 32) P[j] = P[j] * share;
  BARRIER;
  for (int e = LANE; e < d; e += 32) {
    float whole = 0.0f;
    for (int k0 = 0; k0 <= i; k0 += DEPTH_P) {
      float part = 0.0f;
      for (int k = k0; k <= i && k < k0 + DEPTH_P; k++) part = FMA(P[k], rows[(i64)k * 3 * D + 2 * D + e], part);
      whole = k0 ? whole + part : part;
    }
    y[((i64)s * T + i) * D + h * d + e] = whole;
  }
}

// … and back: the slopes of its scores, and dq.
KERNEL void attention_back_rows(GLOBAL float* dqkv, GLOBAL float* slopes, GLOBAL const float* dy, GLOBAL const float* chances, GLOBAL const float* qkv, int T, int D, int H, float scale) {
  SHARED float board[32];
  int i = GROUP % T, h = GROUP / T % H, s = GROUP / T / H, d = D / H;
  GLOBAL const float* rows = qkv + (i64)s * T * 3 * D + h * d;
  GLOBAL const float* out = dy + ((i64)s * T + i) * D + h * d;
  GLOBAL const float* P = chances + (i64)GROUP * T;
  GLOBAL float* dS = slopes + (i64)GROUP * T;
  float sum = 0.0f;
  for (int j = LANE; j <= i; j += 32) {
    float slope = 0.0f;
    for (int e = 0; e < d; e++) slope = FMA(out[e], rows[(i64)j * 3 * D + 2 * D + e], slope);
    dS[j] = slope;
    sum = FMA(P[j], slope, sum);
  }
  float mean = sum_lanes32(board, sum);
  for (int j = LANE; j <= i; j += 32) dS[j] = P[j] * (dS[j] - mean);
  BARRIER;
  for (int e = LANE; e < d; e += 32) {
    float whole = 0.0f;
    for (int k0 = 0; k0 <= i; k0 += DEPTH_P) {
      float part = 0.0f;
      for (int k = k0; k <= i && k < k0 + DEPTH_P; k++) part = FMA(dS[k], rows[(i64)k * 3 * D + D + e], part);
      whole = k0 ? whole + part : part;
    }
    dqkv[((i64)s * T + i) * 3 * D + h * d + e] = scale * whole;
  }
}

// A warp has key j: dk and dv, from the queries that looked at it.
KERNEL void attention_back_columns(GLOBAL float* dqkv, GLOBAL const float* slopes, GLOBAL const float* dy, GLOBAL const float* chances, GLOBAL const float* qkv, int T, int D, int H, float scale) {
  int j = GROUP % T, h = GROUP / T % H, s = GROUP / T / H, d = D / H;
  GLOBAL const float* rows = qkv + (i64)s * T * 3 * D + h * d;
  GLOBAL const float* out = dy + (i64)s * T * D + h * d;
  GLOBAL const float* P = chances + (i64)(GROUP - j) * T;
  GLOBAL const float* dS = slopes + (i64)(GROUP - j) * T;
  for (int e = LANE; e < d; e += 32) {
    float dk = 0.0f, dv = 0.0f, k_part = 0.0f, v_part = 0.0f;
    int begun = 0;
    for (int i = j; i < T; i++) {
      k_part = FMA(dS[(i64)i * T + j], scale * rows[(i64)i * 3 * D + e], k_part);
      v_part = FMA(P[(i64)i * T + j], out[(i64)i * D + e], v_part);
      if ((i + 1) % DEPTH_P == 0 || i + 1 == T) {
        dk = begun ? dk + k_part : k_part;
        dv = begun ? dv + v_part : v_part;
        k_part = v_part = 0.0f;
        begun = 1;
      }
    }
    i64 at = ((i64)s * T + j) * 3 * D + h * d + e;
    dqkv[at + D] = dk;
    dqkv[at + 2 * D] = dv;
  }
}

// A warp a row: logits become dloss / dlogits; told: nats, whether it counts, whether the guess was right
KERNEL void cross_entropy(GLOBAL float* logits, GLOBAL double* told, GLOBAL const int* targets, int V) {
  SHARED float board[32];
  GLOBAL float* row = logits + (i64)GROUP * V;
  int target = targets[GROUP];
  float wanted = target < 0 ? 0.0f : row[target], top = -INFINITY, sum = 0.0f;
  for (int i = LANE; i < V; i += 32) if (row[i] > top) top = row[i];
  board[LANE] = top;
  BARRIER;
  for (int l = 0; l < 32; l++) if (board[l] > top) top = board[l];
  BARRIER;
  for (int i = LANE; i < V; i += 32) {
    float grown = exp_chain(row[i] - top);
    row[i] = grown;
    sum = sum + grown;
  }
  sum = sum_lanes32(board, sum);
  float share = DIVIDE(1.0f, sum);
  for (int i = LANE; i < V; i += 32) {
    float chance = row[i] * share;
    row[i] = target < 0 ? 0.0f : i == target ? chance - 1.0f : chance;
  }
  if (LANE == 0) {
    told[3 * GROUP] = log_chain((double)sum) - (double)(wanted - top);
    told[3 * GROUP + 1] = target < 0 ? 0.0 : 1.0;
    told[3 * GROUP + 2] = wanted == top ? 1.0 : 0.0;
  }
}

// A thread a unit: its rows in order. rows (units, columns) get nats, and if there are three columns counts and hits.
KERNEL void sum_rows(GLOBAL double* rows, GLOBAL const double* told, int units, int each, int total, int columns) {
  int unit = ELEMENT;
  if (unit >= units) return;
  double nats = 0.0, counted = 0.0, hits = 0.0;
  for (int m = unit * each; m < (unit + 1) * each && m < total; m++) {
    if (told[3 * m + 1] == 0.0) continue;
    nats = nats + told[3 * m];
    counted = counted + 1.0;
    hits = hits + told[3 * m + 2];
  }
  rows[(i64)unit * columns] = nats;
  if (columns == 3) {
    rows[3 * unit + 1] = counted;
    rows[3 * unit + 2] = hits;
  }
}

// A thread has a column of a unit's token and position gradients: rows in order.
KERNEL void embed_backward(GLOBAL float* slots, GLOBAL const float* dx, GLOBAL const int* inputs, int D, int T, int V, int each, int total, long size) {
  int e = ELEMENT;
  if (e >= D) return;
  GLOBAL float* token = slots + GROUP_Y * size + e;
  GLOBAL float* position = token + (i64)V * D;
  for (int v = 0; v < V + T; v++) token[(i64)v * D] = 0.0f;
  for (int m = GROUP_Y * each; m < (GROUP_Y + 1) * each && m < total; m++) {
    float slope = dx[(i64)m * D + e];
    token[(i64)inputs[m] * D] = token[(i64)inputs[m] * D] + slope;
    position[(i64)(m % T) * D] = position[(i64)(m % T) * D] + slope;
  }
}
