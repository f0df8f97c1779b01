"""Matrix products in registers.

A product is cut into tiles of ROWS rows and up to WIDEST columns whose sums stay in registers; b is copied panel by
panel, so that it is read in order. Every number of a product is one chain of fused multiply-adds over k, from 0 on:
what the tiles look like changes the speed and not one bit. On the machine this was made for it reaches 115-160 GFLOP/s
where BLAS reaches 100, and a product of 64×64×16 costs no more than its arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.simd import LANES, fused, move, prefetch
from samebits.compiler.compiled import WIDE_VECTORS
from samebits.compiler.jit import kernel, routine

# Of a tile: 24 registers of 512 bits hold its sums, or 8 of 256 bits; the textbook's 12 make LLVM spill, and half as
# fast (docs/LOG.md). They change the speed and no bit.
ROWS, WIDEST = (8, 3 * LANES) if WIDE_VECTORS else (4, LANES)
DEPTH = 512  # rows of b a panel holds; longer products are added up in parts
UNROLL = 2


class Block(NamedTuple):
    """A part of an array in memory: element (i, j) is array[at + i·stride + j], counted from the array's start."""

    array: Any
    at: Any
    stride: Any


class Panel(NamedTuple):
    """Rows k … k + terms and columns c … c + width of the right factor, copied to read them in order."""

    numbers: Array
    k: int
    terms: int
    c: int
    width: int


if numba.config.DISABLE_JIT:
    from samebits.arithmetic.simd import memory_from

    def make_tile(columns: int, transposed: bool, rows: int = ROWS) -> Callable[..., None]:
        def tile(out: Block, a: Block, b: Block, count: int, add: bool) -> None:
            i, k, j = np.arange(rows)[:, None], np.arange(count), np.arange(columns)
            left = np.ravel(memory_from(a.array))[a.at + (i + k * a.stride if transposed else i * a.stride + k)]
            right = np.ravel(memory_from(b.array))[b.at + k[:, None] * b.stride + j]
            place = out.at + i * out.stride + j
            flat = memory_from(out.array)
            flat[place] = left @ right + (flat[place] if add else 0)

        return tile

else:
    from samebits.arithmetic.simd import Emitter

    def make_tile(columns: int, transposed: bool, rows: int = ROWS) -> Callable[..., None]:
        @intrinsic
        def tile(typing: Any, out: Any, a: Any, b: Any, count: Any, add: Any) -> Any:
            """Blocks: out(i, j) = Σ_k a(i, k) · b(k, j), + out if `add`; i < rows, j < columns. Transposed: a(k, i)."""
            signature = types.void(out, a, b, types.int64, types.boolean)

            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                emit, i64 = Emitter(context, builder, signature.args[0][0].dtype), ir.IntType(64)
                *blocks, count, add = args
                ldo, lda, ldb = (builder.extract_value(block, 2) for block in blocks)

                def across(pointer: Any) -> list[Any]:
                    return [builder.gep(pointer, [i64(j)]) for j in range(0, columns, LANES)]

                out, a, b = (
                    emit.start(kind[0], builder.extract_value(block, 0), builder.extract_value(block, 1))
                    for kind, block in zip(signature.args, blocks, strict=False)
                )
                lines = [builder.gep(a, [i64(i) if transposed else builder.mul(lda, i64(i))]) for i in range(rows)]
                sums = [[emit.variable(emit.every(0.0)) for _ in range(0, columns, LANES)] for _ in lines]
                targets = [across(builder.gep(out, [builder.mul(ldo, i64(i))])) for i in range(rows)]

                def term(k: Any) -> None:
                    right = [emit.load(place) for place in across(builder.gep(b, [builder.mul(k, ldb)]))]
                    step = builder.mul(k, lda) if transposed else k
                    for row, places in zip(lines, sums, strict=True):
                        left = emit.spread(builder.load(builder.gep(row, [step])))
                        for place, values in zip(places, right, strict=True):
                            builder.store(emit.multiply_add(left, values, builder.load(place)), place)

                whole = builder.and_(count, i64(-UNROLL))
                with cgutils.for_range_slice(builder, i64(0), whole, i64(UNROLL)) as (k, _):
                    for u in range(UNROLL):
                        term(builder.add(k, i64(u)))
                with cgutils.for_range_slice(builder, whole, count, i64(1)) as (k, _):
                    term(k)
                pairs = [pair for row in zip(targets, sums, strict=True) for pair in zip(*row, strict=True)]
                with builder.if_then(add):
                    for target, place in pairs:
                        builder.store(builder.fadd(emit.load(target), builder.load(place)), place)
                for target, place in pairs:
                    emit.store(builder.load(place), target)
                return context.get_dummy_value()

            return signature, codegen

        return tile


