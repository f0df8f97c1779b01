"""Matrix products on a GPU (tile.cl, panel.cl), as families ask for them."""

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
    terms: int  # of a lot
    stages: int  # lots in memory
    beside: int = 1  # groups that a processor has at once: where registers would allow fewer

    @property
    def threads(self) -> int:
        return self.down * self.along

    def tiles(self, rows: int, columns: int) -> int:
        return -(-rows // (self.m * self.down)) * -(-columns // (self.n * self.along))

    def part(self, path: str = "gpu/tile.cl") -> Part:
        words = {
            "MICRO_M": self.m,
            "MICRO_N": self.n,
            "DOWN": self.down,
            "ALONG": self.along,
            "TERMS": self.terms,
            "STAGES": self.stages,
            "BESIDE": self.beside,
        }
        return path, ("_TILE", f"_{self.name}"), *((rf"\b{word}", str(value)) for word, value in words.items())


# A thread's numbers: each term of a 16 · 8 block costs 6 reads of four numbers for 128 sums, of a 4 · 4 block 2 for 16.
LARGE = Size("LARGE", 16, 8, 8, 16, 8, 2, 2)  # 128 · 128
SQUARE = Size("SQUARE", 8, 4, 8, 16, 16, 2)  # 64 · 64
SMALL = Size("SMALL", 4, 4, 8, 16, 16, 2)  # 32 · 64: where even so there are few
ENOUGH = 200  # tiles that keep a large GPU busy
DEPTH = 512  # terms of a panel (gemm.cl)
FILES = "gpu/gemm.cl", *(size.part(f"gpu/{name}.cl") for size in (LARGE, SQUARE, SMALL) for name in ("tile", "panel"))


class Products:
    """Products of matrices that lie by rows; of a part of a wider one, the width is its own."""

    def __init__(self, device: Gpu, kernels: Mapping[str, Any]) -> None:
        self._device, self._kernels = device, kernels

    def times(self, out: Any, a: Any, b: Any, shape: tuple[int, int, int], add: bool = False, width: int = 0) -> None:
        """out (m, n) = a (m, k) · b (k, n), or added to it; shape is (m, k, n). Its rows lie `width` apart."""
        self._panels("times", "times", (out,), a, b, shape, add, width)

    def scaled(self, out: Any, a: Any, b: Any, shape: tuple[int, int, int], columns: int, scale: float) -> None:
        """out = a · b, and its first columns times scale."""
        self._panels("times", "times_scaled", (out,), a, b, shape, more=(columns, scale))

    def squared(self, out: Any, squares: Any, a: Any, b: Any, shape: tuple[int, int, int]) -> None:
        """out = the positive part of a · b, and its squares."""
        self._panels("times", "times_squared", (out, squares), a, b, shape)

    def transposed(self, out: Any, a: Any, b: Any, shape: tuple[int, int, int]) -> None:
        """out (m, n) = a (m, k) · bᵀ, where b is (n, k)."""
        self._panels("times_transposed", "times_transposed", (out,), a, b, shape)

    def slope(self, out: Any, positive: Any, a: Any, b: Any, shape: tuple[int, int, int]) -> None:
        """The way back of `squared`: out = a · bᵀ · 2 · positive, which then is squared."""
        self._panels("times_transposed", "times_slope", (out, positive), a, b, shape)

    def _panels(
        self, name: str, last: str, outputs: tuple[Any, ...], a: Any, b: Any, shape: tuple[int, int, int],
        add: bool = False, width: int = 0, more: tuple[Any, ...] = (),
    ) -> None:  # fmt: skip
        """Panel by panel; the last one by the kernel `last`, which gets more."""
        m, k, n = shape
        size = size_for(m, n)
        for first in range(0, k, DEPTH):
            end = min(first + DEPTH, k)
            which, made, rest = (last, outputs, more) if end == k else (name, outputs[:1], ())
            self._device.post(
                self._kernels[f"{which}_{size.name}"], size.tiles(m, n), size.threads, *made, a, b, m, n, k, width or n,
                first, end, int(add or first > 0), *rest,
            )  # fmt: skip

    def by_unit(self, slots: Any, start: int, a: Any, b: Any, starts: Any, shape: tuple[int, int]) -> None:
        """aᵀ · b of every unit's rows, at `start` of its slot; shape is (columns of a, columns of b)."""
        m, n = shape
        units = len(slots)
        size = size_for(m, n, units)
        self._device.post(
            self._kernels[f"by_unit_{size.name}"], (size.tiles(m, n), units), size.threads, slots.reshape(-1)[start:],
            a, b, starts, m, n, slots.shape[1], aside=True,
        )  # fmt: skip


def size_for(rows: int, columns: int, parts: int = 1) -> Size:
    """The largest tile of which there are enough."""
    return next((size for size in (LARGE, SQUARE) if parts * size.tiles(rows, columns) >= ENOUGH), SMALL)
