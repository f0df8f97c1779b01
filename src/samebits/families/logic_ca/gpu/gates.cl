// Gates: from 16 logits to 4 coefficients and back (gates.py). A thread has a gate.

CONSTANT float MATRIX[64] = {OPERATIONS};  // gates.MATRIX, row by row

// Sixteen numbers folded by halves.
DEVICE float fold_halves(const float* s) {
  float t[8];
  for (int i = 0; i < 8; i++) t[i] = s[i] + s[i + 8];
  for (int i = 0; i < 4; i++) t[i] = t[i] + t[i + 4];
  for (int i = 0; i < 2; i++) t[i] = t[i] + t[i + 2];
  return t[0] + t[1];
}

// … and as simd.py's fold_four does it.
DEVICE float fold_quads(const float* s) {
  float q[4];
  for (int j = 0; j < 4; j++) q[j] = (s[4 * j] + s[4 * j + 2]) + (s[4 * j + 1] + s[4 * j + 3]);
  return (q[0] + q[2]) + (q[1] + q[3]);
}

DEVICE void hard_coefficients(GLOBAL float* coef, GLOBAL const float* logits) {
  int best = 0;
  for (int i = 1; i < 16; i++) if (logits[i] > logits[best]) best = i;
  for (int k = 0; k < 4; k++) coef[k] = MATRIX[16 * k + best];
}

// Soft coefficients, or hard ones: of all gates (mode 2), of those marked (1), of none (0); and the chances.
KERNEL void coefficients(GLOBAL float* coef, GLOBAL float* chances, GLOBAL const float* logits, GLOBAL const uchar* hard, int gates, int mode) {
  int g = GROUP * GROUP_SIZE + LANE;
  if (g >= gates) return;
  GLOBAL const float* row = logits + 16 * g;
  float top = row[0], p[16], part[16];
  for (int i = 1; i < 16; i++) if (row[i] > top) top = row[i];
  for (int i = 0; i < 16; i++) p[i] = exp_chain(row[i] - top);
  float share = DIVIDE(1.0f, fold_halves(p));
  for (int i = 0; i < 16; i++) {
    p[i] = p[i] * share;
    chances[16 * g + i] = p[i];
  }
  for (int k = 0; k < 4; k++) {
    for (int i = 0; i < 16; i++) part[i] = p[i] * MATRIX[16 * k + i];
    coef[4 * g + k] = fold_quads(part);
  }
  if (mode == 2 || (mode == 1 && hard[g])) hard_coefficients(coef + 4 * g, row);
}

KERNEL void pull_back(GLOBAL float* gradient, GLOBAL const float* chances, GLOBAL const float* sums, int gates) {
  int g = GROUP * GROUP_SIZE + LANE;
  if (g >= gates) return;
  float slope[16], part[16];
  for (int i = 0; i < 16; i++) {
    slope[i] = 0.0f;
    for (int k = 0; k < 4; k++) slope[i] = FMA(sums[4 * g + k], MATRIX[16 * k + i], slope[i]);
    part[i] = chances[16 * g + i] * slope[i];
  }
  float mean = fold_halves(part);
  for (int i = 0; i < 16; i++) gradient[16 * g + i] = chances[16 * g + i] * (slope[i] - mean);
}
