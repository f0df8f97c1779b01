"""Matrix products for layers of 64, 128 … numbers: the engine's tiles, in the shape that fits them best.

gemm.multiply cuts 64 columns into 48 and 16 and copies b first. Here a tile is 6 rows of 64 columns, 24 registers of
sums, and b, which lies in the cache, is read where it is: a fifth faster (docs/graphs.md). Other widths, and machines
without such registers, go to gemm. Every number is one chain of multiply-adds either way.
"""

from __future__ import annotations

from samebits.arithmetic import gemm
from samebits.arithmetic.arrays import Array
from samebits.arithmetic.gemm import DEPTH, Block, make_tile, stride
from samebits.compiler.compiled import WIDE_VECTORS
from samebits.compiler.jit import routine

COLUMNS, ROWS = 64, 6
tile, tile_row = make_tile(COLUMNS, False, ROWS), make_tile(COLUMNS, False, 1)
tile_transposed, transposed_row = make_tile(COLUMNS, True, ROWS), make_tile(COLUMNS, True, 1)


@routine
def multiply(out: Array, a: Array, b: Array, panel: Array) -> None:
    """out (m, n) = a (m, k) · b (k, n). Rows are contiguous; they may be parts of longer ones. panel: see gemm."""
    if not WIDE_VECTORS or out.shape[1] % COLUMNS != 0:
        gemm.multiply(out, a, b, panel, False)
        return
    m, depth, ldo, lda, ldb = out.shape[0], b.shape[0], stride(out), stride(a), stride(b)
    for k in range(0, depth, DEPTH):
        count = min(DEPTH, depth - k)
        for c in range(0, out.shape[1], COLUMNS):
            right, r = Block(b, k * ldb + c, ldb), 0
            while r + ROWS <= m:
                tile(Block(out, r * ldo + c, ldo), Block(a, r * lda + k, lda), right, count, k > 0)
                r += ROWS
            while r < m:
                tile_row(Block(out, r * ldo + c, ldo), Block(a, r * lda + k, lda), right, count, k > 0)
                r += 1


@routine
def multiply_transposed(out: Array, a: Array, b: Array, panel: Array) -> None:
    """out (m, n) = aᵀ · b, with a (k, m) and b (k, n)."""
    if not WIDE_VECTORS or out.shape[1] % COLUMNS != 0:
        gemm.multiply_transposed(out, a, b, panel, False)
        return
    m, depth, ldo, lda, ldb = out.shape[0], b.shape[0], stride(out), stride(a), stride(b)
    for k in range(0, depth, DEPTH):
        count = min(DEPTH, depth - k)
        for c in range(0, out.shape[1], COLUMNS):
            right, r = Block(b, k * ldb + c, ldb), 0
            while r + ROWS <= m:
                tile_transposed(Block(out, r * ldo + c, ldo), Block(a, k * lda + r, lda), right, count, k > 0)
                r += ROWS
            while r < m:
                transposed_row(Block(out, r * ldo + c, ldo), Block(a, k * lda + r, lda), right, count, k > 0)
                r += 1
