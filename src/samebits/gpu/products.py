"""Matrix products on a GPU (tile.cl), as families ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from samebits.gpu.device import Gpu
from samebits.gpu.dialect import Part


class Size(NamedTuple):
    """Of a tile: a thread has (m, n) numbers, a group (down, along) threads."""

    name: str
    m: int
    n: int
    down: int
    along: int
    terms: int  # at a time: more where there are few groups, whose threads wait for memory

    @property
    def threads(self) -> int:
        return self.down * self.along

    def tiles(self, rows: int, columns: int) -> int:
        return -(-rows // (self.m * self.down)) * -(-columns // (self.n * self.along))

    def part(self) -> Part:
        words = {"MICRO_M": self.m, "MICRO_N": self.n, "DOWN": self.down, "ALONG": self.along, "TERMS": self.terms}
        return "gpu/tile.cl", ("_TILE", f"_{self.name}"), *((rf"\b{word}", str(value)) for word, value in words.items())


LARGE = Size("LARGE", 8, 4, 16, 16, 16)  # 128 · 64, twice a processor; of 128 · 128 there is only one, which is slower
SQUARE = Size("SQUARE", 8, 4, 8, 16, 16)  # 64 · 64
SMALL = Size("SMALL", 4, 4, 8, 8, 32)  # 32 · 32: where even so there are few
ENOUGH = 200  # tiles that keep a large GPU busy
FILES = "gpu/gemm.cl", *(size.part() for size in (LARGE, SQUARE, SMALL))
ADD, SQUARED, SLOPE = 1, 2, 4


class Products:
    """Products of matrices that lie by rows; of a part of a wider one, the width is its own."""

    def __init__(self, device: Gpu, kernels: Mapping[str, Any]) -> None:
        self._device, self._kernels = device, kernels

    def times(
        self, out: Any, a: Any, b: Any, shape: tuple[int, int, int], flags: int = 0, transposed: bool = False,
        ldc: int = 0, other: Any = None,
    ) -> None:  # fmt: skip
        """out (m, n) = a (m, k) · b (k, n), or bᵀ (n, k); shape is (m, k, n). What `other` gets the flags say."""
        m, k, n = shape
        size = size_for(m, n)
        self._device.post(
            self._kernels[f"times_transposed_{size.name}" if transposed else f"times_{size.name}"], size.tiles(m, n),
            size.threads, out, out if other is None else other, a, b, m, n, k, k, k if transposed else n, ldc or n,
            flags,
        )  # fmt: skip

    def by_unit(self, slots: Any, start: int, a: Any, b: Any, starts: Any, shape: tuple[int, int]) -> None:
        """aᵀ · b of every unit's rows, at `start` of its slot; shape is (columns of a, columns of b)."""
        m, n = shape
        units = len(slots)
        size = size_for(m, n, units)
        self._device.post(
            self._kernels[f"by_unit_{size.name}"], (size.tiles(m, n), units), size.threads, slots.reshape(-1)[start:],
            a, b, starts, m, n, m, n, slots.shape[1],
        )  # fmt: skip


def size_for(rows: int, columns: int, parts: int = 1) -> Size:
    """The largest tile of which there are enough."""
    return next((size for size in (LARGE, SQUARE) if parts * size.tiles(rows, columns) >= ENOUGH), SMALL)
