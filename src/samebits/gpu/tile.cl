// A tile of a matrix product (engine/gemm.py): every number is one chain of fused multiply-adds over its terms, in order. A group
// of DOWN · ALONG threads has ROWS_TILE · COLUMNS_TILE numbers, a thread MICRO_M · MICRO_N of them, in blocks of four where
// there are so many. Terms come TERMS at a time through shared memory, where one lot waits while another is used.
// products.py writes the words with _TILE, MICRO_M … ALONG and TERMS for several sizes.

#define ROWS_TILE (MICRO_M * DOWN)
#define COLUMNS_TILE (MICRO_N * ALONG)
#define GROUP_TILE (DOWN * ALONG)
#define LEFT_TILE (TERMS * (ROWS_TILE + 4))  // floats of a lot
#define RIGHT_TILE (TERMS * (COLUMNS_TILE + 4))
#define LEFT_LOADS_TILE (ROWS_TILE * TERMS / 4 / GROUP_TILE)
#define RIGHT_LOADS_TILE ((COLUMNS_TILE * TERMS / 4 + GROUP_TILE - 1) / GROUP_TILE)
#define BOARD_TILE ((LEFT_TILE + RIGHT_TILE) / 2)  // float4s of two lots of both
#define ROW_TILE(i) (4 * (LANE / ALONG) + (i) / 4 * 4 * DOWN + (i) % 4)
#if MICRO_N < 4
#define COLUMN_TILE(j) (LANE % ALONG + (j) * ALONG)
#else
#define COLUMN_TILE(j) (4 * (LANE % ALONG) + (j) / 4 * 4 * ALONG + (j) % 4)
#endif

// One thread's part of the next lot: four neighbours each, along the terms or across them.
DEVICE void fetch_TILE(float* got, int loads, int length, GLOBAL const float* x, int stride, int across, int first, int end, int from, int limit, int vectors) {
  UNROLL
  for (int l = 0; l < loads; l++) {
    int item = LANE + l * GROUP_TILE, term, place;
    if (across) { term = item / (length / 4); place = item % (length / 4) * 4; } else { term = item % (TERMS / 4) * 4; place = item / (TERMS / 4); }
    int there = 0;
    if (term < TERMS && place < length) {
      if (across) there = first + term < end ? limit - from - place : 0;
      else there = from + place < limit ? end - first - term : 0;
    }
    i64 at = across ? (i64)(first + term) * stride + from + place : (i64)(from + place) * stride + first + term;
    fetch_four(got + 4 * l, x + at, there, vectors);
  }
}

DEVICE void put_TILE(LOCAL float* board, const float* got, int loads, int length, int across, float scale) {
  UNROLL
  for (int l = 0; l < loads; l++) {
    int item = LANE + l * GROUP_TILE;
    for (int q = 0; q < 4; q++) {
      int term = across ? item / (length / 4) : item % (TERMS / 4) * 4 + q;
      int place = across ? item % (length / 4) * 4 + q : item / (TERMS / 4);
      if (term < TERMS && place < length) board[term * (length + 4) + place] = got[4 * l + q] * scale;
    }
  }
}

