"""Rows of numbers as vectors of 16: code the compiler does not find by itself.

An expf from libm is a call a number; `exp` here is straight arithmetic, so a loop over it becomes vector code. Rows of
16 to 64 numbers are too short for the loop vectoriser, which left a softmax scalar and fifteen times slower
(docs/LOG.md); those are written out as vectors. Sums over a row have one fixed order.
Places are offsets from an array's first element, as in engine/lanes.py.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16  # numbers a vector; narrower machines split it
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

    def move(out: Any, at: int, x: Any, start: int, scale: Any) -> None:
        memory_from(out)[at : at + LANES] = scale * memory_from(x)[start : start + LANES]

    def prefetch(out: Any, at: int) -> None:
        pass

    def softmax(out: Any, at: int, width: int, count: int) -> None:
        row = memory_from(out)[at : at + width]
        row[:count] = exp(row[:count] - row[:count].max())
        row[count:] = 0
        row /= row.sum()

    def softmax_backward(slopes: Any, weights: Any, at: int, width: int) -> None:
        row, share = memory_from(slopes)[at : at + width], memory_from(weights)[at : at + width]
        row[:] = share * (row - (share * row).sum())

    def memory_from(array: Any) -> Any:
        """From the array's first element to the end of the memory it is part of, flat."""
        whole = array
        while isinstance(whole.base, np.ndarray) and whole.base.dtype == array.dtype:
            whole = whole.base
        start = (array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // array.itemsize
        return whole.reshape(-1)[start:]

else:
    size = types.int64

    class Emitter:
        """Instructions on vectors of an array's numbers."""

        def __init__(self, context: Any, builder: Any, dtype: Any) -> None:
            self.context, self.builder, self.dtype = context, builder, dtype
            self.number = context.get_value_type(dtype)
            self.vector = ir.VectorType(self.number, LANES)
            self.align = dtype.bitwidth // 8

        def every(self, value: float) -> Any:
            return ir.Constant(self.vector, [self.number(value)] * LANES)

        def spread(self, value: Any) -> Any:
            """One number in every lane."""
            lane, lanes = ir.IntType(32), ir.VectorType(ir.IntType(32), LANES)
            one = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, lane(0))
            return self.builder.shuffle_vector(one, one, ir.Constant(lanes, [0] * LANES))

        def start(self, kind: Any, array: Any, offset: Any) -> Any:
            return self.builder.gep(self.context.make_array(kind)(self.context, self.builder, array).data, [offset])

        def place(self, pointer: Any) -> Any:
            return self.builder.bitcast(pointer, self.vector.as_pointer())

        def load(self, pointer: Any) -> Any:
            return self.builder.load(self.place(pointer), align=self.align)

        def store(self, value: Any, pointer: Any) -> None:
            self.builder.store(value, self.place(pointer), align=self.align)

        def variable(self, first: Any) -> Any:
            """A register with a name: the optimiser removes the memory."""
            place = cgutils.alloca_once_value(self.builder, first)
            self.builder.store(first, place)
            return place

        def larger(self, a: Any, b: Any) -> Any:
            return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

        def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
            return self.builder.fadd(self.builder.fmul(a, b, flags=FUSED), c, flags=FUSED)

        def fold(self, value: Any, join: Any) -> Any:
            """All lanes joined into one number, by halves."""
            lane, width = ir.IntType(32), LANES
            while width > 1:
                width //= 2
                upper = ir.Constant(ir.VectorType(lane, width), list(range(width, 2 * width)))
                lower = ir.Constant(ir.VectorType(lane, width), list(range(width)))
                value = join(
                    self.builder.shuffle_vector(value, value, lower), self.builder.shuffle_vector(value, value, upper)
                )
            return self.builder.extract_element(value, lane(0))

        def exp(self, value: Any) -> Any:
            """Of a number or of a vector."""
            builder, kind, bits = self.builder, value.type, self.dtype.bitwidth
            mantissa, bias, terms, smallest = _FORMATS[bits]
            wide = isinstance(kind, ir.VectorType)
            integer: Any = ir.VectorType(ir.IntType(bits), LANES) if wide else ir.IntType(bits)

            def real(x: float) -> Any:
                return self.every(x) if wide else kind(x)

            def whole_number(x: int) -> Any:
                return ir.Constant(integer, [ir.IntType(bits)(x)] * LANES) if wide else integer(x)

            # A comparison, not a maximum: a NaN must come out as one.
            value = builder.select(builder.fcmp_ordered("<", value, real(smallest)), real(smallest), value)
            name = f"llvm.floor.{f'v{LANES}' if wide else ''}f{bits}"
            floor = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name)
            whole = builder.call(floor, [builder.fadd(builder.fmul(value, real(1 / math.log(2))), real(0.5))])
            # ln 2 in two parts: the first has few bits, so that whole · high is exact.
            high = float(np.float32(0.693359375))
            rest = builder.fsub(value, builder.fmul(whole, real(high)))
            rest = builder.fsub(rest, builder.fmul(whole, real(math.log(2) - high)))
            total = real(1 / math.factorial(terms - 1))
            for k in range(terms - 2, -1, -1):
                total = self.multiply_add(total, rest, real(1 / math.factorial(k)))
            exponent = builder.add(builder.fptosi(whole, integer), whole_number(bias))
            return builder.fmul(total, builder.bitcast(builder.shl(exponent, whole_number(mantissa)), kind))

    @intrinsic
    def fused(typing: Any, x: Any, y: Any, z: Any) -> Any:
        """x · y + z in one rounding, as in a tile."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.fma(*args)

        return x(x, x, x), codegen

    @intrinsic
    def exp(typing: Any, x: Any) -> Any:
        """e^x for x ≤ 88: 2^n · e^r with |r| ≤ ln 2 / 2, e^r by its series. Never below the smallest normal number."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return Emitter(context, builder, x).exp(args[0])

        return x(x), codegen

    @intrinsic
    def largest(typing: Any, x: Any) -> Any:
        """The largest of a contiguous vector (of at least one number); a NaN may be passed over."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit, i64 = Emitter(context, builder, x.dtype), ir.IntType(64)
            array = context.make_array(x)(context, builder, args[0])
            count = builder.extract_value(array.shape, 0)
            best, top = emit.variable(emit.every(-math.inf)), emit.variable(emit.number(-math.inf))
            whole = builder.and_(count, i64(-LANES))
            with cgutils.for_range_slice(builder, i64(0), whole, i64(LANES)) as (index, _):
                builder.store(emit.larger(emit.load(builder.gep(array.data, [index])), builder.load(best)), best)
            with cgutils.for_range_slice(builder, whole, count, i64(1)) as (index, _):
                builder.store(emit.larger(builder.load(builder.gep(array.data, [index])), builder.load(top)), top)
            return emit.larger(emit.fold(builder.load(best), emit.larger), builder.load(top))

        return x.dtype(x), codegen

    @intrinsic
    def move(typing: Any, out: Any, at: Any, x: Any, start: Any, scale: Any) -> Any:
        """out[at : at + 16] = scale · x[start : start + 16]."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = Emitter(context, builder, x.dtype)
            values = emit.load(emit.start(x, args[2], args[3]))
            emit.store(builder.fmul(values, emit.spread(args[4])), emit.start(out, args[0], args[1]))
            return context.get_dummy_value()

        return types.void(out, size, x, size, x.dtype), codegen

    @intrinsic
    def prefetch(typing: Any, out: Any, at: Any) -> Any:
        """Ask for the cache line of out[at], to be written soon."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            line = builder.bitcast(Emitter(context, builder, out.dtype).start(out, args[0], args[1]), byte)
            builder.call(function, [line, word(1), word(3), word(1)])  # to write, keep it near, data
            return context.get_dummy_value()

        return types.void(out, size), codegen

    @intrinsic
    def softmax(typing: Any, out: Any, at: Any, width: Any, count: Any) -> Any:
        """out[at : at + count] → its softmax, zeros up to at + width; width is a multiple of 16."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit, i64 = Emitter(context, builder, out.dtype), ir.IntType(64)
            row, width, count = emit.start(out, args[0], args[1]), args[2], args[3]
            lanes = ir.Constant(ir.VectorType(i64, LANES), list(range(LANES)))

            def counted(index: Any) -> Any:
                """The lanes from index on that lie before count."""
                left = builder.insert_element(ir.Constant(lanes.type, ir.Undefined), builder.sub(count, index), i64(0))
                zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
                return builder.icmp_signed("<", lanes, builder.shuffle_vector(left, left, zeros))

            best, total = emit.variable(emit.every(-math.inf)), emit.variable(emit.every(0.0))
            with cgutils.for_range_slice(builder, i64(0), width, i64(LANES)) as (index, _):
                values = builder.select(counted(index), emit.load(builder.gep(row, [index])), emit.every(-math.inf))
                builder.store(emit.larger(values, builder.load(best)), best)
            top = emit.spread(emit.fold(builder.load(best), emit.larger))
            with cgutils.for_range_slice(builder, i64(0), width, i64(LANES)) as (index, _):
                grown = emit.exp(builder.fsub(emit.load(builder.gep(row, [index])), top))
                grown = builder.select(counted(index), grown, emit.every(0.0))
                emit.store(grown, builder.gep(row, [index]))
                builder.store(builder.fadd(builder.load(total), grown), total)
            share = emit.spread(builder.fdiv(emit.number(1.0), emit.fold(builder.load(total), builder.fadd)))
            with cgutils.for_range_slice(builder, i64(0), width, i64(LANES)) as (index, _):
                place = builder.gep(row, [index])
                emit.store(builder.fmul(emit.load(place), share), place)
            return context.get_dummy_value()

        return types.void(out, size, size, size), codegen

    @intrinsic
    def softmax_backward(typing: Any, slopes: Any, weights: Any, at: Any, width: Any) -> Any:
        """slopes → weights · (slopes − Σ weights·slopes), both from `at` on; width is a multiple of 16."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit, i64 = Emitter(context, builder, slopes.dtype), ir.IntType(64)
            row, share, width = emit.start(slopes, args[0], args[2]), emit.start(weights, args[1], args[2]), args[3]
            total = emit.variable(emit.every(0.0))
            with cgutils.for_range_slice(builder, i64(0), width, i64(LANES)) as (index, _):
                left, right = (emit.load(builder.gep(pointer, [index])) for pointer in (share, row))
                builder.store(emit.multiply_add(left, right, builder.load(total)), total)
            mean = emit.spread(emit.fold(builder.load(total), builder.fadd))
            with cgutils.for_range_slice(builder, i64(0), width, i64(LANES)) as (index, _):
                left, right = (emit.load(builder.gep(pointer, [index])) for pointer in (share, row))
                emit.store(builder.fmul(left, builder.fsub(right, mean)), builder.gep(row, [index]))
            return context.get_dummy_value()

        return types.void(slopes, weights, size, size), codegen
