// Clipping and AdamW (devices/cpu/optimizer.py). A group of SUMS threads has SLICE numbers: number i goes into the running
// sum i mod SUMS. Gradients smaller than TINY are 0.

// hyper: 1 / count, element limit, b1, 1 − b1, b2, 1 − b2, unbias1, unbias2, eps, lr, decay, which all are float32; the
// norm's limit, this step (from 1)
// outcome: raw Σg², Σg² clipped, the step whose numbers were not finite (0: none)

KERNEL void clip(GLOBAL float* gradient, GLOBAL double* norms, GLOBAL const double* hyper, int size) {
  SHARED double board[SUMS];
  float scale = (float)hyper[0], limit = (float)hyper[1];
  int last = min(SLICE, size - GROUP * SLICE);
  GLOBAL float* mine = gradient + (i64)GROUP * SLICE;
  double raw = 0.0, clipped = 0.0;
  for (int i = LANE; i < last; i += SUMS) {
    float g = mine[i] * scale;
    if ((g < 0 ? -g : g) < TINY) g = 0.0f;
    raw = FMA64((double)g, (double)g, raw);
    if (g > limit) g = limit;
    else if (g < -limit) g = -limit;
    clipped = FMA64((double)g, (double)g, clipped);
    mine[i] = g;
  }
  raw = sum_lanes(board, raw);
  clipped = sum_lanes(board, clipped);
  if (LANE == 0) {
    norms[2 * GROUP] = raw;
    norms[2 * GROUP + 1] = clipped;
  }
}

// The tree over the slices' norms, in place, by one group; and what they mean for the step.
KERNEL void norms(GLOBAL double* norms, GLOBAL const double* hyper, GLOBAL double* outcome, int slices) {
  for (int n = slices; n > 1; n = (n + 1) / 2) {
    int middle = n / 2;
    for (int begin = 0; begin < middle; begin += GROUP_SIZE) {
      int i = begin + LANE;
      double a = 0.0, b = 0.0;
      if (i < middle) {
        a = norms[4 * i] + norms[4 * i + 2];
        b = norms[4 * i + 1] + norms[4 * i + 3];
      }
      BARRIER;
      if (i < middle) {
        norms[2 * i] = a;
        norms[2 * i + 1] = b;
      }
      BARRIER;
    }
    if ((n & 1) && LANE == 0) {
      norms[2 * middle] = norms[2 * (n - 1)];
      norms[2 * middle + 1] = norms[2 * (n - 1) + 1];
    }
    BARRIER;
  }
  if (LANE == 0) {
    outcome[0] = norms[0];
    outcome[1] = norms[1];
    if (!IS_FINITE(norms[0]) && outcome[2] == 0.0) outcome[2] = hyper[12];
  }
}

KERNEL void adamw(GLOBAL float* params, GLOBAL float* first, GLOBAL float* second, GLOBAL const float* gradient, GLOBAL const double* hyper, GLOBAL double* outcome, int size) {
  int j = GROUP * GROUP_SIZE + LANE;
  if (j >= size || outcome[2] != 0.0 && outcome[2] < hyper[12] || !IS_FINITE(outcome[0])) return;
  double norm = SQRT64(outcome[1]), most = hyper[11];
  float scale = most > 0.0 && most < norm ? (float)(most / norm) : 1.0f;
  float b1 = (float)hyper[2], one_b1 = (float)hyper[3], b2 = (float)hyper[4], one_b2 = (float)hyper[5];
  float unbias1 = (float)hyper[6], unbias2 = (float)hyper[7], eps = (float)hyper[8], lr = (float)hyper[9], decay = (float)hyper[10];
  float g = gradient[j] * scale;
  float m = FMA(b1, first[j], one_b1 * g);
  float v = FMA(b2, second[j], one_b2 * g * g);
  first[j] = m;
  second[j] = v;
  float p = params[j];
  p = FMA(-lr, FMA(decay, p, DIVIDE(m * unbias1, SQRT(v * unbias2) + eps)), p);
  params[j] = p;
  if (!IS_FINITE(p)) outcome[2] = hyper[12];
}
