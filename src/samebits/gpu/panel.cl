// Products of matrices, a tile of the result (tile.cl) a group.

// A panel of c (m, n) = a · b: the terms first … end, at most 512; `begun`: others were there before. What becomes of the
// numbers in the end: gemm.cl.
DEVICE void panel_TILE(LOCAL float4* boards, GLOBAL float* c, GLOBAL float* other, GLOBAL const float* a, int lda, int a_across, GLOBAL const float* b, int ldb, int b_across, int m, int n, int ldc, int first, int end, int begun, int what, int scaled, float scale) {
  int across = (n + COLUMNS_TILE - 1) / COLUMNS_TILE, row0 = GROUP / across * ROWS_TILE, column0 = GROUP % across * COLUMNS_TILE;
  int vectors = IN_FOURS(c, ldc) && IN_FOURS(other, ldc);
  float sums[MICRO_M][MICRO_N];
  UNROLL
  for (int i = 0; i < MICRO_M; i++)
    UNROLL
    for (int j = 0; j < MICRO_N; j++) sums[i][j] = 0.0f;
  product_TILE(sums, boards, a, lda, a_across, b, ldb, b_across, row0, column0, m, n, first, end);
  UNROLL
  for (int i = 0; i < MICRO_M; i++)
    UNROLL
    for (int j = 0; j < MICRO_N; j += 4) {
      int row = row0 + ROW_TILE(i), column = column0 + COLUMN_TILE(j);
      float4 four;
      four.x = sums[i][j]; four.y = sums[i][j + 1]; four.z = sums[i][j + 2]; four.w = sums[i][j + 3];
      if (row < m && column < n) finish_four(c, other, (i64)row * ldc + column, four, n - column, vectors, begun, what, scaled - column, scale);
    }
}

KERNEL ALIKE(GROUP_TILE, BESIDE) void times_TILE(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int ldc, int first, int end, int begun) {
  SHARED float4 boards[BOARD_TILE];
  panel_TILE(boards, c, c, a, k, 0, b, n, 1, m, n, ldc, first, end, begun, STAYS, 0, 1.0f);
}

KERNEL ALIKE(GROUP_TILE, BESIDE) void times_squared_TILE(GLOBAL float* c, GLOBAL float* squares, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int ldc, int first, int end, int begun) {
  SHARED float4 boards[BOARD_TILE];
  panel_TILE(boards, c, squares, a, k, 0, b, n, 1, m, n, ldc, first, end, begun, SQUARED, 0, 1.0f);
}

KERNEL ALIKE(GROUP_TILE, BESIDE) void times_scaled_TILE(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int ldc, int first, int end, int begun, int scaled, float scale) {
  SHARED float4 boards[BOARD_TILE];
  panel_TILE(boards, c, c, a, k, 0, b, n, 1, m, n, ldc, first, end, begun, SCALED, scaled, scale);
}

KERNEL ALIKE(GROUP_TILE, BESIDE) void times_transposed_TILE(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int ldc, int first, int end, int begun) {
  SHARED float4 boards[BOARD_TILE];
  panel_TILE(boards, c, c, a, k, 0, b, k, 0, m, n, ldc, first, end, begun, STAYS, 0, 1.0f);
}

KERNEL ALIKE(GROUP_TILE, BESIDE) void times_slope_TILE(GLOBAL float* c, GLOBAL float* positive, GLOBAL const float* a, GLOBAL const float* b, int m, int n, int k, int ldc, int first, int end, int begun) {
  SHARED float4 boards[BOARD_TILE];
  panel_TILE(boards, c, positive, a, k, 0, b, k, 0, m, n, ldc, first, end, begun, SLOPE, 0, 1.0f);
}

// Several beside each other, in GROUP_Y: aᵀ · b of the rows starts[y] … starts[y + 1]; c_part numbers of c each.
KERNEL ALIKE(GROUP_TILE, BESIDE) void by_unit_TILE(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, GLOBAL const int* starts, int m, int n, long c_part) {
  SHARED float4 boards[BOARD_TILE];
  int begin = starts[GROUP_Y], rows = starts[GROUP_Y + 1] - begin;
  GLOBAL float* own = c + GROUP_Y * c_part;
  a += (i64)begin * m;
  b += (i64)begin * n;
  for (int first = 0; first == 0 || first < rows; first += DEPTH)
    panel_TILE(boards, own, own, a, m, 1, b, n, 1, m, n, n, first, min(first + DEPTH, rows), first, STAYS, 0, 1.0f);
}
