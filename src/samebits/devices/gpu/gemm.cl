// What the products of all sizes share (tile.cl, panel.cl).

// A panel has DEPTH terms (arithmetic/gemm.py); the sums of panels are added in order.

// What becomes of a product's numbers
#define STAYS 0
#define POSITIVE 1  // c = positive part
#define SLOPE 2  // c = value · 2p, other = p², where p lies in other
#define SCALED 3  // c = value · scale in the first columns

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

// Four neighbours in c, added to the old ones if `begun`; so many of them are scaled.
DEVICE void finish_four(GLOBAL float* c, GLOBAL float* other, i64 at, float4 four, float4 old, float4 slope, int there, int vectors, int begun, int what, int scaled, float scale) {
  float4 square;
  if (begun) {
    four.x = old.x + four.x; four.y = old.y + four.y; four.z = old.z + four.z; four.w = old.w + four.w;
  }
  if (what == POSITIVE) {
    four.x = positive(four.x); four.y = positive(four.y); four.z = positive(four.z); four.w = positive(four.w);
  } else if (what == SLOPE) {
    four.x = four.x * (2.0f * slope.x); four.y = four.y * (2.0f * slope.y);
    four.z = four.z * (2.0f * slope.z); four.w = four.w * (2.0f * slope.w);
  }
  if (what == SCALED) {
    if (scaled > 0) four.x = four.x * scale;
    if (scaled > 1) four.y = four.y * scale;
    if (scaled > 2) four.z = four.z * scale;
    if (scaled > 3) four.w = four.w * scale;
  }
  store_four(c + at, four, there, vectors);
  if (what == SLOPE) {
    square.x = slope.x * slope.x; square.y = slope.y * slope.y; square.z = slope.z * slope.z; square.w = slope.w * slope.w;
    store_four(other + at, square, there, vectors);
  }
}
