"""Array types and aligned memory: the ground everything else in the engine stands on."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]  # kernels are generic over float32 and float64, so the type says no more
T = TypeVar("T")
LINE = 64  # bytes of a cache line, and of the widest vector register


def aligned(shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
    """A zeroed array that starts on a cache line."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.zeros(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def frozen(value: T) -> T:
    """The same value; its arrays, those in tuples too, have become read-only, with all that they are views of."""
    array: Any = value
    while isinstance(array, np.ndarray):
        array.setflags(write=False)
        array = array.base
    if isinstance(value, tuple):
        for item in value:
            frozen(item)
    return value
