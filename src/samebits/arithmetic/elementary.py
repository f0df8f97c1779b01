"""exp, log, cos, sin and powers as fixed chains of operations: libm and NumPy round them differently on other CPUs."""

from __future__ import annotations

import math

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.simd import LN2, bits_of, from_bits, fused
from samebits.arithmetic.simd import exp as series
from samebits.compiler.jit import kernel

LN2_HIGH = 0.693147180369123816490  # its lower 32 bits are 0: e · LN2_HIGH is exact
LN2_LOW = 1.90821492927058770002e-10
ROOT2 = 1.4142135623730951
TAU = 6.283185307179586
ODD = tuple(1 / (2 * k + 1) for k in range(12))
SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(9))
COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(10))

__all__ = ["LN2", "cos_sin", "exp", "log", "normal", "power"]


@kernel
def log(x: float) -> float:
    """Of a float64 that is normal, or 0: e · ln 2 + 2 artanh((m − 1) / (m + 1)), x = m · 2^e, m around 1.

    A float32 is widened first and the result rounded by whoever wants one: that is its chain, too.
    """
    if not x < math.inf:
        return x  # a NaN stays one
    if x <= 0:
        return -math.inf if x == 0 else math.nan
    bits = bits_of(x)
    e = (bits >> 52) - 1023
    m = from_bits((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)
    if m > ROOT2:
        m, e = 0.5 * m, e + 1
    s = (m - 1.0) / (m + 1.0)
    z, sums = s * s, ODD[11]
    for k in range(10, -1, -1):
        sums = fused(sums, z, ODD[k])
    return fused(float(e), LN2_HIGH, fused(float(e), LN2_LOW, (s + s) * sums))


@kernel
def exp(x: float) -> float:
    """For Python: the exp of simd.py in float64, x at most 709."""
    return series(x)


@kernel
def cos_sin(turns: float) -> tuple[float, float]:
    """cos and sin of 2π · turns, turns from 0 to 1."""
    quarter = int(4.0 * turns + 0.5)
    angle = (turns - 0.25 * quarter) * TAU
    z, c, s = angle * angle, COSINE[9], SINE[8]
    for k in range(8, -1, -1):
        c = fused(c, z, COSINE[k])
    for k in range(7, -1, -1):
        s = fused(s, z, SINE[k])
    s = s * angle
    quarter = quarter % 4
    if quarter == 0:
        return c, s
    if quarter == 1:
        return -s, c
    if quarter == 2:
        return -c, -s
    return s, -c


@kernel
def normal(out: Array, uniform: Array) -> None:
    """Box and Muller's normal numbers, out (2, n), from uniform ones in (0, 1), (2, n)."""
    for i in range(uniform.shape[1]):
        radius, (x, y) = math.sqrt(-2 * log(uniform[0, i])), cos_sin(uniform[1, i])
        out[0, i], out[1, i] = radius * x, radius * y


def power(base: float, exponent: int) -> float:
    """base to a whole number from 0 on, by squaring."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result
