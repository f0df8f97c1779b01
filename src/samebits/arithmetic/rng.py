"""Indexed random numbers: a draw is a function of (seed, purpose, step, index …), never of who asks, or when.

Philox4x64-10 (Salmon et al. 2011), the generator of numpy.random.Philox, as a compiled function without state: units
draw their own numbers inside kernels, resume has nothing to restore, and another device can draw the same.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

import numba
import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.compiler.jit import kernel

F = TypeVar("F", bound=Callable[..., Any])


class Purpose(IntEnum):
    """The second word of the key: draws for different purposes never meet. A family has more of its own."""

    BATCH = 1
    EVALUATION = 2
    RENDER = 3
    INIT = 5


M0, M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
W0, W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
ROUNDS = 10


def wrapping(function: F) -> F:
    """A kernel whose uint64 products wrap, as they do in compiled code; as plain Python NumPy would warn of each."""
    return np.errstate(over="ignore")(function) if numba.config.DISABLE_JIT else kernel(function)


@wrapping
def multiply_high(a: np.uint64, b: np.uint64) -> np.uint64:
    """The high 64 bits of a 64 × 64 bit product."""
    a0, a1, b0, b1 = a & LOW, a >> HALF, b & LOW, b >> HALF
    low = a0 * b0
    middle = a1 * b0 + (low >> HALF)
    other = a0 * b1 + (middle & LOW)
    return a1 * b1 + (middle >> HALF) + (other >> HALF)


@wrapping
def philox(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Four random words for one counter under one key; all of it uint64."""
    for _ in range(ROUNDS):
        h0, l0 = multiply_high(M0, c0), M0 * c0
        h1, l1 = multiply_high(M1, c2), M1 * c2
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
        k0, k1 = k0 + W0, k1 + W1
    return c0, c1, c2, c3


@kernel
def fill_words(out: Array, seed: int, purpose: int, step: int, index: int, extra: int) -> None:
    """out (rows, words): row r is drawn at index + r, so it does not depend on how many rows are asked for."""
    for row in range(out.shape[0]):
        position = np.uint64(index + row)
        for block in range((out.shape[1] + 3) // 4):
            counter = np.uint64(block), np.uint64(extra), position, np.uint64(step)
            drawn = philox(*counter, np.uint64(seed), np.uint64(purpose))
            for j in range(min(4, out.shape[1] - 4 * block)):
                out[row, 4 * block + j] = drawn[j]


@kernel
def scale_down(drawn: Array, below: int) -> None:
    for i in range(drawn.size):
        drawn[i] = ((drawn[i] >> HALF) * np.uint64(below)) >> HALF


def words(shape: tuple[int, int], seed: int, purpose: int, step: int, index: int = 0, extra: int = 0) -> Array:
    """(rows, count) random uint64; row r at index + r."""
    out = np.empty(shape, np.uint64)
    fill_words(out, seed, int(purpose), step, index, extra)
    return out


def bits(shape: tuple[int, int], seed: int, purpose: int, step: int, index: int = 0, extra: int = 0) -> Array:
    """(rows, count) random bits as uint8, 64 from each word, least significant first."""
    rows, count = shape
    source = words((rows, -(-count // 64)), seed, purpose, step, index, extra)
    return np.unpackbits(source.astype("<u8", copy=False).view(np.uint8), axis=1, count=count, bitorder="little")


def integers(
    shape: tuple[int, int], below: int, seed: int, purpose: int, step: int, index: int = 0, extra: int = 0
) -> Array:
    """(rows, count) random int64 in [0, below), below at most 2³²: the word's upper half scaled down."""
    if not 1 <= below <= 1 << 32:
        raise ValueError(f"below is {below}; it must be from 1 to 2³²")
    drawn = words(shape, seed, purpose, step, index, extra)
    scale_down(drawn.reshape(-1), below)
    return drawn.view(np.int64)