Tile = Callable[..., None]


def make_tiles(transposed: bool, rows: int) -> tuple[Tile, Tile]:
    """A tile of 16 columns, and one whose last argument is its width: 16, 32 or 48 columns, as far as WIDEST goes."""
    tile16 = make_tile(LANES, transposed, rows)
    if WIDEST == LANES:

        @kernel
        def any_width(out: Block, a: Block, b: Block, count: int, add: bool, width: int) -> None:
            tile16(out, a, b, count, add)

        return tile16, any_width

    tile48, tile32 = make_tile(48, transposed, rows), make_tile(32, transposed, rows)

    @kernel
    def any_of_three(out: Block, a: Block, b: Block, count: int, add: bool, width: int) -> None:
        if width == 48:
            tile48(out, a, b, count, add)
        elif width == 32:
            tile32(out, a, b, count, add)
        else:
            tile16(out, a, b, count, add)

    return tile16, any_of_three


tile16, tile = make_tiles(False, ROWS)
transposed16, tile_transposed = make_tiles(True, ROWS)


@kernel
def round_up(count: int, multiple: int) -> int:
    return (count + multiple - 1) // multiple * multiple


@kernel
def panel_size(depth: int) -> int:
    """Numbers of scratch that products with up to `depth` terms need."""
    return min(depth, DEPTH) * WIDEST + ROWS * LANES


@kernel
def transposed_size(depth: int, m: int) -> int:
    """Numbers of scratch that aᵀ · b needs, with up to `depth` rows of up to m numbers in a."""
    return min(depth, DEPTH) * round_up(m, LANES) + panel_size(depth)


