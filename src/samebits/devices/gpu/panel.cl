// Products of matrices, a tile of the result (tile.cl) a group.

// Number `place` of the tiles of a result (m, n)
DEVICE Tile OF_TILE(tile)(int place, int m, int n) {
  int across = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
  return tile_at(place / across * TILE_ROWS, place % across * TILE_COLUMNS, m, n);
}

// What becomes of the tile's numbers (gemm.cl). Where all of them are there, loads are on their way
// together: four fours at a time.
#define FOUR_OF(number) \
  int i = (number) / (MICRO_N / 4), j = (number) % (MICRO_N / 4) * 4, row = row0 + ROW_OF(i), column = column0 + COLUMN_OF(j); \
  i64 at = (i64)row * p.ldc + column; \
  float4 four; \
  four.x = sums[i][j]; four.y = sums[i][j + 1]; four.z = sums[i][j + 2]; four.w = sums[i][j + 3];

DEVICE void OF_TILE(finish)(float sums[MICRO_M][MICRO_N], GLOBAL float* c, GLOBAL float* other, int row0, int column0, Product p) {
  ANEW(row0);
  ANEW(column0);
  int vectors = IN_FOURS(c, p.ldc) && IN_FOURS(other, p.ldc);
  if (vectors && row0 + TILE_ROWS <= p.m && column0 + TILE_COLUMNS <= p.n) {
    UNROLL
    for (int block = 0; block < MICRO_M * MICRO_N / 4; block += 4) {
      float4 old[4], slope[4];
      UNROLL
      for (int l = 0; l < 4; l++) {
        FOUR_OF(block + l)
        if (p.begun) old[l] = *(GLOBAL const float4*)(c + at);
        if (p.what == SLOPE) slope[l] = *(GLOBAL const float4*)(other + at);
      }
      UNROLL
      for (int l = 0; l < 4; l++) {
        FOUR_OF(block + l)
        if (p.begun) four = add_four(old[l], four);
        finish_four(c + at, other + at, four, slope[l], 4, 1, column, p);
      }
    }
    return;
  }
  UNROLL
  for (int block = 0; block < MICRO_M * MICRO_N / 4; block++) {
    FOUR_OF(block)
    int there = row < p.m ? p.n - column : 0;
    float4 slope;
    if (there <= 0) continue;
    if (p.begun) four = add_four(fetch_four(c + at, there, vectors), four);
    if (p.what == SLOPE) slope = fetch_four(other + at, there, vectors);
    finish_four(c + at, other + at, four, slope, there, vectors, column, p);
  }
}

// A tile of c = a · b, panel by panel
DEVICE void OF_TILE(panels)(LOCAL float4* boards, GLOBAL float* c, GLOBAL float* other, GLOBAL const float* a, GLOBAL const float* b, int b_across, Product p) {
  Tile tile = OF_TILE(tile)(GROUP, p.m, p.n);
  Product part = p;
  float sums[MICRO_M][MICRO_N];
  part.what = STAYS;
  for (int first = 0; first < p.k; first += DEPTH) {
    OF_TILE(product)(sums, boards, factor(a, p.k, 0), factor(b, b_across ? p.n : p.k, b_across), p.squares, tile, first, min(first + DEPTH, p.k));
    if (first + DEPTH < p.k) {
      OF_TILE(finish)(sums, c, c, tile.row0, tile.column0, part);
      part.begun = p.begun = 1;
    }
  }
  OF_TILE(finish)(sums, c, other, tile.row0, tile.column0, p);
}

KERNEL ALIKE(TILE_THREADS, BESIDE) void OF_TILE(times)(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, Product p) {
  SHARED float4 boards[BOARD_FOURS];
  p.what = STAYS;
  OF_TILE(panels)(boards, c, c, a, b, 1, p);
}

// Of these nothing is there before, and no squares are wanted: what is known here costs nothing there.
#define KNOWN(becomes) \
  p.begun = p.squares = 0; \
  p.what = becomes;

KERNEL ALIKE(TILE_THREADS, BESIDE) void OF_TILE(times_positive)(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, Product p) {
  SHARED float4 boards[BOARD_FOURS];
  KNOWN(POSITIVE)
  OF_TILE(panels)(boards, c, c, a, b, 1, p);
}

KERNEL ALIKE(TILE_THREADS, BESIDE) void OF_TILE(times_scaled)(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, Product p) {
  SHARED float4 boards[BOARD_FOURS];
  KNOWN(SCALED)
  OF_TILE(panels)(boards, c, c, a, b, 1, p);
}

KERNEL ALIKE(TILE_THREADS, BESIDE) void OF_TILE(times_transposed)(GLOBAL float* c, GLOBAL const float* a, GLOBAL const float* b, Product p) {
  SHARED float4 boards[BOARD_FOURS];
  KNOWN(STAYS)
  OF_TILE(panels)(boards, c, c, a, b, 0, p);
}

