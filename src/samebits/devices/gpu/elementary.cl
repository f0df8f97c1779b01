// exp of a float32 (arithmetic/simd.py): the same chain. EXP_… are words of elementary.py's.

DEVICE float exp_chain(float x) {
  if (x < EXP_SMALLEST) x = EXP_SMALLEST;  // a comparison: a NaN must come out as one
  float whole = FLOOR(FMA(x, EXP_INVERSE, 0.5f));
  float rest = FMA(whole, EXP_HIGH, x);
  rest = FMA(whole, EXP_LOW, rest);
  float series = EXP_7;
  series = FMA(series, rest, EXP_6);
  series = FMA(series, rest, EXP_5);
  series = FMA(series, rest, EXP_4);
  series = FMA(series, rest, EXP_3);
  series = FMA(series, rest, EXP_2);
  series = FMA(series, rest, EXP_1);
  series = FMA(series, rest, EXP_0);
  return series * FLOAT_OF(((int)whole + 127) << 23);
}

CONSTANT double LOG_ODD[12] = {1.0, 0.3333333333333333, 0.2, 0.14285714285714285, 0.1111111111111111, 0.09090909090909091, 0.07692307692307693, 0.06666666666666667, 0.058823529411764705, 0.05263157894736842, 0.047619047619047616, 0.043478260869565216};

// log of a float64 that is normal, or 0 (arithmetic/elementary.py).
DEVICE double log_chain(double x) {
  if (!(x < INFINITY)) return x;
  if (x <= 0) return x == 0 ? -INFINITY : NAN;
  i64 bits = BITS64_OF(x);
  i64 e = (bits >> 52) - 1023;
  double m = DOUBLE_OF((bits & 0xFFFFFFFFFFFFFL) | 0x3FF0000000000000L);
  if (m > 1.4142135623730951) {
    m = 0.5 * m;
    e = e + 1;
  }
  double s = (m - 1.0) / (m + 1.0), z = s * s, sums = LOG_ODD[11];
  for (int k = 10; k >= 0; k--) sums = FMA64(sums, z, LOG_ODD[k]);
  return FMA64((double)e, 0.6931471803691238, FMA64((double)e, 1.9082149292705877e-10, (s + s) * sums));
}
