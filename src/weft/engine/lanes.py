"""Vector code the compiler does not find by itself: an exponential, a largest number, matrix products in registers.

An expf from libm is a call a number; `exp` here is straight arithmetic, so a loop over it becomes vector code. A
product is cut into tiles of 8 rows and up to 48 columns whose sums stay in registers; b is copied panel by panel, so
that it is read in order. Every number of a product is one chain of fused multiply-adds over k, from 0 on: what the
tiles look like changes the speed and not one bit. On the machine this was made for it reaches 115-160 GFLOP/s where
BLAS reaches 100, and a product of 64×64×16 costs no more than its arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from weft.engine.arrays import Array
from weft.engine.jit import WIDE_VECTORS, kernel, routine

LANES = 16  # numbers a vector; narrower machines split it
ROWS, WIDEST = (8, 3 * LANES) if WIDE_VECTORS else (4, LANES)  # of a tile: as many sums as there are registers
DEPTH = 512  # rows of b a panel holds; longer products are added up in parts
UNROLL = 2
FUSED = ("contract", "nsz")  # multiply and add in one rounding, in the order written

# bits of a float → bits of its mantissa, exponent bias, terms of the series, smallest argument whose exp is normal
_FORMATS = {32: (23, 127, 8, -87.0), 64: (52, 1023, 15, -708.0)}


if numba.config.DISABLE_JIT:

    def fused(x: Any, y: Any, z: Any) -> Any:
        return x * y + z

    def exp(x: Any) -> Any:
        return np.exp(np.maximum(x, -87.0))

    def largest(x: Any) -> Any:
        return x.max()

    def make_tile(columns: int, flipped: bool, rows: int = ROWS) -> Callable[..., None]:
        def tile(out: Any, at: int, ldo: int, a: Any, a_at: int, lda: int, b: Any, *where: Any) -> None:
            b_at, ldb, count, add = where
            i, k, j = np.arange(rows)[:, None], np.arange(count), np.arange(columns)
            left = np.ravel(_memory(a))[a_at + (i + k * lda if flipped else i * lda + k)]
            right = np.ravel(_memory(b))[b_at + k[:, None] * ldb + j]
            place = at + i * ldo + j
            flat = _memory(out)
            flat[place] = left @ right + (flat[place] if add else 0)

        return tile

    def _memory(array: Any) -> Any:
        """From the array's first element to the end of the memory it is part of, flat."""
        whole = array
        while isinstance(whole.base, np.ndarray) and whole.base.dtype == array.dtype:
            whole = whole.base
        start = (array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // array.itemsize
        return whole.reshape(-1)[start:]

else:

    @intrinsic
    def fused(typing: Any, x: Any, y: Any, z: Any) -> Any:
        """x · y + z in one rounding, as in a tile."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.fma(*args)

        return x(x, x, x), codegen

    @intrinsic
    def exp(typing: Any, x: Any) -> Any:
        """e^x for x ≤ 88: 2^n · e^r with |r| ≤ ln 2 / 2, e^r by its series. Never below the smallest normal number."""
        mantissa, bias, terms, smallest = _FORMATS[x.bitwidth]

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number, integer = context.get_value_type(x), ir.IntType(x.bitwidth)
            # A comparison, not a maximum: a NaN must come out as one.
            tiny = builder.fcmp_ordered("<", args[0], number(smallest))
            value = builder.select(tiny, number(smallest), args[0])
            floor = builder.module.declare_intrinsic("llvm.floor", [number])
            whole = builder.call(floor, [builder.fadd(builder.fmul(value, number(1 / math.log(2))), number(0.5))])
            # ln 2 in two parts: the first has few bits, so that whole · high is exact.
            high = float(np.float32(0.693359375))
            rest = builder.fsub(value, builder.fmul(whole, number(high)))
            rest = builder.fsub(rest, builder.fmul(whole, number(math.log(2) - high)))
            total = number(1 / math.factorial(terms - 1))
            for k in range(terms - 2, -1, -1):
                total = builder.fadd(builder.fmul(total, rest, flags=FUSED), number(1 / math.factorial(k)), flags=FUSED)
            power = builder.shl(builder.add(builder.fptosi(whole, integer), integer(bias)), integer(mantissa))
            return builder.fmul(total, builder.bitcast(power, number))

        return x(x), codegen

    def _vector_at(builder: Any, pointer: Any, vector: Any) -> Any:
        return builder.bitcast(pointer, vector.as_pointer())

    @intrinsic
    def largest(typing: Any, x: Any) -> Any:
        """The largest of a contiguous vector (of at least one number); a NaN may be passed over."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = context.get_value_type(x.dtype)
            vector, i32, i64 = ir.VectorType(number, LANES), ir.IntType(32), ir.IntType(64)
            array = context.make_array(x)(context, builder, args[0])
            count, align = builder.extract_value(array.shape, 0), x.dtype.bitwidth // 8
            lowest = number(-math.inf)
            best = cgutils.alloca_once_value(builder, ir.Constant(vector, [lowest] * LANES))
            top = cgutils.alloca_once_value(builder, lowest)
            builder.store(ir.Constant(vector, [lowest] * LANES), best)
            builder.store(lowest, top)

            def keep_larger(place: Any, value: Any) -> None:
                old = builder.load(place)
                builder.store(builder.select(builder.fcmp_ordered(">", value, old), value, old), place)

            whole = builder.and_(count, i64(-LANES))
            with cgutils.for_range_slice(builder, i64(0), whole, i64(LANES)) as (index, _):
                source = _vector_at(builder, builder.gep(array.data, [index]), vector)
                keep_larger(best, builder.load(source, align=align))
            with cgutils.for_range_slice(builder, whole, count, i64(1)) as (index, _):
                keep_larger(top, builder.load(builder.gep(array.data, [index])))
            found = builder.load(best)
            for lane in range(LANES):
                keep_larger(top, builder.extract_element(found, i32(lane)))
            return builder.load(top)

        return x.dtype(x), codegen

    def make_tile(columns: int, flipped: bool, rows: int = ROWS) -> Callable[..., None]:
        @intrinsic
        def tile(
            typing: Any, out: Any, at: Any, ldo: Any, a: Any, a_at: Any, lda: Any, b: Any, b_at: Any, ldb: Any,
            count: Any, add: Any,
        ) -> Any:  # fmt: skip
            """out[at + i·ldo + j] = Σ_k A(i, k) · b[b_at + k·ldb + j], + out if `add`; i < rows, j < columns.

            A(i, k) is a[a_at + i·lda + k], or flipped a[a_at + k·lda + i]. Offsets count from the array's start.
            """
            size = types.int64
            signature = types.void(out, size, size, a, size, size, b, size, size, size, types.boolean)

            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                dtype = signature.args[0].dtype
                number, align = context.get_value_type(dtype), dtype.bitwidth // 8
                vector, i32, i64 = ir.VectorType(number, LANES), ir.IntType(32), ir.IntType(64)
                zero = ir.Constant(vector, [number(0.0)] * LANES)
                _, at, ldo, _, a_at, lda, _, b_at, ldb, count, add = args

                def start(index: int, offset: Any) -> Any:
                    array = context.make_array(signature.args[index])(context, builder, args[index])
                    return builder.gep(array.data, [offset])

                def spread(value: Any) -> Any:
                    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, i32(0))
                    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(i32, LANES), [0] * LANES))

                def across(pointer: Any) -> list[Any]:
                    firsts = [builder.gep(pointer, [i64(j)]) for j in range(0, columns, LANES)]
                    return [_vector_at(builder, first, vector) for first in firsts]

                out, a, b = start(0, at), start(3, a_at), start(6, b_at)
                lines = [builder.gep(a, [i64(i) if flipped else builder.mul(lda, i64(i))]) for i in range(rows)]
                # Memory in name only: the optimiser keeps all of it in registers.
                sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(0, columns, LANES)] for _ in lines]
                for place in (place for places in sums for place in places):
                    builder.store(zero, place)

                def term(k: Any) -> None:
                    right = [builder.load(p, align=align) for p in across(builder.gep(b, [builder.mul(k, ldb)]))]
                    step = builder.mul(k, lda) if flipped else k
                    for row, places in zip(lines, sums, strict=True):
                        left = spread(builder.load(builder.gep(row, [step])))
                        for place, values in zip(places, right, strict=True):
                            added = builder.fmul(left, values, flags=FUSED)
                            builder.store(builder.fadd(builder.load(place), added, flags=FUSED), place)

                whole = builder.and_(count, i64(-UNROLL))
                with cgutils.for_range_slice(builder, i64(0), whole, i64(UNROLL)) as (k, _):
                    for u in range(UNROLL):
                        term(builder.add(k, i64(u)))
                with cgutils.for_range_slice(builder, whole, count, i64(1)) as (k, _):
                    term(k)
                targets = [across(builder.gep(out, [builder.mul(ldo, i64(i))])) for i in range(rows)]
                pairs = [pair for row in zip(targets, sums, strict=True) for pair in zip(*row, strict=True)]
                with builder.if_then(add):
                    for target, place in pairs:
                        old = builder.load(target, align=align)
                        builder.store(builder.fadd(old, builder.load(place)), place)
                for target, place in pairs:
                    builder.store(builder.load(place), target, align=align)
                return context.get_dummy_value()

            return signature, codegen

        return tile


