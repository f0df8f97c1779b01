// Philox4x64-10 (arithmetic/rng.py): four random words for one counter under one key.

DEVICE void philox(u64* c, u64 k0, u64 k1) {
  for (int round = 0; round < 10; round++) {
    u64 h0 = HIGH(0xD2E7470EE14C6C93UL, c[0]), l0 = 0xD2E7470EE14C6C93UL * c[0];
    u64 h1 = HIGH(0xCA5A826395121157UL, c[2]), l1 = 0xCA5A826395121157UL * c[2];
    u64 c1 = c[1], c3 = c[3];
    c[0] = h1 ^ c1 ^ k0;
    c[1] = l1;
    c[2] = h0 ^ c3 ^ k1;
    c[3] = l0;
    k0 += 0x9E3779B97F4A7C15UL;
    k1 += 0xBB67AE8584CAA73BUL;
  }
}