KERNEL ALIKE(TILE_THREADS, BESIDE) void OF_TILE(times_slope)(GLOBAL float* c, GLOBAL float* positive, GLOBAL const float* a, GLOBAL const float* b, Product p) {
  SHARED float4 boards[BOARD_FOURS];
  KNOWN(SLOPE)
  OF_TILE(panels)(boards, c, positive, a, b, 0, p);
}

// A thread's numbers in a memory of the group's own: kept there, or what lies there added on the left
DEVICE void OF_TILE(keep)(GLOBAL float* memory, float sums[MICRO_M][MICRO_N]) {
  UNROLL
  for (int i = 0; i < MICRO_M; i++)
    UNROLL
    for (int j = 0; j < MICRO_N; j += 4) {
      float4 four;
      four.x = sums[i][j]; four.y = sums[i][j + 1]; four.z = sums[i][j + 2]; four.w = sums[i][j + 3];
      ((GLOBAL float4*)memory)[(i * MICRO_N + j) / 4 * TILE_THREADS + LANE] = four;
    }
}

DEVICE void OF_TILE(join)(GLOBAL const float* memory, float sums[MICRO_M][MICRO_N]) {
  UNROLL
  for (int i = 0; i < MICRO_M; i++)
    UNROLL
    for (int j = 0; j < MICRO_N; j += 4) {
      float4 four = ((GLOBAL const float4*)memory)[(i * MICRO_N + j) / 4 * TILE_THREADS + LANE];
      sums[i][j] = four.x + sums[i][j];
      sums[i][j + 1] = four.y + sums[i][j + 1];
      sums[i][j + 2] = four.z + sums[i][j + 2];
      sums[i][j + 3] = four.w + sums[i][j + 3];
    }
}

#define MATRIX(p) \
  tiles = ((units.m##p + TILE_ROWS - 1) / TILE_ROWS) * ((units.n##p + TILE_COLUMNS - 1) / TILE_COLUMNS); \
  if (place >= 0 && place < tiles) { \
    a = a##p; b = b##p; m = units.m##p; n = units.n##p; at = units.at##p; number = place; \
  } \
  place -= tiles;

// Up to five matrices beside each other, those that are not there without rows: aᵀ · b of every unit, its rows starts[unit] …, at
// a place of its slot. In GROUP_Y: `each` units in a row, 2^levels of them, are folded by the tree, and their root is the
// slot's: c_part numbers of c each. What waits for its right sibling lies in c, at the level below the root, and at lower
// levels in `nodes`, where a group keeps so many tiles; so does what waits for the next panel, in c or in the last of them.
KERNEL ALIKE(TILE_THREADS, BESIDE) void OF_TILE(by_unit)(GLOBAL float* c, GLOBAL float* nodes, GLOBAL const int* starts, GLOBAL const float* a0, GLOBAL const float* b0, GLOBAL const float* a1, GLOBAL const float* b1, GLOBAL const float* a2, GLOBAL const float* b2, GLOBAL const float* a3, GLOBAL const float* b3, GLOBAL const float* a4, GLOBAL const float* b4, UnitProducts units) {
  SHARED float4 boards[BOARD_FOURS];
  float sums[MICRO_M][MICRO_N];
  int place = GROUP, number = 0, tiles, m = 0, n = 0, at = 0, levels = units.levels, kept = units.kept;
  int each = 1 << levels, size = TILE_THREADS * MICRO_M * MICRO_N;
  GLOBAL const float* a = a0;
  GLOBAL const float* b = b0;
  MATRIX(0)
  MATRIX(1)
  MATRIX(2)
  MATRIX(3)
  MATRIX(4)
  Tile tile = OF_TILE(tile)(number, m, n);
  Product p;
  p.m = m;
  p.n = p.ldc = n;
  p.what = STAYS;
  c += (i64)GROUP_Y * units.c_part + at;
  nodes += (i64)(GROUP_Y * GROUPS + GROUP) * kept * size;
  NO_UNROLL
  for (int unit = 0; unit < each; unit++) {
    int begin = starts[GROUP_Y * each + unit], rows = starts[GROUP_Y * each + unit + 1] - begin;
    NO_UNROLL
    for (int first = 0; first == 0 || first < rows; first += DEPTH) {
      int level = 0;
      p.begun = levels ? unit >= each / 2 : first > 0;
      OF_TILE(product)(sums, boards, factor(a + (i64)begin * m, m, 1), factor(b + (i64)begin * n, n, 1), 0, tile, first, min(first + DEPTH, rows));
      if (levels && first > 0) OF_TILE(join)(nodes + (kept - 1) * size, sums);
      if (levels && first + DEPTH < rows) {
        OF_TILE(keep)(nodes + (kept - 1) * size, sums);
        continue;
      }
      for (; level < levels - 1 && ((unit >> level) & 1); level++) OF_TILE(join)(nodes + level * size, sums);
      if (level < levels - 1) OF_TILE(keep)(nodes + level * size, sums);
      else OF_TILE(finish)(sums, c, c, tile.row0, tile.column0, p);
    }
  }
}
