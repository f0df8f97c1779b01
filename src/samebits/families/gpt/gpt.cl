// The transformer (kernels.py, attention.py): rows m of all samples at once, D numbers wide.

#define ELEMENT (GROUP * GROUP_SIZE + LANE)

KERNEL void embed(GLOBAL float* x, GLOBAL const float* token, GLOBAL const float* position, GLOBAL const int* inputs, int D, int T) {
  i64 from = (i64)inputs[GROUP] * D, at = GROUP % T * D;
  for (int e = LANE; e < D; e += GROUP_SIZE) x[(i64)GROUP * D + e] = token[from + e] + position[at + e];
}

// A warp a row, of so many; those past the end come along, as all meet.
#define MOST_ROWS 8  // of a group
#define OWN_ROW \
  SHARED float board[32 * MOST_ROWS]; \
  int own = GROUP * (GROUP_SIZE / 32) + LANE / 32, lane = LANE % 32, width = own < rows ? D : 0; \
  i64 at = (i64)own * D;

// n = x · r, r = 1 / √(mean x² + eps)
KERNEL void norm_forward(GLOBAL float* n, GLOBAL float* r, GLOBAL const float* x, int D, int rows) {
  OWN_ROW
  float sum = 0.0f;
  UNROLL_4
  for (int i = lane; i < width; i += 32) sum = FMA(x[at + i], x[at + i], sum);
  sum = sum_lanes32(board, sum);
  float share = (float)(1.0 / SQRT64((double)sum / D + EPS));
  if (lane == 0 && width) r[own] = share;
  UNROLL_4
  for (int i = lane; i < width; i += 32) n[at + i] = x[at + i] * share;
}

