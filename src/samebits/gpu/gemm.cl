// Matrix products (engine/gemm.py): every number is one chain of fused multiply-adds over k from 0 on, in panels of 512 terms
// that are added in order.

#define SIDE 64  // rows and columns of a group's tile
#define STEP 16  // terms at a time
#define DEPTH 512
#define A_TRANSPOSED 1
#define B_TRANSPOSED 2
#define ADD 4
#define PARTS 8

// c (m, n) = a (m, k) · b (k, n), + c if ADD. If PARTS, several beside each other, in GROUP_Y: their terms are the rows starts[y]
// … starts[y + 1] of a and b, both by rows of k, and c has c_part numbers each.
KERNEL void gemm(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, GLOBAL const int* starts, int m, int n, int k, int lda, int ldb, int ldc, int flags, long c_part) {
  SHARED float left[STEP][SIDE + 4];
  SHARED float right[STEP][SIDE + 4];
  int across = (n + SIDE - 1) / SIDE, row0 = GROUP / across * SIDE, column0 = GROUP % across * SIDE;
  int depth = k, x = LANE % 16, y = LANE / 16;
  if (flags & PARTS) {
    depth = starts[GROUP_Y + 1] - starts[GROUP_Y];
    a += (i64)starts[GROUP_Y] * lda;
    b += (i64)starts[GROUP_Y] * ldb;
    c += GROUP_Y * c_part;
  }
  float sums[4][4], whole[4][4];
  int begun = flags & ADD;
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      int row = row0 + 4 * y + i, column = column0 + 4 * x + j;
      sums[i][j] = 0.0f;
      whole[i][j] = begun && row < m && column < n ? c[(i64)row * ldc + column] : 0.0f;
    }
  for (int k0 = 0; k0 < depth; k0 += STEP) {
    for (int l = LANE; l < SIDE * STEP; l += 256) {
      int row, kk;
      if (flags & A_TRANSPOSED) { row = l % SIDE; kk = l / SIDE; } else { row = l / STEP; kk = l % STEP; }
      int there = row0 + row < m && k0 + kk < depth;
      i64 at = flags & A_TRANSPOSED ? (i64)(k0 + kk) * lda + row0 + row : (i64)(row0 + row) * lda + k0 + kk;
      left[kk][row] = there ? a[at] : 0.0f;
      int column;
      if (flags & B_TRANSPOSED) { column = l / STEP; kk = l % STEP; } else { column = l % SIDE; kk = l / SIDE; }
      there = column0 + column < n && k0 + kk < depth;
      at = flags & B_TRANSPOSED ? (i64)(column0 + column) * ldb + k0 + kk : (i64)(k0 + kk) * ldb + column0 + column;
      right[kk][column] = there ? b[at] : 0.0f;
    }
    BARRIER;
    for (int kk = 0; kk < STEP; kk++) {
      float u[4], v[4];
      for (int i = 0; i < 4; i++) u[i] = left[kk][4 * y + i];
      for (int j = 0; j < 4; j++) v[j] = right[kk][4 * x + j];
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sums[i][j] = FMA(u[i], v[j], sums[i][j]);
    }
    BARRIER;
    if ((k0 + STEP) % DEPTH == 0 || k0 + STEP >= depth) {
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
          whole[i][j] = begun ? whole[i][j] + sums[i][j] : sums[i][j];
          sums[i][j] = 0.0f;
        }
      begun = 1;
    }
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      int row = row0 + 4 * y + i, column = column0 + 4 * x + j;
      if (row < m && column < n) c[(i64)row * ldc + column] = whole[i][j];
    }
}
