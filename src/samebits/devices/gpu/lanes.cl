// Sums over the 32 lanes of a warp, in the orders of arithmetic/simd.py. A sum of two numbers is the same from both sides: so
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

#endif
