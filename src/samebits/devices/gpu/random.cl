// Philox4x64-10 (arithmetic/rng.py, which has its constants): four random words for one counter under one key.

DEVICE void philox(u64* c, u64 k0, u64 k1) {
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    u64 h0 = HIGH(PHILOX_M0, c[0]), l0 = PHILOX_M0 * c[0];
    u64 h1 = HIGH(PHILOX_M1, c[2]), l1 = PHILOX_M1 * c[2];
    u64 c1 = c[1], c3 = c[3];
    c[0] = h1 ^ c1 ^ k0;
    c[1] = l1;
    c[2] = h0 ^ c3 ^ k1;
    c[3] = l0;
    k0 += PHILOX_W0;
    k1 += PHILOX_W1;
  }
}
