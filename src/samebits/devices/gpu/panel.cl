// Products of matrices, a tile of the result (tile.cl) a group.

#define AT_TILE(n) \
  int across = ((n) + COLUMNS_TILE - 1) / COLUMNS_TILE, row0 = tile / across * ROWS_TILE, column0 = tile % across * COLUMNS_TILE;

// What becomes of the tile's numbers (gemm.cl), added to c if `begun`. Where all of them are there, loads are on their way
// together: four fours at a time.
#define FOUR_TILE(number) \
  int i = (number) / (MICRO_N / 4), j = (number) % (MICRO_N / 4) * 4, row = row0 + ROW_TILE(i), column = column0 + COLUMN_TILE(j); \
  i64 at = (i64)row * ldc + column; \
  float4 four; \
  four.x = sums[i][j]; four.y = sums[i][j + 1]; four.z = sums[i][j + 2]; four.w = sums[i][j + 3];

DEVICE void finish_TILE(float sums[MICRO_M][MICRO_N], GLOBAL float* c, GLOBAL float* other, int row0, int column0, int m, int n, int ldc, int begun, int what, int scaled, float scale) {
  ANEW(row0);
  ANEW(column0);
  int vectors = IN_FOURS(c, ldc) && IN_FOURS(other, ldc);
  if (vectors && row0 + ROWS_TILE <= m && column0 + COLUMNS_TILE <= n) {
    UNROLL
    for (int block = 0; block < MICRO_M * MICRO_N / 4; block += 4) {
      float4 old[4], slope[4];
      UNROLL
      for (int l = 0; l < 4; l++) {
        FOUR_TILE(block + l)
        if (begun) old[l] = *(GLOBAL const float4*)(c + at);
        if (what == SLOPE) slope[l] = *(GLOBAL const float4*)(other + at);
      }
      UNROLL
      for (int l = 0; l < 4; l++) {
        FOUR_TILE(block + l)
        finish_four(c, other, at, four, old[l], slope[l], 4, 1, begun, what, scaled - column, scale);
      }
    }
    return;
  }
  UNROLL
  for (int block = 0; block < MICRO_M * MICRO_N / 4; block++) {
    FOUR_TILE(block)
    int there = row < m ? n - column : 0;
    float4 old, slope;
    if (there <= 0) continue;
    if (begun) old = fetch_four(c + at, there, vectors);
    if (what == SLOPE) slope = fetch_four(other + at, there, vectors);
    finish_four(c, other, at, four, old, slope, there, vectors, begun, what, scaled - column, scale);
  }
}

// A tile of c (m, n) = a · b, panel by panel; `begun`: added to what is there.
DEVICE void panels_TILE(LOCAL float4* boards, GLOBAL float* c, GLOBAL float* other, GLOBAL const float* a, int lda, int squares, GLOBAL const float* b, int ldb, int b_across, int m, int n, int k, int ldc, int begun, int what, int scaled, float scale) {
  int tile = GROUP;
  AT_TILE(n)
  float sums[MICRO_M][MICRO_N];
  for (int first = 0; first < k; first += DEPTH) {
    product_TILE(sums, boards, a, lda, 0, squares, b, ldb, b_across, row0, column0, m, n, first, min(first + DEPTH, k));
    if (first + DEPTH < k) {
      finish_TILE(sums, c, c, row0, column0, m, n, ldc, begun, STAYS, 0, 1.0f);
      begun = 1;
    }
  }
  finish_TILE(sums, c, other, row0, column0, m, n, ldc, begun, what, scaled, scale);
}

KERNEL ALIKE(GROUP_TILE, BESIDE) void times_TILE(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int ldc, int begun, int squares) {
  SHARED float4 boards[BOARD_TILE];
  panels_TILE(boards, c, c, a, k, squares, b, n, 1, m, n, k, ldc, begun, STAYS, 0, 1.0f);
}

KERNEL ALIKE(GROUP_TILE, BESIDE) void times_positive_TILE(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int ldc) {
  SHARED float4 boards[BOARD_TILE];
  panels_TILE(boards, c, c, a, k, 0, b, n, 1, m, n, k, ldc, 0, POSITIVE, 0, 1.0f);
}

KERNEL ALIKE(GROUP_TILE, BESIDE) void times_scaled_TILE(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int ldc, int scaled, float scale) {
  SHARED float4 boards[BOARD_TILE];
  panels_TILE(boards, c, c, a, k, 0, b, n, 1, m, n, k, ldc, 0, SCALED, scaled, scale);
}

KERNEL ALIKE(GROUP_TILE, BESIDE) void times_transposed_TILE(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int ldc) {
  SHARED float4 boards[BOARD_TILE];
  panels_TILE(boards, c, c, a, k, 0, b, k, 0, m, n, k, ldc, 0, STAYS, 0, 1.0f);
}

