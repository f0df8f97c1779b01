"""Elementwise functions the compiler turns into vector instructions: exp for softmax, and the activation.

Constants come in an array of the kernel's own precision: a literal would widen float32 to float64.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import DTypeLike

from weft.engine.arrays import Array
from weft.engine.jit import kernel

DEGREE = 12  # of exp's Taylor polynomial on ±½ ln 2: below rounding in float64
LN2_HIGH = 0.693359375  # exact in a few bits, so that k · LN2_HIGH is exact
ONE, HALF, LOG2E, HIGH, LOW, LEAST = range(6)
TERMS = 6  # where the polynomial's coefficients begin, the highest power first


def numbers(dtype: DTypeLike) -> Array:
    """The constants of the functions below."""
    least = -80.0 if np.dtype(dtype) == np.float32 else -700.0  # far enough from denormal numbers to be divided
    terms = [1 / math.factorial(power) for power in range(DEGREE, -1, -1)]
    return np.array([1.0, 0.5, math.log2(math.e), LN2_HIGH, math.log(2) - LN2_HIGH, least, *terms], dtype)


if numba.config.DISABLE_JIT:

    def power_of_two(k: Any) -> Any:
        return type(k)(2.0**k)

else:

    @intrinsic
    def power_of_two(typing: Any, k: Any) -> Any:
        """2ᵏ for a whole number k held in a float: k becomes the exponent bits."""
        bits, mantissa, bias = (32, 23, 127) if k == types.float32 else (64, 52, 1023)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(bits)
            whole = builder.add(builder.fptosi(args[0], word), word(bias))
            return builder.bitcast(builder.shl(whole, word(mantissa)), context.get_value_type(k))

        return k(k), codegen


@kernel
def exp_in_place(x: Array, c: Array) -> None:
    """x ≤ 0, flat. exp(x) = 2ᵏ · exp(r), |r| ≤ ½ ln 2."""
    half, log2e, high, low, least = c[HALF], c[LOG2E], c[HIGH], c[LOW], c[LEAST]
    t0, t1, t2, t3, t4, t5, t6 = c[6], c[7], c[8], c[9], c[10], c[11], c[12]
    t7, t8, t9, t10, t11, t12 = c[13], c[14], c[15], c[16], c[17], c[18]
    for i in range(x.size):
        v = x[i]
        if v < least:  # a comparison, not max: a NaN must stay one
            v = least
        k = np.floor(v * log2e + half)
        r = v - k * high - k * low
        p = ((((((t0 * r + t1) * r + t2) * r + t3) * r + t4) * r + t5) * r + t6) * r + t7
        p = ((((p * r + t8) * r + t9) * r + t10) * r + t11) * r + t12
        x[i] = p * power_of_two(k)


@kernel
def activate(h: Array, slope: Array, bias: Array, c: Array, relu: bool) -> None:
    """The first H columns of h hold a and become φ(a + bias); slope (n, H) becomes φ′.

    bend: φ(x) = ½ x (1 + x / √(1 + x²)), smooth, close to x above and to 0 below, and made of operations vectors have.
    """
    one, half = c[ONE], c[HALF]
    zero = one - one
    for i in range(h.shape[0]):
        row, out = h[i, : bias.size], slope[i]
        if relu:
            for j in range(row.size):
                x = row[j] + bias[j]
                out[j] = zero if x < zero else one  # a NaN passes on
                row[j] = zero if x < zero else x
        else:
            for j in range(row.size):
                x = row[j] + bias[j]
                s = x / np.sqrt(one + x * x)
                row[j] = half * x * (one + s)
                out[j] = half * (one + s * (one + one - s * s))
