// What the products of all sizes share (tile.cl, panel.cl).

#define JOINED(name, tile) name##_##tile
#define EXPANDED(name, tile) JOINED(name, tile)
#define OF_TILE(name) EXPANDED(name, TILE)  // a function of this size: product_LARGE

// Sizes of a tile, by the words that products.py defines for it
#define TILE_ROWS (MICRO_M * DOWN)
#define TILE_COLUMNS (MICRO_N * ALONG)
#define TILE_THREADS (DOWN * ALONG)
#define LEFT_FLOATS (TERMS * (TILE_ROWS + 4))  // floats of a lot
#define RIGHT_FLOATS (TERMS * (TILE_COLUMNS + 4))
#define LEFT_FOURS ((TILE_ROWS * TERMS / 4 + TILE_THREADS - 1) / TILE_THREADS)  // of a lot, that a thread brings
#define RIGHT_FOURS ((TILE_COLUMNS * TERMS / 4 + TILE_THREADS - 1) / TILE_THREADS)
#define BOARD_FOURS (2 * (LEFT_FLOATS + RIGHT_FLOATS) / 4)  // float4s
// A warp has four threads down and eight along, two rows by turns: of 16 lanes that read fours together, neighbours or those two
// apart read the same, which shared memory then hands out in one go instead of two.
#define DOWN_PLACE (LANE / 32 / (ALONG / 8) * 4 + LANE % 32 / 16 * 2 + LANE % 2)
#define ALONG_PLACE (LANE / 32 % (ALONG / 8) * 8 + LANE % 16 / 2)
#define ROW_OF(i) (4 * DOWN_PLACE + (i) / 4 * 4 * DOWN + (i) % 4)
#define COLUMN_OF(j) (MICRO_N < 4 ? ALONG_PLACE + (j) * ALONG : 4 * ALONG_PLACE + (j) / 4 * 4 * ALONG + (j) % 4)

// A panel has DEPTH terms (arithmetic/gemm.py); the sums of panels are added in order.

// What becomes of a product's numbers
#define STAYS 0
#define POSITIVE 1  // c = positive part
#define SLOPE 2  // c = value · 2p, other = p², where p lies in other
#define SCALED 3  // c = value · scale in the first columns

// c (m, n) = a (m, k) · b (k, n), added to what is there if `begun`; its rows lie ldc apart. squares: of a's numbers; the first
// `scaled` columns are multiplied by scale.
typedef struct {
  int m, n, k, ldc, begun, squares, what, scaled;
  float scale;
} Product;

// Products of every unit (panel.cl, by_unit): numbers of a slot, levels of the tree, tiles kept; of five matrices the rows and
// columns of the result, and its place in the slot
typedef struct {
  int c_part, levels, kept, m0, n0, at0, m1, n1, at1, m2, n2, at2, m3, n3, at3, m4, n4, at4;
} UnitProducts;

// A factor of a product: neighbours in memory are terms, or, if it lies across, rows of a or columns of b.
typedef struct {
  GLOBAL const float* x;
  int stride, across;
} Factor;

DEVICE Factor factor(GLOBAL const float* x, int stride, int across) {
  Factor made;
  made.x = x;
  made.stride = stride;
  made.across = across;
  return made;
}

// A tile of a result (m, n), at (row0, column0)
typedef struct {
  int row0, column0, m, n;
} Tile;

DEVICE Tile tile_at(int row0, int column0, int m, int n) {
  Tile made;
  made.row0 = row0;
  made.column0 = column0;
  made.m = m;
  made.n = n;
  return made;
}

// Four neighbours, of which so many are there; the others are 0.
DEVICE float4 fetch_four(GLOBAL const float* x, int there, int vectors) {
  float4 four;
  if (there >= 4 && vectors) return *(GLOBAL const float4*)x;
  four.x = there > 0 ? x[0] : 0.0f;
  four.y = there > 1 ? x[1] : 0.0f;
  four.z = there > 2 ? x[2] : 0.0f;
  four.w = there > 3 ? x[3] : 0.0f;
  return four;
}

DEVICE void store_four(GLOBAL float* x, float4 four, int there, int vectors) {
  if (there >= 4 && vectors) {
    *(GLOBAL float4*)x = four;
    return;
  }
  x[0] = four.x;
  if (there > 1) x[1] = four.y;
  if (there > 2) x[2] = four.z;
  if (there > 3) x[3] = four.w;
}

DEVICE float positive(float x) {
  return x > 0.0f ? x : 0.0f;
}

DEVICE float4 add_four(float4 old, float4 four) {
  four.x = old.x + four.x; four.y = old.y + four.y; four.z = old.z + four.z; four.w = old.w + four.w;
  return four;
}

// Four neighbours in c, from this column on
DEVICE void finish_four(GLOBAL float* c, GLOBAL float* other, float4 four, float4 slope, int there, int vectors, int column, Product p) {
  float4 square;
  int scaled = p.scaled - column;
  if (p.what == POSITIVE) {
    four.x = positive(four.x); four.y = positive(four.y); four.z = positive(four.z); four.w = positive(four.w);
  } else if (p.what == SLOPE) {
    four.x = four.x * (2.0f * slope.x); four.y = four.y * (2.0f * slope.y);
    four.z = four.z * (2.0f * slope.z); four.w = four.w * (2.0f * slope.w);
  }
  if (p.what == SCALED) {
    if (scaled > 0) four.x = four.x * p.scale;
    if (scaled > 1) four.y = four.y * p.scale;
    if (scaled > 2) four.z = four.z * p.scale;
    if (scaled > 3) four.w = four.w * p.scale;
  }
  store_four(c, four, there, vectors);
  if (p.what == SLOPE) {
    square.x = slope.x * slope.x; square.y = slope.y * slope.y; square.z = slope.z * slope.z; square.w = slope.w * slope.w;
    store_four(other, square, there, vectors);
  }
}