KERNEL ALIKE(GROUP_TILE, BESIDE) void times_slope_TILE(GLOBAL float* c, GLOBAL float* positive, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int ldc) {
  SHARED float4 boards[BOARD_TILE];
  panels_TILE(boards, c, positive, a, k, 0, b, k, 0, m, n, k, ldc, 0, SLOPE, 0, 1.0f);
}

// A thread's numbers in a memory of the group's own: kept there, or what lies there added on the left
DEVICE void keep_TILE(GLOBAL float* memory, float sums[MICRO_M][MICRO_N]) {
  UNROLL
  for (int i = 0; i < MICRO_M; i++)
    UNROLL
    for (int j = 0; j < MICRO_N; j += 4) {
      float4 four;
      four.x = sums[i][j]; four.y = sums[i][j + 1]; four.z = sums[i][j + 2]; four.w = sums[i][j + 3];
      ((GLOBAL float4*)memory)[(i * MICRO_N + j) / 4 * GROUP_TILE + LANE] = four;
    }
}

DEVICE void join_TILE(GLOBAL const float* memory, float sums[MICRO_M][MICRO_N]) {
  UNROLL
  for (int i = 0; i < MICRO_M; i++)
    UNROLL
    for (int j = 0; j < MICRO_N; j += 4) {
      float4 four = ((GLOBAL const float4*)memory)[(i * MICRO_N + j) / 4 * GROUP_TILE + LANE];
      sums[i][j] = four.x + sums[i][j];
      sums[i][j + 1] = four.y + sums[i][j + 1];
      sums[i][j + 2] = four.z + sums[i][j + 2];
      sums[i][j + 3] = four.w + sums[i][j + 3];
    }
}

#define MATRIX_TILE(p) \
  tiles = ((m##p + ROWS_TILE - 1) / ROWS_TILE) * ((n##p + COLUMNS_TILE - 1) / COLUMNS_TILE); \
  if (place >= 0 && place < tiles) { \
    a = a##p; b = b##p; m = m##p; n = n##p; at = at##p; tile = place; \
  } \
  place -= tiles;

// Up to five matrices beside each other, those that are not there without rows: aᵀ · b of every unit, its rows starts[unit] …, at
// a place of its slot. In GROUP_Y: `each` units in a row, 2^levels of them, are folded by the tree, and their root is the
// slot's: c_part numbers of c each. What waits for its right sibling lies in c, at the level below the root, and at lower
// levels in `nodes`, where a group keeps so many tiles; so does what waits for the next panel, in c or in the last of them.
KERNEL ALIKE(GROUP_TILE, BESIDE) void by_unit_TILE(GLOBAL float* c, GLOBAL float* nodes, GLOBAL const int* starts, long c_part, int levels, int kept, GLOBAL const float* a0, GLOBAL const float* b0, int m0, int n0, long at0, GLOBAL const float* a1, GLOBAL const float* b1, int m1, int n1, long at1, GLOBAL const float* a2, GLOBAL const float* b2, int m2, int n2, long at2, GLOBAL const float* a3, GLOBAL const float* b3, int m3, int n3, long at3, GLOBAL const float* a4, GLOBAL const float* b4, int m4, int n4, long at4) {
  SHARED float4 boards[BOARD_TILE];
  float sums[MICRO_M][MICRO_N];
  int place = GROUP, tile = 0, tiles, m = 0, n = 0, each = 1 << levels, size = GROUP_TILE * MICRO_M * MICRO_N;
  i64 at = 0;
  GLOBAL const float* a = a0;
  GLOBAL const float* b = b0;
  MATRIX_TILE(0)
  MATRIX_TILE(1)
  MATRIX_TILE(2)
  MATRIX_TILE(3)
  MATRIX_TILE(4)
  AT_TILE(n)
  c += GROUP_Y * c_part + at;
  nodes += (i64)(GROUP_Y * GROUPS + GROUP) * kept * size;
  NO_UNROLL
  for (int unit = 0; unit < each; unit++) {
    int begin = starts[GROUP_Y * each + unit], rows = starts[GROUP_Y * each + unit + 1] - begin;
    NO_UNROLL
    for (int first = 0; first == 0 || first < rows; first += DEPTH) {
      int begun = levels ? unit >= each / 2 : first > 0, level = 0;
      product_TILE(sums, boards, a + (i64)begin * m, m, 1, 0, b + (i64)begin * n, n, 1, row0, column0, m, n, first, min(first + DEPTH, rows));
      if (levels && first > 0) join_TILE(nodes + (kept - 1) * size, sums);
      if (levels && first + DEPTH < rows) {
        keep_TILE(nodes + (kept - 1) * size, sums);
        continue;
      }
      for (; level < levels - 1 && ((unit >> level) & 1); level++) join_TILE(nodes + level * size, sums);
      if (level < levels - 1) keep_TILE(nodes + level * size, sums);
      else finish_TILE(sums, c, c, row0, column0, m, n, n, begun, STAYS, 0, 1.0f);
    }
  }
}