// sums += a (m, k) · b (k, n), the tile at (row0, column0), its terms first … end. a or b may lie transposed: a_across says that
// neighbours in memory are rows, b_across that they are columns.
DEVICE void product_TILE(float sums[MICRO_M][MICRO_N], LOCAL float4* boards, GLOBAL const float* a, int lda, int a_across, float a_scale, GLOBAL const float* b, int ldb, int b_across, float b_scale, int row0, int column0, int m, int n, int first, int end) {
  LOCAL float* board = (LOCAL float*)boards;
  float left[4 * LEFT_LOADS_TILE], right[4 * RIGHT_LOADS_TILE];
  int a_vectors = IN_FOURS(a, lda), b_vectors = IN_FOURS(b, ldb), lot = 0;
  fetch_TILE(left, LEFT_LOADS_TILE, ROWS_TILE, a, lda, a_across, first, end, row0, m, a_vectors);
  fetch_TILE(right, RIGHT_LOADS_TILE, COLUMNS_TILE, b, ldb, b_across, first, end, column0, n, b_vectors);
  put_TILE(board, left, LEFT_LOADS_TILE, ROWS_TILE, a_across, a_scale);
  put_TILE(board + 2 * LEFT_TILE, right, RIGHT_LOADS_TILE, COLUMNS_TILE, b_across, b_scale);
  BARRIER;
  for (int k = first; k < end; k += TERMS) {
    int more = k + TERMS < end;
    if (more) {
      fetch_TILE(left, LEFT_LOADS_TILE, ROWS_TILE, a, lda, a_across, k + TERMS, end, row0, m, a_vectors);
      fetch_TILE(right, RIGHT_LOADS_TILE, COLUMNS_TILE, b, ldb, b_across, k + TERMS, end, column0, n, b_vectors);
    }
    LOCAL const float* u = board + lot * LEFT_TILE;
    LOCAL const float* v = board + 2 * LEFT_TILE + lot * RIGHT_TILE;
    UNROLL
    for (int t = 0; t < TERMS; t++) {
      float x[MICRO_M], y[MICRO_N];
      UNROLL
      for (int i = 0; i < MICRO_M; i += 4) {
        float4 four = *(LOCAL const float4*)(u + t * (ROWS_TILE + 4) + ROW_TILE(i));
        x[i] = four.x; x[i + 1] = four.y; x[i + 2] = four.z; x[i + 3] = four.w;
      }
#if MICRO_N < 4
      UNROLL
      for (int j = 0; j < MICRO_N; j++) y[j] = v[t * (COLUMNS_TILE + 4) + COLUMN_TILE(j)];
#else
      UNROLL
      for (int j = 0; j < MICRO_N; j += 4) {
        float4 four = *(LOCAL const float4*)(v + t * (COLUMNS_TILE + 4) + COLUMN_TILE(j));
        y[j] = four.x; y[j + 1] = four.y; y[j + 2] = four.z; y[j + 3] = four.w;
      }
#endif
      UNROLL
      for (int i = 0; i < MICRO_M; i++)
        UNROLL
        for (int j = 0; j < MICRO_N; j++) sums[i][j] = FMA(x[i], y[j], sums[i][j]);
    }
    lot = 1 - lot;
    if (more) {
      put_TILE(board + lot * LEFT_TILE, left, LEFT_LOADS_TILE, ROWS_TILE, a_across, a_scale);
      put_TILE(board + 2 * LEFT_TILE + lot * RIGHT_TILE, right, RIGHT_LOADS_TILE, COLUMNS_TILE, b_across, b_scale);
    }
    BARRIER;
  }
}

// c (m, n) = a · b, + c if ADD, in panels of 512 terms that are added in order; and what becomes of the numbers (gemm.cl).
DEVICE void whole_product_TILE(LOCAL float4* boards, GLOBAL float* c, GLOBAL float* other, GLOBAL const float* a, int a_across, GLOBAL const float* b, int b_across, int m, int n, int depth, int lda, int ldb, int ldc, int flags) {
  int across = (n + COLUMNS_TILE - 1) / COLUMNS_TILE, row0 = GROUP / across * ROWS_TILE, column0 = GROUP % across * COLUMNS_TILE;
  int begun = flags & ADD;
  for (int k = 0; k == 0 || k < depth; k += DEPTH) {
    float sums[MICRO_M][MICRO_N];
    UNROLL
    for (int i = 0; i < MICRO_M; i++)
      UNROLL
      for (int j = 0; j < MICRO_N; j++) sums[i][j] = 0.0f;
    product_TILE(sums, boards, a, lda, a_across, 1.0f, b, ldb, b_across, 1.0f, row0, column0, m, n, k, min(k + DEPTH, depth));
    int last = k + DEPTH >= depth;
    UNROLL
    for (int i = 0; i < MICRO_M; i++)
      UNROLL
      for (int j = 0; j < MICRO_N; j++) {
        int row = row0 + ROW_TILE(i), column = column0 + COLUMN_TILE(j);
        if (row < m && column < n) {
          i64 at = (i64)row * ldc + column;
          float value = begun ? c[at] + sums[i][j] : sums[i][j];
          finish_number(c, other, at, value, last ? flags : 0);
        }
      }
    begun = 1;
  }
}

KERNEL void times_TILE(GLOBAL float* c, GLOBAL float* other, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int lda, int ldb, int ldc, int flags) {
  SHARED float4 boards[BOARD_TILE];
  whole_product_TILE(boards, c, other, a, 0, b, 1, m, n, k, lda, ldb, ldc, flags);
}

KERNEL void times_transposed_TILE(GLOBAL float* c, GLOBAL float* other, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int lda, int ldb, int ldc, int flags) {
  SHARED float4 boards[BOARD_TILE];
  whole_product_TILE(boards, c, other, a, 0, b, 0, m, n, k, lda, ldb, ldc, flags);
}

// Several beside each other, in GROUP_Y: aᵀ · b of the rows starts[y] … starts[y + 1], c_part numbers of c each.
KERNEL void by_unit_TILE(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, GLOBAL const int* starts, int m, int n, int lda, int ldb, long c_part) {
  SHARED float4 boards[BOARD_TILE];
  i64 first = starts[GROUP_Y];
  GLOBAL float* own = c + GROUP_Y * c_part;
  whole_product_TILE(boards, own, own, a + first * lda, 1, b + first * ldb, 1, m, n, starts[GROUP_Y + 1] - (int)first, lda, ldb, n, 0);
}