// dx = old + r · (dn − n · mean(dn·n)); from zero if `fresh`
KERNEL void norm_backward(GLOBAL float* dx, GLOBAL const float* old, GLOBAL const float* dn, GLOBAL const float* n, GLOBAL const float* r, int D, int rows, int fresh) {
  OWN_ROW
  float sum = 0.0f, share = width ? r[own] : 0.0f;
  UNROLL_4
  for (int i = lane; i < width; i += 32) sum = FMA(dn[at + i], n[at + i], sum);
  float mean = DIVIDE(-sum_lanes32(board, sum), (float)D);
  UNROLL_4
  for (int i = lane; i < width; i += 32) dx[at + i] = FMA(share, FMA(n[at + i], mean, dn[at + i]), fresh ? 0.0f : old[at + i]);
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
#define WARPS 4
#define SOME 4  // rows that a warp has at once; of each a lane keeps KEPT numbers at hand

// Over the lanes, of every row
DEVICE void max_some(LOCAL float* board, float* top) {
  UNROLL
  for (int k = 0; k < SOME; k++) top[k] = max_lanes32(board, top[k]);
}

DEVICE void sum_some(LOCAL float* board, float* sum) {
  UNROLL
  for (int k = 0; k < SOME; k++) sum[k] = sum_lanes32(board, sum[k]);
}

// Groups begin with the rows that have most to do, in all heads: the last ones, which see all columns, or those that all see.
#define HEAD_OF_GROUP(last_first) \
  SHARED float4 boards[BOARD_SCORES > BOARD_HEAD ? BOARD_SCORES : BOARD_HEAD]; \
  int tiles = (T + QUERIES - 1) / QUERIES, heads = GROUPS / tiles, head = GROUP % heads, d = D / H; \
  int row0 = ((last_first) ? tiles - 1 - GROUP / heads : GROUP / heads) * QUERIES; \
  int end = min(row0 + QUERIES, T); \
  GLOBAL const float* q = qkv + (i64)(head / H) * T * 3 * D + head % H * d; \
  GLOBAL const float* k = q + D; \
  GLOBAL const float* v = k + D;

// out (T, T), the group's rows = a (T, d) · bᵀ (T, d)
DEVICE void scores(LOCAL float4* boards, GLOBAL float* out, GLOBAL const float* a, int lda, GLOBAL const float* b, int ldb, int row0, int end, int T, int d) {
  int vectors = IN_FOURS(out, T);
  NO_UNROLL
  for (int column0 = 0; column0 < end; column0 += QUERIES) {
    float sums[8][4];
    product_SCORES(sums, boards, factor(a, lda, 0), factor(b, ldb, 0), 0, tile_at(row0, column0, end, end), 0, d);
    UNROLL
    for (int i = 0; i < 8; i++) {
      int row = row0 + row_SCORES(i), column = column0 + column_SCORES(0);
      float4 four;
      four.x = sums[i][0]; four.y = sums[i][1]; four.z = sums[i][2]; four.w = sums[i][3];
      if (row < end && column < end) store_four(out + (i64)row * T + column, four, end - column, vectors);
    }
  }
  BARRIER;
}

// out (T, d), the rows from row0 = scale · a (T, T), or aᵀ, · b (T, d), over the terms first … last
DEVICE void gather(LOCAL float4* boards, GLOBAL float* out, int ldo, float scale, GLOBAL const float* a, int transposed, GLOBAL const float* b, int ldb, int row0, int first, int last, int T, int d) {
  NO_UNROLL
  for (int column0 = 0; column0 < d; column0 += COLUMNS_HEAD) {
    float sums[HEAD_M][HEAD_N], whole[HEAD_M][HEAD_N];
    NO_UNROLL
    for (int term = first; term < last;) {
      int next = min(term / DEPTH * DEPTH + DEPTH, last);
      product_HEAD(sums, boards, factor(a, T, transposed), factor(b, ldb, 1), 0, tile_at(row0, column0, T, d), term, next);
      UNROLL
      for (int i = 0; i < HEAD_M; i++)
        UNROLL
        for (int j = 0; j < HEAD_N; j++) whole[i][j] = term > first ? whole[i][j] + sums[i][j] : sums[i][j];
      term = next;
    }
    UNROLL
    for (int i = 0; i < HEAD_M; i++)
      UNROLL
      for (int j = 0; j < HEAD_N; j++) {
        int row = row0 + row_HEAD(i), column = column0 + column_HEAD(j);
        if (row < T && column < d) out[(i64)row * ldo + column] = scale * whole[i][j];
      }
  }
}

// The group's rows of P (T, T), from scores to chances; what lies beyond the numbers at hand is read again.
DEVICE void softmax(LOCAL float* board, GLOBAL float* P, int row0, int end, int T) {
  int lane = LANE % 32;
  NO_UNROLL
  for (int r = SOME * (LANE / 32); r < QUERIES; r += SOME * WARPS) {
    float kept[SOME][KEPT], top[SOME], sum[SOME];
    UNROLL
    for (int k = 0; k < SOME; k++) {
      int i = row0 + r + k, seen = i < T ? i + 1 : 0;
      GLOBAL float* row = P + (i64)i * T + lane;
      top[k] = -INFINITY;
      sum[k] = 0.0f;
      UNROLL
      for (int l = 0; l < KEPT; l++) kept[k][l] = lane + 32 * l < seen ? row[32 * l] : -INFINITY;
      UNROLL
      for (int l = 0; l < KEPT; l++) if (kept[k][l] > top[k]) top[k] = kept[k][l];
      for (int j = 32 * KEPT; j + lane < seen; j += 32) if (row[j] > top[k]) top[k] = row[j];
    }
    max_some(board, top);
    UNROLL
    for (int k = 0; k < SOME; k++) {
      int i = row0 + r + k, seen = i < T ? i + 1 : 0;
      GLOBAL float* row = P + (i64)i * T + lane;
      UNROLL
      for (int l = 0; l < KEPT; l++)
        if (lane + 32 * l < seen) {
          kept[k][l] = exp_chain(kept[k][l] - top[k]);
          sum[k] = sum[k] + kept[k][l];
        }
      for (int j = 32 * KEPT; j + lane < seen; j += 32) {
        row[j] = exp_chain(row[j] - top[k]);
        sum[k] = sum[k] + row[j];
      }
    }
    sum_some(board, sum);
    UNROLL
    for (int k = 0; k < SOME; k++) {
      int i = row0 + r + k, seen = i < T ? i + 1 : 0;
      GLOBAL float* row = P + (i64)i * T + lane;
      float share = DIVIDE(1.0f, sum[k]);
      UNROLL
      for (int l = 0; l < KEPT; l++)
        if (seen && lane + 32 * l < end) row[32 * l] = lane + 32 * l < seen ? kept[k][l] * share : 0.0f;
      for (int j = 32 * KEPT; seen && j + lane < end; j += 32) row[j] = j + lane < seen ? row[j] * share : 0.0f;
    }
  }
  BARRIER;
}

KERNEL ALIKE(128, 4) void attention_forward(GLOBAL float* y, GLOBAL float* chances, GLOBAL const float* qkv, int T, int D, int H, float scale) {
  HEAD_OF_GROUP(1)
  SHARED float board[32 * WARPS];
  GLOBAL float* P = chances + (i64)head * T * T;
  scores(boards, P, q, 3 * D, k, 3 * D, row0, end, T, d);
  softmax(board, P, row0, end, T);
  gather(boards, y + (i64)(head / H) * T * D + head % H * d, D, 1.0f, P, 0, v, 3 * D, row0, 0, end, T, d);
}

// Its chances once more, where they were not kept
KERNEL ALIKE(128, 4) void attention_chances(GLOBAL float* chances, GLOBAL const float* qkv, int T, int D, int H, float scale) {
  HEAD_OF_GROUP(1)
  SHARED float board[32 * WARPS];
  GLOBAL float* P = chances + (i64)head * T * T;
  scores(boards, P, q, 3 * D, k, 3 * D, row0, end, T, d);
  softmax(board, P, row0, end, T);
}

// … and back: the slopes of its scores, and dq.
KERNEL ALIKE(128, 4) void attention_back_rows(GLOBAL float* dqkv, GLOBAL float* slopes, GLOBAL const float* dy, GLOBAL const float* chances, GLOBAL const float* qkv, int T, int D, int H, float scale) {
  HEAD_OF_GROUP(1)
  SHARED float board[32 * WARPS];
  GLOBAL const float* P = chances + (i64)head * T * T;
  GLOBAL float* dS = slopes + (i64)head * T * T;
  scores(boards, dS, dy + (i64)(head / H) * T * D + head % H * d, D, v, 3 * D, row0, end, T, d);
  int lane = LANE % 32;
  NO_UNROLL
  for (int r = SOME * (LANE / 32); r < QUERIES; r += SOME * WARPS) {
    float chance[SOME][KEPT], slope[SOME][KEPT], sum[SOME];
    UNROLL
    for (int k = 0; k < SOME; k++) {
      int i = row0 + r + k, seen = i < T ? i + 1 : 0;
      i64 at = (i64)i * T + lane;
      sum[k] = 0.0f;
      UNROLL
      for (int l = 0; l < KEPT; l++) {
        chance[k][l] = lane + 32 * l < seen ? P[at + 32 * l] : 0.0f;
        slope[k][l] = lane + 32 * l < seen ? dS[at + 32 * l] : 0.0f;
      }
      UNROLL
      for (int l = 0; l < KEPT; l++) if (lane + 32 * l < seen) sum[k] = FMA(chance[k][l], slope[k][l], sum[k]);
      for (int j = 32 * KEPT; j + lane < seen; j += 32) sum[k] = FMA(P[at + j], dS[at + j], sum[k]);
    }
    sum_some(board, sum);
    UNROLL
    for (int k = 0; k < SOME; k++) {
      int i = row0 + r + k, seen = i < T ? i + 1 : 0;
      i64 at = (i64)i * T + lane;
      UNROLL
      for (int l = 0; l < KEPT; l++)
        if (seen && lane + 32 * l < end) dS[at + 32 * l] = lane + 32 * l < seen ? chance[k][l] * (slope[k][l] - sum[k]) : 0.0f;
      for (int j = 32 * KEPT; seen && j + lane < end; j += 32) dS[at + j] = j + lane < seen ? P[at + j] * (dS[at + j] - sum[k]) : 0.0f;
    }
  }
  BARRIER;
  gather(boards, dqkv + (q - qkv), 3 * D, scale, dS, 0, k, 3 * D, row0, 0, end, T, d);
}

// A group has keys: dk, or in the second row of groups dv, from the queries that looked at them.
KERNEL ALIKE(128, 4) void attention_back_columns(GLOBAL float* dqkv, GLOBAL const float* slopes, GLOBAL const float* dy, GLOBAL const float* chances, GLOBAL const float* qkv, int T, int D, int H, float scale) {
  HEAD_OF_GROUP(0)
  GLOBAL const float* a = (GROUP_Y ? chances : slopes) + (i64)head * T * T;
  GLOBAL const float* b = GROUP_Y ? dy + (i64)(head / H) * T * D + head % H * d : q;
  gather(boards, dqkv + ((GROUP_Y ? v : k) - qkv), 3 * D, 1.0f, a, 1, b, GROUP_Y ? D : 3 * D, row0, row0, T, T, d);
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

// A warp a unit: its rows in order, read together. rows (units, columns) get nats, and if there are three columns counts and hits.
KERNEL void sum_rows(GLOBAL double* rows, GLOBAL const double* told, int each, int total, int columns) {
  SHARED double board[3 * 32];
  int end = min((GROUP + 1) * each, total);
  double sum = 0.0;
  for (int begin = GROUP * each; begin < end; begin += 32) {
    BARRIER;
    for (int i = LANE; i < 3 * 32; i += GROUP_SIZE) board[i] = begin + i / 3 < end ? told[3 * begin + i] : 0.0;
    BARRIER;
    if (LANE < 3)
      for (int i = 0; i < 32; i++) if (board[3 * i + 1] != 0.0) sum = sum + board[3 * i + LANE];
  }
  if (LANE < columns) rows[GROUP * columns + LANE] = sum;
}

// A group has a row of the token or position gradients of 2^levels units, folded by the tree: of each, the rows of dx that it
// stands for, in order. Of tokens it looks for them first, as many at once as it has threads.
#define MOST_LEVELS 6
#define MOST_WARPS 8

KERNEL void embed_backward(GLOBAL float* slots, GLOBAL const float* dx, GLOBAL const int* inputs, int D, int T, int V, int each, int total, long size, int levels) {
  SHARED uchar is_mine[32 * MOST_WARPS];
  SHARED int mine[32 * MOST_WARPS], of_warp[MOST_WARPS];
  int v = GROUP, warp = LANE / 32;
  float nodes[MOST_LEVELS + 1];  // in registers: nothing but loops that are unrolled looks at them
  for (int e = LANE; e - LANE < D; e += GROUP_SIZE) {
    for (int unit = 0; unit < 1 << levels; unit++) {
      int first = ((GROUP_Y << levels) + unit) * each, end = min(first + each, total);
      float sum = 0.0f;
      if (v >= V) {
        for (int m = first + v - V; m < end && e < D; m += T) sum = sum + dx[(i64)m * D + e];
      }
      for (int begin = first; begin < end && v < V; begin += GROUP_SIZE) {
        int m = begin + LANE, before = 0, found = 0;
        is_mine[LANE] = m < end && inputs[m] == v;
        BARRIER;
        for (int i = 0; i < 32; i++) {
          before += 32 * warp + i < LANE && is_mine[32 * warp + i];
          found += is_mine[32 * warp + i];
        }
        if (LANE % 32 == 0) of_warp[warp] = found;
        BARRIER;
        found = 0;
        for (int w = 0; w < GROUP_SIZE / 32; w++) {
          before += w < warp ? of_warp[w] : 0;
          found += of_warp[w];
        }
        if (is_mine[LANE]) mine[before] = m;
        BARRIER;
        UNROLL_4
        for (int i = 0; i < found && e < D; i++) sum = sum + dx[(i64)mine[i] * D + e];
        BARRIER;
      }
      UNROLL
      for (int level = 0; level <= MOST_LEVELS; level++) {
        if (((unit >> level) & 1) == 0) {
          nodes[level] = sum;
          break;
        }
        sum = nodes[level] + sum;
      }
      if (unit + 1 == 1 << levels && e < D) slots[GROUP_Y * size + (i64)v * D + e] = sum;
    }
  }
}
