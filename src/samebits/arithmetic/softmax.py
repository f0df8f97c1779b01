"""Softmax of a row and its way back: the one place for all of them.

The chain: the largest is subtracted, the e^x are summed, and each is multiplied by 1 / Σ. Long rows are summed in SUMS
running sums (simd.py); the few classes of a head, one after the other, by whoever has the row.
"""

from __future__ import annotations

import math
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.simd import I64, LANES, exp, largest, total
from samebits.compiler.jit import kernel

if numba.config.DISABLE_JIT:
    from samebits.arithmetic.simd import memory_from

    def softmax(out: Any, at: int, width: int, count: int) -> None:
        row = memory_from(out)[at : at + width]
        row[:count] = exp(row[:count] - row[:count].max())
        row[count:] = 0
        row /= row.sum()

    def softmax_backward(slopes: Any, chances: Any, at: int, width: int) -> None:
        row, share = memory_from(slopes)[at : at + width], memory_from(chances)[at : at + width]
        row[:] = share * (row - (share * row).sum())

else:
    from samebits.arithmetic.simd import Emitter, size

    class Pair:
        """SUMS running sums as two vectors that take turns: vectors 0, 2, 4 … go to one, 1, 3, 5 … to the other."""

        def __init__(self, emit: Any) -> None:
            self.emit, self.next, self.other = emit, emit.variable(emit.every(0.0)), emit.variable(emit.every(0.0))

        def take(self, accumulate: Any) -> None:
            """accumulate(sum) → sum, on the one whose turn it is."""
            builder = self.emit.builder
            done = accumulate(builder.load(self.next))
            builder.store(builder.load(self.other), self.next)
            builder.store(done, self.other)

        def fold(self) -> Any:
            """Both orders of the last addition give the same bits, so it does not matter whose turn it is."""
            builder = self.emit.builder
            both = builder.fadd(builder.load(self.next), builder.load(self.other))
            return self.emit.fold(both, builder.fadd)

    @intrinsic
    def softmax(typing: Any, out: Any, at: Any, width: Any, count: Any) -> Any:
        """out[at : at + count] → its softmax, zeros up to at + width; width is a multiple of 16."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = Emitter(context, builder, out.dtype)
            row, width, count = emit.start(out, args[0], args[1]), args[2], args[3]
            lanes = ir.Constant(ir.VectorType(I64, LANES), list(range(LANES)))

            def counted(index: Any) -> Any:
                """The lanes from index on that lie before count."""
                left = builder.insert_element(ir.Constant(lanes.type, ir.Undefined), builder.sub(count, index), I64(0))
                return builder.icmp_signed("<", lanes, emit.shuffle(left, left, [0] * LANES))

            best, sums = emit.variable(emit.every(-math.inf)), Pair(emit)
            with cgutils.for_range_slice(builder, I64(0), width, I64(LANES)) as (index, _):
                values = builder.select(counted(index), emit.load(builder.gep(row, [index])), emit.every(-math.inf))
                builder.store(emit.larger(values, builder.load(best)), best)
            top = emit.spread(emit.fold(builder.load(best), emit.larger))
            with cgutils.for_range_slice(builder, I64(0), width, I64(LANES)) as (index, _):
                grown = emit.exp(builder.fsub(emit.load(builder.gep(row, [index])), top))
                grown = builder.select(counted(index), grown, emit.every(0.0))
                emit.store(grown, builder.gep(row, [index]))
                sums.take(lambda old, grown=grown: builder.fadd(old, grown))
            share = emit.spread(builder.fdiv(emit.number(1.0), sums.fold()))
            with cgutils.for_range_slice(builder, I64(0), width, I64(LANES)) as (index, _):
                place = builder.gep(row, [index])
                emit.store(builder.fmul(emit.load(place), share), place)
            return context.get_dummy_value()

        return types.void(out, size, size, size), codegen

    @intrinsic
    def softmax_backward(typing: Any, slopes: Any, chances: Any, at: Any, width: Any) -> Any:
        """slopes → chances · (slopes − Σ chances·slopes), both from `at` on; width is a multiple of 16."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = Emitter(context, builder, slopes.dtype)
            row, share, width = emit.start(slopes, args[0], args[2]), emit.start(chances, args[1], args[2]), args[3]
            sums = Pair(emit)

            def pair(index: Any) -> tuple[Any, Any]:
                return emit.load(builder.gep(share, [index])), emit.load(builder.gep(row, [index]))

            with cgutils.for_range_slice(builder, I64(0), width, I64(LANES)) as (index, _):
                left, right = pair(index)
                sums.take(lambda old, left=left, right=right: emit.multiply_add(left, right, old))
            mean = emit.spread(sums.fold())
            with cgutils.for_range_slice(builder, I64(0), width, I64(LANES)) as (index, _):
                left, right = pair(index)
                emit.store(builder.fmul(left, builder.fsub(right, mean)), builder.gep(row, [index]))
            return context.get_dummy_value()

        return types.void(slopes, chances, size, size), codegen


@kernel
def softmax_row(row: Array) -> tuple[float, float]:
    """A row of any length → its softmax; its largest number and the sum of e^(x − largest), both as they were."""
    top = largest(row)
    for i in range(row.size):
        row[i] = exp(row[i] - top)
    sums = total(row)
    share = row.dtype.type(1) / sums
    for i in range(row.size):
        row[i] *= share
    return top, sums


@kernel
def softmax_segments(rows: Array, sizes: tuple[int, ...]) -> None:
    """Every row (n, Σ sizes) → the softmax of each of its segments of a few numbers; a size may be 0."""
    for i in range(rows.shape[0]):
        begin = 0
        for size in sizes:
            row = rows[i, begin : begin + size]
            begin += size
            if size > 0:
                top = row[0]
                for j in range(1, size):
                    if not row[j] <= top:  # so that a NaN wins
                        top = row[j]
                for j in range(size):
                    row[j] -= top
    flat = rows.reshape(-1)
    for j in range(flat.size):
        flat[j] = exp(flat[j])
    for i in range(rows.shape[0]):
        begin = 0
        for size in sizes:
            row = rows[i, begin : begin + size]
            begin += size
            if size > 0:
                sums = row[0]
                for j in range(1, size):
                    sums += row[j]
                share = rows.dtype.type(1) / sums
                for j in range(size):
                    row[j] *= share


@kernel
def softmax_segment_backward(out: Array, chances: Array, slopes: Array, weight: float) -> None:
    """out = weight · chances · (slopes − Σ chances·slopes), a few numbers."""
    mean = slopes.dtype.type(0)
    for k in range(out.size):
        mean += chances[k] * slopes[k]
    for k in range(out.size):
        out[k] = weight * chances[k] * (slopes[k] - mean)
