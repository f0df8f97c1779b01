"""Constants of the chains in elementary.cl, rounded as the CPU's kernels round them."""

from __future__ import annotations

import math

import numpy as np

from samebits.arithmetic.simd import LN2, LN2_HIGH, LN2_LOW

FILE = "devices/gpu/elementary.cl"


def real(value: float) -> str:
    """A float32 as the compilers read it back."""
    return f"{float(np.float32(value))!r}f"


WORDS = {
    "EXP_SMALLEST": real(-87.0),
    "EXP_INVERSE": real(1 / LN2),
    "EXP_HIGH": real(-LN2_HIGH),
    "EXP_LOW": real(-LN2_LOW),
    **{f"EXP_{k}": real(1 / math.factorial(k)) for k in range(8)},
}
