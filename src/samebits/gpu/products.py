"""Matrix products on a GPU (gemm.cl), as families ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samebits.gpu.device import Gpu

FILE = "gpu/gemm.cl"
SIDE, THREADS = 64, 256  # of a tile
A_TRANSPOSED, B_TRANSPOSED, ADD, PARTS = 1, 2, 4, 8


class Products:
    """Products of matrices that lie by rows; of a part of a wider one, the width is its own."""

    def __init__(self, device: Gpu, kernels: Mapping[str, Any]) -> None:
        self._device, self._gemm = device, kernels["gemm"]

    def times(
        self, out: Any, a: Any, b: Any, shape: tuple[int, int, int], flags: int = 0, lda: int = 0, ldb: int = 0,
        ldc: int = 0,
    ) -> None:  # fmt: skip
        """out (m, n) = a (m, k) · b (k, n), or bᵀ; shape is (m, k, n)."""
        _, k, n = shape
        self._post(out, a, b, a, shape, lda or k, ldb or (k if flags & B_TRANSPOSED else n), ldc or n, flags, 1, 0)

    def by_unit(
        self, slots: Any, start: int, a: Any, b: Any, starts: Any, shape: tuple[int, int], lda: int = 0, ldb: int = 0
    ) -> None:
        """aᵀ · b of every unit's rows, at `start` of its slot; shape is (columns of a, columns of b)."""
        m, n = shape
        flat, units = slots.reshape(-1)[start:], len(slots)
        self._post(flat, a, b, starts, (m, 0, n), lda or m, ldb or n, n, A_TRANSPOSED | PARTS, units, slots.shape[1])

    def _post(
        self, out: Any, a: Any, b: Any, starts: Any, shape: tuple[int, int, int], lda: int, ldb: int, ldc: int,
        flags: int, parts: int, c_part: int,
    ) -> None:  # fmt: skip
        m, k, n = shape
        tiles = -(-m // SIDE) * -(-n // SIDE)
        self._device.post(self._gemm, (tiles, parts), THREADS, out, a, b, starts, m, n, k, lda, ldb, ldc, flags, c_part)
