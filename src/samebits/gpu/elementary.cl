// exp of a float32 (engine/simd.py): the same chain. EXP_… are words of elementary.py's.

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