# The widths that a row of numbers is cut into: 48, 32 and 16 columns, a as it lies or flipped.
tile48, tile32, tile16 = (make_tile(width, False) for width in (48, 32, 16))
flipped48, flipped32, flipped16 = (make_tile(width, True) for width in (48, 32, 16))


@kernel
def round_up(count: int, multiple: int) -> int:
    return (count + multiple - 1) // multiple * multiple


@kernel
def panel_size(depth: int) -> int:
    """Numbers of scratch that products with up to `depth` terms need."""
    return min(depth, DEPTH) * WIDEST + ROWS * LANES


@kernel
def next_width(left: int) -> int:
    """The widest tile for what is left of a row."""
    return min(WIDEST, max(left // LANES, 1) * LANES)


@kernel
def tile(
    out: Array, at: int, ldo: int, a: Array, a_at: int, lda: int, b: Array, b_at: int, ldb: int, count: int,
    add: bool, width: int,
) -> None:  # fmt: skip
    if width == 48:
        tile48(out, at, ldo, a, a_at, lda, b, b_at, ldb, count, add)
    elif width == 32:
        tile32(out, at, ldo, a, a_at, lda, b, b_at, ldb, count, add)
    else:
        tile16(out, at, ldo, a, a_at, lda, b, b_at, ldb, count, add)


@kernel
def flipped(
    out: Array, at: int, ldo: int, a: Array, a_at: int, lda: int, b: Array, b_at: int, ldb: int, count: int,
    add: bool, width: int,
) -> None:  # fmt: skip
    if width == 48:
        flipped48(out, at, ldo, a, a_at, lda, b, b_at, ldb, count, add)
    elif width == 32:
        flipped32(out, at, ldo, a, a_at, lda, b, b_at, ldb, count, add)
    else:
        flipped16(out, at, ldo, a, a_at, lda, b, b_at, ldb, count, add)


@kernel
def stride(array: Array) -> int:
    """Elements from one row to the next."""
    return array.strides[0] // array.itemsize


@kernel
def fill_panel(panel: Array, b: Array, k: int, count: int, c: int, width: int) -> None:
    """panel (count, width) = b[k:, c:], zeros where b ends."""
    filled = min(width, b.shape[1] - c)
    for i in range(count):
        source, target = b[k + i, c : c + filled], panel[i * width : (i + 1) * width]
        for j in range(filled):
            target[j] = source[j]
        for j in range(filled, width):
            target[j] = 0


@kernel
def fill_panel_flipped(panel: Array, b: Array, k: int, count: int, c: int, width: int) -> None:
    """panel (count, width) = bᵀ[k:, c:], zeros where bᵀ ends."""
    filled = min(width, b.shape[0] - c)
    for j in range(width):
        for i in range(count):
            panel[i * width + j] = b[c + j, k + i] if j < filled else 0


@kernel
def packed_size(depth: int, n: int) -> int:
    return depth * round_up(n, LANES)


@kernel
def pack_panels(out: Array, b: Array, flip: bool) -> None:
    """All panels of b, or of bᵀ, one after the other: what several products will read in order. out is flat."""
    depth, n = (b.shape[1], b.shape[0]) if flip else (b.shape[0], b.shape[1])
    at = 0
    for k in range(0, depth, DEPTH):
        count = min(DEPTH, depth - k)
        c = 0
        while c < n:
            width = next_width(n - c)
            panel = out[at : at + count * width]
            if flip:
                fill_panel_flipped(panel, b, k, count, c, width)
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
def rows_of_tiles(
    out: Array, a: Array, panel: Array, corner: Array, k: int, count: int, c: int, width: int, add: bool
) -> None:
    """Columns c … c + width of out = a[:, k:] · panel (count, width), all rows; the last ones fill no whole tile."""
    m, n, ldo, lda = out.shape[0], out.shape[1], stride(out), stride(a)
    whole = m // ROWS * ROWS
    for r in range(0, whole, ROWS):
        if c + width <= n:
            tile(out, r * ldo + c, ldo, a, r * lda + k, lda, panel, 0, width, count, add, width)
        else:
            tile16(corner, 0, LANES, a, r * lda + k, lda, panel, 0, width, count, False)
            copy_corner(out, r, c, corner, add)
    for r in range(whole, m):
        last_row(out[r, c : min(c + width, n)], a[r, k:], panel, count, width, add)


@kernel
def last_row(row: Array, left: Array, panel: Array, count: int, width: int, add: bool) -> None:
    """A row that fills no tile: the same chains of sums, then added, as in a tile."""
    for j in range(row.size):
        total = row.dtype.type(0)
        for i in range(count):
            total = fused(left[i], panel[i * width + j], total)
        row[j] = row[j] + total if add else total


@routine
def multiply_packed(out: Array, a: Array, packed: Array, corner: Array, add: bool) -> None:
    """out (m, n) = a (m, k) · b (k, n), + out if `add`; b as `pack_panels` left it."""
    n, depth = out.shape[1], a.shape[1]
    at = 0
    for k in range(0, depth, DEPTH):
        count = min(DEPTH, depth - k)
        c = 0
        while c < n:
            width = next_width(n - c)
            rows_of_tiles(out, a, packed[at : at + count * width], corner, k, count, c, width, add or k > 0)
            at += count * width
            c += width


@routine
def multiply(out: Array, a: Array, b: Array, panel: Array, add: bool) -> None:
    """out (m, n) = a (m, k) · b (k, n), + out if `add`. Rows are contiguous; they may be parts of longer ones."""
    n, depth = out.shape[1], b.shape[0]
    corner = panel[panel.size - ROWS * LANES :]
    for k in range(0, depth, DEPTH):
        count = min(DEPTH, depth - k)
        c = 0
        while c < n:
            width = next_width(n - c)
            fill_panel(panel, b, k, count, c, width)
            rows_of_tiles(out, a, panel, corner, k, count, c, width, add or k > 0)
            c += width


@routine
def multiply_at(out: Array, a: Array, b: Array, panel: Array, add: bool) -> None:
    """out (m, n) = aᵀ · b, with a (k, m) and b (k, n), + out if `add`."""
    m, n, depth, ldo, lda = out.shape[0], out.shape[1], b.shape[0], stride(out), stride(a)
    whole = m // ROWS * ROWS
    corner = panel[panel.size - ROWS * LANES :]
    for k in range(0, depth, DEPTH):
        count, more = min(DEPTH, depth - k), add or k > 0
        c = 0
        while c < n:
            width = next_width(n - c)
            fill_panel(panel, b, k, count, c, width)
            for r in range(0, whole, ROWS):
                if c + width <= n:
                    flipped(out, r * ldo + c, ldo, a, k * lda + r, lda, panel, 0, width, count, more, width)
                else:
                    flipped16(corner, 0, LANES, a, k * lda + r, lda, panel, 0, width, count, False)
                    copy_corner(out, r, c, corner, more)
            for r in range(whole, m):
                last_row(out[r, c : min(c + width, n)], a[k:, r], panel, count, width, more)
            c += width
