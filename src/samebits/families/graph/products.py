"""Matrix products for layers of 64, 128 … numbers: the engine's tiles, in the shape that fits them best.

lanes.multiply cuts 64 columns into 48 and 16 and copies b first. Here a tile is 6 rows of 64 columns, 24 registers of
sums, and b, which lies in the cache, is read where it is: a fifth faster (docs/graphs.md). Other widths, and machines
without such registers, go to lanes. Every number is one chain of multiply-adds either way.
"""

from __future__ import annotations

from samebits.engine import lanes
from samebits.engine.arrays import Array
from samebits.engine.jit import WIDE_VECTORS, routine
from samebits.engine.lanes import make_tile, stride

COLUMNS, ROWS = 64, 6
tile, tile_row = make_tile(COLUMNS, False, ROWS), make_tile(COLUMNS, False, 1)
flipped, flipped_row = make_tile(COLUMNS, True, ROWS), make_tile(COLUMNS, True, 1)


@routine
def multiply(out: Array, a: Array, b: Array, panel: Array) -> None:
    """out (m, n) = a (m, k) · b (k, n). Rows are contiguous; they may be parts of longer ones. panel: see lanes."""
    if not WIDE_VECTORS or out.shape[1] % COLUMNS != 0:
        lanes.multiply(out, a, b, panel, False)
        return
    m, depth, ldo, lda, ldb = out.shape[0], b.shape[0], stride(out), stride(a), stride(b)
    for c in range(0, out.shape[1], COLUMNS):
        r = 0
        while r + ROWS <= m:
            tile(out, r * ldo + c, ldo, a, r * lda, lda, b, c, ldb, depth, False)
            r += ROWS
        while r < m:
            tile_row(out, r * ldo + c, ldo, a, r * lda, lda, b, c, ldb, depth, False)
            r += 1


@routine
def multiply_at(out: Array, a: Array, b: Array, panel: Array) -> None:
    """out (m, n) = aᵀ · b, with a (k, m) and b (k, n)."""
    if not WIDE_VECTORS or out.shape[1] % COLUMNS != 0:
        lanes.multiply_at(out, a, b, panel, False)
        return
    m, depth, ldo, lda, ldb = out.shape[0], b.shape[0], stride(out), stride(a), stride(b)
    for c in range(0, out.shape[1], COLUMNS):
        r = 0
        while r + ROWS <= m:
            flipped(out, r * ldo + c, ldo, a, r, lda, b, c, ldb, depth, False)
            r += ROWS
        while r < m:
            flipped_row(out, r * ldo + c, ldo, a, r, lda, b, c, ldb, depth, False)
            r += 1
