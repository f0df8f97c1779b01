// What the tiles of tile.cl share.

#define DEPTH 512  // of a panel
#define ADD 1
#define SQUARE 2  // c = positive part, other = its square
#define SLOPE 4  // c = value · 2p, other = p², where p lies in other

// Four neighbours, of which so many are there; the others are 0.
DEVICE void fetch_four(float* got, GLOBAL const float* x, int there, int vectors) {
  if (there >= 4 && vectors) {
    float4 four = *(GLOBAL const float4*)x;
    got[0] = four.x; got[1] = four.y; got[2] = four.z; got[3] = four.w;
  } else {
    for (int q = 0; q < 4; q++) got[q] = q < there ? x[q] : 0.0f;
  }
}

DEVICE void finish_number(GLOBAL float* c, GLOBAL float* other, i64 at, float value, int flags) {
  if (flags & SQUARE) {
    float positive = value > 0.0f ? value : 0.0f;
    c[at] = positive;
    other[at] = positive * positive;
  } else if (flags & SLOPE) {
    float p = other[at];
    c[at] = value * (2.0f * p);
    other[at] = p * p;
  } else {
    c[at] = value;
  }
}
