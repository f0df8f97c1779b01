// The transformer (kernels.py, attention.py): rows m of all samples at once, D numbers wide.

#define ELEMENT (GROUP * GROUP_SIZE + LANE)

KERNEL void embed(GLOBAL float* x, GLOBAL const float* token, GLOBAL const float* position, GLOBAL const int* inputs, int D, int T) {
  i64 from = (i64)inputs[GROUP] * D, at = GROUP % T * D;
  for (int e = LANE; e < D; e += GROUP_SIZE) x[(i64)GROUP * D + e] = token[from + e] + position[at + e];
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

// 1 where a draw of 16 bits, by (seed, step, sample, site, element), is not below the threshold; a thread 16 draws. when: the
// first sample, and the step
KERNEL void draw_dropout(GLOBAL uchar* mask, GLOBAL const long* when, int each, int samples, int site, int threshold, long seed, int purpose) {
  int blocks = (each + 15) / 16, i = ELEMENT;
  if (i >= blocks * samples) return;
  int sample = i / blocks, block = i % blocks;
  u64 drawn[4] = {(u64)block, (u64)site, (u64)(when[0] + sample), (u64)when[1]};
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

// Attention: a group has QUERIES rows of a head of a sample; qkv (rows, 3D), its queries scaled; chances and slopes (samples, H, T, T). Up to the end
// of the last column that a group's rows see, chances are 0 after the diagonal, so later products need no mask.
#define QUERIES 64
#define WARPS 8

#define HEAD_OF_GROUP \
  SHARED float4 boards[BOARD_SCORES]; \
  int tiles = (T + QUERIES - 1) / QUERIES, row0 = GROUP % tiles * QUERIES, head = GROUP / tiles, d = D / H; \
  int end = min(row0 + QUERIES, T); \
  GLOBAL const float* q = qkv + (i64)(head / H) * T * 3 * D + head % H * d; \
  GLOBAL const float* k = q + D; \
  GLOBAL const float* v = k + D;

// out (T, T), the group's rows = a (T, d) · bᵀ (T, d)
DEVICE void scores(LOCAL float4* boards, GLOBAL float* out, GLOBAL const float* a, int lda, GLOBAL const float* b, int ldb, int row0, int end, int T, int d) {
  for (int column0 = 0; column0 < end; column0 += QUERIES) {
    float sums[4][4];
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++) sums[i][j] = 0.0f;
    product_SCORES(sums, boards, a, lda, 0, b, ldb, 0, row0, column0, end, end, 0, d);
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++) {
        int row = row0 + ROW_SCORES(i), column = column0 + COLUMN_SCORES(j);
        if (row < end && column < end) out[(i64)row * T + column] = sums[i][j];
      }
  }
  BARRIER;
}

// out (T, d), the rows from row0 = scale · a (T, T), or aᵀ, · b (T, d), over the terms first … last
DEVICE void gather(LOCAL float4* boards, GLOBAL float* out, int ldo, float scale, GLOBAL const float* a, int transposed, GLOBAL const float* b, int ldb, int row0, int first, int last, int T, int d) {
  for (int column0 = 0; column0 < d; column0 += 16 * HEAD_N) {
    float sums[4][HEAD_N], whole[4][HEAD_N];
    for (int term = first; term < last;) {
      int next = min(term / DEPTH * DEPTH + DEPTH, last);
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < HEAD_N; j++) sums[i][j] = 0.0f;
      product_HEAD(sums, boards, a, T, transposed, b, ldb, 1, row0, column0, T, d, term, next);
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < HEAD_N; j++) whole[i][j] = term > first ? whole[i][j] + sums[i][j] : sums[i][j];
      term = next;
    }
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < HEAD_N; j++) {
        int row = row0 + ROW_HEAD(i), column = column0 + COLUMN_HEAD(j);
        if (row < T && column < d) out[(i64)row * ldo + column] = scale * whole[i][j];
      }
  }
}

KERNEL void attention_forward(GLOBAL float* y, GLOBAL float* chances, GLOBAL const float* qkv, int T, int D, int H, float scale) {
  HEAD_OF_GROUP
  SHARED float board[32 * WARPS];
  GLOBAL float* P = chances + (i64)head * T * T;
  scores(boards, P, q, 3 * D, k, 3 * D, row0, end, T, d);
  for (int r = LANE / 32; r < QUERIES; r += WARPS) {
    int i = row0 + r, seen = i < T ? i + 1 : 0;
    GLOBAL float* row = P + (i64)i * T;
    float top = -INFINITY, sum = 0.0f;
    for (int j = LANE % 32; j < seen; j += 32) if (row[j] > top) top = row[j];
    top = max_lanes32(board, top);
    for (int j = LANE % 32; j < seen; j += 32) {
      float grown = exp_chain(row[j] - top);
      row[j] = grown;
      sum = sum + grown;
    }
    float share = DIVIDE(1.0f, sum_lanes32(board, sum));
    for (int j = LANE % 32; seen && j < end; j += 32) row[j] = j < seen ? row[j] * share : 0.0f;
  }
  BARRIER;
  gather(boards, y + (i64)(head / H) * T * D + head % H * d, D, 1.0f, P, 0, v, 3 * D, row0, 0, end, T, d);
}

