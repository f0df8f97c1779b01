// What a device makes of an operation: compared with what IEEE says (probe.py).

KERNEL void probe(GLOBAL float* out, GLOBAL const float* x, GLOBAL const float* y, GLOBAL const float* z, int count) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i >= count) return;
  out[i] = FMA(x[i], y[i], z[i]);
  out[count + i] = x[i] * y[i] + z[i];
  out[2 * count + i] = DIVIDE(x[i], y[i]);
  out[3 * count + i] = SQRT(x[i] < 0 ? -x[i] : x[i]);
  out[4 * count + i] = x[i] * 1e-37f * y[i] * 1e-3f;
}

KERNEL void probe_wide(GLOBAL double* out, GLOBAL const double* x, GLOBAL const double* y, int count) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i >= count) return;
  out[i] = FMA64(x[i], y[i], -x[i]);
  out[count + i] = x[i] / y[i];
  out[2 * count + i] = SQRT64(x[i] < 0 ? -x[i] : x[i]);
}
