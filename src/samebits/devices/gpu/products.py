"""Matrix products on a GPU (tile.cl, panel.cl), as families ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.gemm import DEPTH
from samebits.devices.gpu.device import Gpu
from samebits.devices.gpu.dialect import Part

OWNER = "products"


class Size(NamedTuple):
    """Of a tile: a thread has (m, n) numbers, a group (down, along) threads."""

    name: str
    m: int
    n: int
    down: int
    along: int
    terms: int  # of a lot, an even number
    beside: int = 1  # groups that a processor has at once: where registers would allow fewer

    @property
    def threads(self) -> int:
        return self.down * self.along

    def tiles(self, rows: int, columns: int) -> int:
        return -(-rows // (self.m * self.down)) * -(-columns // (self.n * self.along))

    def part(self, path: str = "devices/gpu/tile.cl") -> Part:
        words = ("TILE", "MICRO_M", "MICRO_N", "DOWN", "ALONG", "TERMS", "BESIDE")
        return path, *zip(words, self, strict=True)


# A thread's numbers: each term of a 16 · 8 block costs 6 reads of four numbers for 128 sums, of a 4 · 4 block 2 for 16.
LARGE = Size("LARGE", 16, 8, 8, 16, 8, 2)  # 128 · 128
SQUARE = Size("SQUARE", 8, 4, 8, 16, 16)  # 64 · 64
SMALL = Size("SMALL", 4, 4, 8, 16, 16)  # 32 · 64: where even so there are few, and each waits for its lots
ENOUGH = 200  # tiles that keep a large GPU busy
ENOUGH_OF_UNITS = 380  # … that each go through several units; times those that are beside each other
MOST_LEVELS = 6  # of the tree, folded by whoever computes a unit
WORDS = {"DEPTH": DEPTH}  # of FILES
FILES = (
    "devices/gpu/gemm.cl",
    *(size.part(f"devices/gpu/{name}.cl") for size in (LARGE, SQUARE, SMALL) for name in ("tile", "panel")),
)


class Product(NamedTuple):
    """The record of gemm.cl."""

    m: int
    n: int
    k: int
    ldc: int
    begun: int = 0
    squares: int = 0
    what: int = 0  # every kernel knows its own
    scaled: int = 0
    scale: float = 1.0


MATRICES = 5  # of a launch of by_unit


class UnitProducts(NamedTuple):
    """The record of gemm.cl."""

    c_part: int
    levels: int
    kept: int
    m0: int
    n0: int
    at0: int
    m1: int
    n1: int
    at1: int
    m2: int
    n2: int
    at2: int
    m3: int
    n3: int
    at3: int
    m4: int
    n4: int
    at4: int


class Gradient(NamedTuple):
    """Every unit's aᵀ · b, at `start` of its slot; a has so many rows, and columns."""

    start: int
    a: Any
    b: Any
    rows: int
    columns: int


class Products:
    """Products of matrices that lie by rows; of a part of a wider one, the width is its own."""

    def __init__(self, device: Gpu, kernels: Mapping[str, Any]) -> None:
        self._device, self._kernels = device, kernels

    def times(
        self, out: Any, a: Any, b: Any, shape: tuple[int, int, int], add: bool = False, width: int = 0,
        squares: bool = False,
    ) -> None:  # fmt: skip
        """out (m, n) = a (m, k) · b (k, n), or added to it; shape is (m, k, n). Its rows lie `width` apart.
        `squares`: of the numbers in a."""
        m, k, n = shape
        self._tiles("times", (out,), a, b, Product(m, n, k, width or n, int(add), int(squares)))

    def scaled(self, out: Any, a: Any, b: Any, shape: tuple[int, int, int], columns: int, scale: float) -> None:
        """out = a · b, and its first columns times scale."""
        m, k, n = shape
        self._tiles("times_scaled", (out,), a, b, Product(m, n, k, n, scaled=columns, scale=scale))

    def positive(self, out: Any, a: Any, b: Any, shape: tuple[int, int, int]) -> None:
        """out = the positive part of a · b."""
        m, k, n = shape
        self._tiles("times_positive", (out,), a, b, Product(m, n, k, n))

    def transposed(self, out: Any, a: Any, b: Any, shape: tuple[int, int, int]) -> None:
        """out (m, n) = a (m, k) · bᵀ, where b is (n, k)."""
        m, k, n = shape
        self._tiles("times_transposed", (out,), a, b, Product(m, n, k, n))

    def slope(self, out: Any, positive: Any, a: Any, b: Any, shape: tuple[int, int, int]) -> None:
        """The way back of the squares of `positive`: out = a · bᵀ · 2 · positive, which then is squared."""
        m, k, n = shape
        self._tiles("times_slope", (out, positive), a, b, Product(m, n, k, n))

    def _tiles(self, name: str, outputs: tuple[Any, ...], a: Any, b: Any, product: Product) -> None:
        size = size_for([(product.m, product.n)])
        kernel, tiles = self._kernels[f"{name}_{size.name}"], size.tiles(product.m, product.n)
        self._device.post(kernel, tiles, size.threads, *outputs, a, b, product)

    def by_unit(self, slots: Any, gradients: Sequence[Gradient], starts: Any, longest: int = DEPTH) -> None:
        """Up to five gradients at once, by the tree folded over the units of a slot; a unit's rows begin at starts, and
        are at most so many."""
        units = len(starts) - 1
        levels = (units // len(slots)).bit_length() - 1
        size = size_for([(one.rows, one.columns) for one in gradients], len(slots))
        tiles = sum(size.tiles(one.rows, one.columns) for one in gradients)
        kept = levels - 1 + (longest > DEPTH) if levels else 0
        numbers = size.m * size.n * size.threads
        nodes = self._device.scratch(OWNER).buffer("nodes", (max(1, len(slots) * tiles * kept * numbers),), np.float32)
        none = Gradient(0, gradients[0].a, gradients[0].b, 0, 0)
        all_of_them = (*gradients, *[none] * (MATRICES - len(gradients)))
        factors = [factor for one in all_of_them for factor in (one.a, one.b)]
        places = [number for one in all_of_them for number in (one.rows, one.columns, one.start)]
        self._device.post(
            self._kernels[f"by_unit_{size.name}"], (tiles, len(slots)), size.threads, slots, nodes, starts, *factors,
            UnitProducts._make([slots.shape[1], levels, kept, *places]), aside=True,
        )  # fmt: skip


def size_for(shapes: Sequence[tuple[int, int]], units: int = 1) -> Size:
    """The largest tile of which there are enough, where every unit has results of all these shapes."""
    for size in LARGE, SQUARE:
        if units * sum(size.tiles(*shape) for shape in shapes) >= ENOUGH:
            return size
    return SMALL


def levels_for(shapes: Sequence[tuple[int, int]], first: int, last: int) -> int:
    """How many levels of the tree are folded where gradients of such shapes are computed: as many as leave enough to do
    side by side, and end nowhere but with the units first … last."""
    units = last - first
    size = size_for(shapes, units)
    tiles = sum(size.tiles(*shape) for shape in shapes)
    levels = 0
    while levels < min(MOST_LEVELS, most_levels(first, last)):
        if (units >> levels + 1) * tiles < ENOUGH_OF_UNITS * size.beside:
            break
        levels += 1
    return levels


def most_levels(first: int, last: int) -> int:
    """The largest nodes of the tree of which the units first … last are made, all alike."""
    both = first | last
    return (both & -both).bit_length() - 1
