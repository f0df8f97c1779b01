// Sums over the 32 lanes of a warp, in the orders of engine/simd.py. A sum of two numbers is the same from both sides: so
// where lanes can look at each other all of them get it; elsewhere the first ones add up what lies on a board, a place
// for every lane of the group. All lanes of a group must come here together.

#ifdef CUDA

DEVICE double sum_lanes(LOCAL double* board, double x) {  // folded by halves
  for (int distance = 16; distance > 0; distance /= 2) x = x + ACROSS(x, distance);
  return x;
}

DEVICE float sum_lanes32(LOCAL float* board, float x) {
  for (int distance = 16; distance > 0; distance /= 2) x = x + ACROSS(x, distance);
  return x;
}

DEVICE float max_lanes32(LOCAL float* board, float x) {
  for (int distance = 16; distance > 0; distance /= 2) {
    float other = ACROSS(x, distance);
    if (other > x) x = other;
  }
  return x;
}

DEVICE float sum_quads(float x) {
  x = x + ACROSS(x, 16);
  x = x + ACROSS(x, 2);
  x = x + ACROSS(x, 1);
  x = x + ACROSS(x, 8);
  return x + ACROSS(x, 4);
}

// The k-th of four sums, in lane k.
DEVICE float sum_four(LOCAL float* board, float t0, float t1, float t2, float t3) {
  t0 = sum_quads(t0);
  t1 = sum_quads(t1);
  t2 = sum_quads(t2);
  t3 = sum_quads(t3);
  int k = LANE % 32;
  return k == 0 ? t0 : k == 1 ? t1 : k == 2 ? t2 : t3;
}

#else

DEVICE double sum_lanes(LOCAL double* board, double x) {
  LOCAL double* mine = board + LANE / 32 * 32;
  BARRIER;
  board[LANE] = x;
  BARRIER;
  double s[16];
  for (int i = 0; i < 16; i++) s[i] = mine[i] + mine[i + 16];
  for (int n = 8; n > 0; n /= 2)
    for (int i = 0; i < n; i++) s[i] = s[i] + s[i + n];
  return s[0];
}

DEVICE float sum_lanes32(LOCAL float* board, float x) {
  LOCAL float* mine = board + LANE / 32 * 32;
  BARRIER;
  board[LANE] = x;
  BARRIER;
  float s[16];
  for (int i = 0; i < 16; i++) s[i] = mine[i] + mine[i + 16];
  for (int n = 8; n > 0; n /= 2)
    for (int i = 0; i < n; i++) s[i] = s[i] + s[i + n];
  return s[0];
}

DEVICE float max_lanes32(LOCAL float* board, float x) {
  LOCAL float* mine = board + LANE / 32 * 32;
  BARRIER;
  board[LANE] = x;
  BARRIER;
  for (int i = 0; i < 32; i++) if (mine[i] > x) x = mine[i];
  return x;
}

DEVICE float sum_four(LOCAL float* board, float t0, float t1, float t2, float t3) {
  int k = LANE % 32;
  LOCAL float* mine = board + LANE / 32 * 128;
  BARRIER;
  mine[k] = t0;
  mine[32 + k] = t1;
  mine[64 + k] = t2;
  mine[96 + k] = t3;
  BARRIER;
  if (k >= 4) return 0.0f;
  float q[4], s[16];
  for (int i = 0; i < 16; i++) s[i] = mine[32 * k + i] + mine[32 * k + i + 16];
  for (int j = 0; j < 4; j++) q[j] = (s[4 * j] + s[4 * j + 2]) + (s[4 * j + 1] + s[4 * j + 3]);
  return (q[0] + q[2]) + (q[1] + q[3]);
}

#endif