@kernel
def next_width(left: int) -> int:
    """The widest tile for what is left of a row."""
    return min(WIDEST, max(left // LANES, 1) * LANES)


@kernel
def stride(array: Array) -> int:
    """Elements from one row to the next."""
    return array.strides[0] // array.itemsize


@kernel
def fill_panel(panel: Array, b: Array, k: int, count: int, c: int, width: int) -> None:
    """panel (count, width) = b[k:, c:], zeros where b ends."""
    filled, ldb, one = min(width, b.shape[1] - c), stride(b), b.dtype.type(1)
    if filled == WIDEST:  # most panels: a loop of known length
        for i in range(count):
            for j in range(0, WIDEST, LANES):
                move(panel, i * WIDEST + j, b, (k + i) * ldb + c + j, one)
        return
    whole = filled // LANES * LANES
    for i in range(count):
        for j in range(0, whole, LANES):
            move(panel, i * width + j, b, (k + i) * ldb + c + j, one)
        for j in range(whole, width):
            panel[i * width + j] = b[k + i, c + j] if j < filled else 0


@kernel
def fill_blocks(blocks: Array, a: Array, k: int, count: int) -> None:
    """a[k : k + count] in blocks (count, LANES) of its columns: a tile that goes down a column of a itself, whose rows
    are often a power of two apart, finds few of its numbers in the cache."""
    m, lda, one = a.shape[1], stride(a), a.dtype.type(1)
    whole = m // LANES * LANES
    for r in range(0, whole, LANES):
        block = r // LANES * LANES * count + r % LANES
        for i in range(count):
            move(blocks, block + i * LANES, a, (k + i) * lda + r, one)
    block = whole // LANES * LANES * count + whole % LANES
    for i in range(count):
        for r in range(whole, m):
            blocks[block + i * LANES + r - whole] = a[k + i, r]


@kernel
def fill_panel_transposed(panel: Array, b: Array, k: int, count: int, c: int, width: int) -> None:
    """panel (count, width) = bᵀ[k:, c:], zeros where bᵀ ends."""
    filled = min(width, b.shape[0] - c)
    for j in range(width):
        for i in range(count):
            panel[i * width + j] = b[c + j, k + i] if j < filled else 0


@kernel
def panels_size(depth: int, n: int) -> int:
    return depth * round_up(n, LANES)


@kernel
def fill_panels(out: Array, b: Array, transposed: bool) -> None:
    """All panels of b, or of bᵀ, one after the other: what several products will read in order. out is flat."""
    depth, n = (b.shape[1], b.shape[0]) if transposed else (b.shape[0], b.shape[1])
    at = 0
    for k in range(0, depth, DEPTH):
        count = min(DEPTH, depth - k)
        c = 0
        while c < n:
            width = next_width(n - c)
            panel = out[at : at + count * width]
            if transposed:
                fill_panel_transposed(panel, b, k, count, c, width)
            else:
                fill_panel(panel, b, k, count, c, width)
            at += count * width
            c += width


@kernel
def copy_corner(out: Array, r: int, c: int, corner: Array, add: bool) -> None:
    """A tile that reached beyond out's last column: the part that belongs to it."""
    for i in range(ROWS):
        for j in range(out.shape[1] - c):
            value = corner[i * LANES + j]
            out[r + i, c + j] = out[r + i, c + j] + value if add else value


@kernel
def rows_of_tiles(out: Array, a: Array, panel: Panel, corner: Array, add: bool) -> None:
    """The panel's columns of out = a[:, k:] · panel, all rows; the last ones fill no whole tile."""
    k, count, c, width = panel.k, panel.terms, panel.c, panel.width
    m, n, ldo, lda = out.shape[0], out.shape[1], stride(out), stride(a)
    whole, right = m // ROWS * ROWS, Block(panel.numbers, 0, width)
    for r in range(0, whole, ROWS):
        left = Block(a, r * lda + k, lda)
        if c + width <= n:
            tile(Block(out, r * ldo + c, ldo), left, right, count, add, width)
        else:
            tile16(Block(corner, 0, LANES), left, right, count, False)
            copy_corner(out, r, c, corner, add)
    for r in range(whole, m):
        last_row(out[r, c : min(c + width, n)], a[r, k:], panel.numbers, count, width, add)


@kernel
def last_row(row: Array, left: Array, panel: Array, count: int, width: int, add: bool) -> None:
    """A row that fills no tile: the same chains of sums, then added, as in a tile."""
    for j in range(row.size):
        total = row.dtype.type(0)
        for i in range(count):
            total = fused(left[i], panel[i * width + j], total)
        row[j] = row[j] + total if add else total


@routine
def multiply_panels(out: Array, a: Array, panels: Array, corner: Array, add: bool) -> None:
    """out (m, n) = a (m, k) · b (k, n), + out if `add`; b as `fill_panels` left it."""
    n, depth = out.shape[1], a.shape[1]
    at = 0
    for k in range(0, depth, DEPTH):
        count = min(DEPTH, depth - k)
        c = 0
        while c < n:
            width = next_width(n - c)
            panel = Panel(panels[at : at + count * width], k, count, c, width)
            rows_of_tiles(out, a, panel, corner, add or k > 0)
            at += count * width
            c += width


@routine
def multiply(out: Array, a: Array, b: Array, panel: Array, add: bool) -> None:
    """out (m, n) = a (m, k) · b (k, n), + out if `add`. Rows are contiguous; they may be parts of longer ones."""
    n, depth = out.shape[1], b.shape[0]
    if panel.size < panel_size(depth):
        raise ValueError("the panel is too small")
    corner = panel[panel.size - ROWS * LANES :]
    for k in range(0, depth, DEPTH):
        count = min(DEPTH, depth - k)
        c = 0
        while c < n:
            width = next_width(n - c)
            fill_panel(panel, b, k, count, c, width)
            rows_of_tiles(out, a, Panel(panel, k, count, c, width), corner, add or k > 0)
            c += width


@routine
def multiply_transposed(out: Array, a: Array, b: Array, scratch: Array, add: bool) -> None:
    """out (m, n) = aᵀ · b, with a (k, m) and b (k, n), + out if `add`. The out of such a product, a gradient, is seldom
    in the cache, so a tile's lines are asked for before its sums are made."""
    m, n, depth, ldo = out.shape[0], out.shape[1], b.shape[0], stride(out)
    whole = m // ROWS * ROWS
    if scratch.size < transposed_size(depth, m):
        raise ValueError("the scratch is too small")
    panel, blocks = scratch[: panel_size(depth)], scratch[panel_size(depth) :]
    corner = panel[panel.size - ROWS * LANES :]
    for k in range(0, depth, DEPTH):
        count, more = min(DEPTH, depth - k), add or k > 0
        fill_blocks(blocks, a, k, count)
        c = 0
        while c < n:
            width = next_width(n - c)
            fill_panel(panel, b, k, count, c, width)
            right = Block(panel, 0, width)
            for r in range(0, whole, ROWS):
                left = Block(blocks, r // LANES * LANES * count + r % LANES, LANES)
                if c + width <= n:
                    for i in range(r, r + ROWS):
                        for j in range(c, c + width, LANES):
                            prefetch(out, i * ldo + j)
                    tile_transposed(Block(out, r * ldo + c, ldo), left, right, count, more, width)
                else:
                    transposed16(Block(corner, 0, LANES), left, right, count, False)
                    copy_corner(out, r, c, corner, more)
            for r in range(whole, m):
                last_row(out[r, c : min(c + width, n)], a[k:, r], panel, count, width, more)
            c += width
