KERNEL void gradient(GLOBAL float* slots, GLOBAL double* losses, GLOBAL const float* params, GLOBAL const float* mean, GLOBAL const float* X, GLOBAL const float* y, int n, int samples) {
  GLOBAL float* slot = slots + 8 * GROUP;
  for (int k = 0; k < 8; k++) slot[k] = 0.0f;
  double loss = 0.0;
  int last = n * (GROUP + 1) < samples ? n * (GROUP + 1) : samples;
  for (int i = n * GROUP; i < last; i++) {
    float error = params[3] - y[i];
    for (int k = 0; k < 3; k++) error = FMA(params[k], X[3 * i + k] - mean[k], error);
    loss += (double)error * (double)error;
    for (int k = 0; k < 3; k++) {
      slot[k] = FMA(error + error, X[3 * i + k] - mean[k], slot[k]);
      slot[4 + k] += X[3 * i + k];
    }
    slot[3] += error + error;
    slot[7] += 1.0f;
  }
  losses[GROUP] = loss;
}

KERNEL void move_mean(GLOBAL float* mean, GLOBAL long* seen, GLOBAL const float* sums, float rate) {
  for (int k = 0; k < 3; k++) mean[k] = FMA(rate, DIVIDE(sums[k], sums[3]) - mean[k], mean[k]);
  seen[0] += (long)sums[3];
}