// … and back: the slopes of its scores, and dq.
KERNEL void attention_back_rows(GLOBAL float* dqkv, GLOBAL float* slopes, GLOBAL const float* dy, GLOBAL const float* chances, GLOBAL const float* qkv, int T, int D, int H, float scale) {
  HEAD_OF_GROUP
  SHARED float board[32 * WARPS];
  GLOBAL const float* P = chances + (i64)head * T * T;
  GLOBAL float* dS = slopes + (i64)head * T * T;
  scores(boards, dS, dy + (i64)(head / H) * T * D + head % H * d, D, v, 3 * D, row0, end, T, d);
  for (int r = LANE / 32; r < QUERIES; r += WARPS) {
    int i = row0 + r, seen = i < T ? i + 1 : 0;
    i64 at = (i64)i * T;
    float sum = 0.0f;
    for (int j = LANE % 32; j < seen; j += 32) sum = FMA(P[at + j], dS[at + j], sum);
    float mean = sum_lanes32(board, sum);
    for (int j = LANE % 32; seen && j < end; j += 32) dS[at + j] = j < seen ? P[at + j] * (dS[at + j] - mean) : 0.0f;
  }
  BARRIER;
  gather(boards, dqkv + (q - qkv), 3 * D, scale, dS, 0, k, 3 * D, row0, 0, end, T, d);
}

// A group has keys: dk and dv, from the queries that looked at them.
KERNEL void attention_back_columns(GLOBAL float* dqkv, GLOBAL const float* slopes, GLOBAL const float* dy, GLOBAL const float* chances, GLOBAL const float* qkv, int T, int D, int H, float scale) {
  HEAD_OF_GROUP
  for (int value = 0; value < 2; value++) {
    GLOBAL const float* a = (value ? chances : slopes) + (i64)head * T * T;
    GLOBAL const float* b = value ? dy + (i64)(head / H) * T * D + head % H * d : q;
    gather(boards, dqkv + ((value ? v : k) - qkv), 3 * D, 1.0f, a, 1, b, value ? D : 3 * D, row0, row0, T, T, d);
  }
}

// A warp a row: logits become dloss / dlogits; told: nats, whether it counts, whether the guess was right
KERNEL void cross_entropy(GLOBAL float* logits, GLOBAL double* told, GLOBAL const int* targets, int V) {
  SHARED float board[32];
  GLOBAL float* row = logits + (i64)GROUP * V;
  int target = targets[GROUP];
  float wanted = target < 0 ? 0.0f : row[target], top = -INFINITY, sum = 0.0f;
  for (int i = LANE; i < V; i += 32) if (row[i] > top) top = row[i];
  top = max_lanes32(board, top);
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

// A group has a row of a unit's token and position gradients: the rows of dx that it stands for, in order. Of tokens it looks for
// them first, as many at once as it has threads.
KERNEL void embed_backward(GLOBAL float* slots, GLOBAL const float* dx, GLOBAL const int* inputs, int D, int T, int V, int each, int total, long size) {
  SHARED uchar is_mine[256];
  SHARED int mine[256];
  int v = GROUP, first = GROUP_Y * each, end = min(first + each, total);
  GLOBAL float* own = slots + GROUP_Y * size + (i64)v * D;
  if (v >= V) {
    for (int e = LANE; e < D; e += GROUP_SIZE) {
      float sum = 0.0f;
      for (int m = first + v - V; m < end; m += T) sum = sum + dx[(i64)m * D + e];
      own[e] = sum;
    }
    return;
  }
  for (int begin = first; begin < end; begin += GROUP_SIZE) {
    int m = begin + LANE, before = 0, found = 0, many = min(GROUP_SIZE, end - begin);
    is_mine[LANE] = m < end && inputs[m] == v;
    BARRIER;
    for (int i = 0; i < many; i++) {
      before += i < LANE && is_mine[i];
      found += is_mine[i];
    }
    if (is_mine[LANE]) mine[before] = m;
    BARRIER;
    for (int e = LANE; e < D; e += GROUP_SIZE) {
      float sum = begin > first ? own[e] : 0.0f;
      UNROLL_4
      for (int i = 0; i < found; i++) sum = sum + dx[(i64)mine[i] * D + e];
      own[e] = sum;
    }
    BARRIER;
  }
}
