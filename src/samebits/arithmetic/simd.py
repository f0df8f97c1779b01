"""Vector code that the compiler does not find by itself, and the sums whose order we state.

Every number is one chain of IEEE operations, the same on every CPU: a multiply and an add that are one operation are
said to be (`fused`); a sum over a row goes into SUMS running sums, number i into sum i mod SUMS, which are folded by
halves. Vectors of LANES numbers are how this is written down; narrower machines split them, and no bit depends on it.
Rows of 16 to 64 numbers are too short for the loop vectoriser, which left a softmax scalar and fifteen times slower
(docs/LOG.md). Places are offsets from an array's first element, as in arithmetic/gemm.py.
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
from numba.core.errors import TypingError
from numba.extending import intrinsic

LANES = 16  # numbers a vector; narrower machines split it
SUMS = 32  # running sums of a row: two AVX-512 vectors, four of AVX2, eight of NEON, one warp of a GPU
LN2 = 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.693359375, -2.121944400546905827679e-4

# bits of a float → bits of its mantissa, exponent bias, terms of the series, smallest argument whose exp is normal
_FORMATS = {32: (23, 127, 8, -87.0), 64: (52, 1023, 15, -708.0)}
I32, I64 = ir.IntType(32), ir.IntType(64)


if numba.config.DISABLE_JIT:  # the same in NumPy, to rounding: so that coverage can see the kernels

    def fused(x: Any, y: Any, z: Any) -> Any:
        return x * y + z

    def exp(x: Any) -> Any:
        return np.exp(np.maximum(x, -87.0))

    def bits_of(x: Any) -> Any:
        return np.float64(x).view(np.int64)

    def from_bits(x: Any) -> Any:
        return np.int64(x).view(np.float64)

    def total(x: Any) -> Any:
        return x.sum()

    def dot(x: Any, y: Any) -> Any:
        return (x * y).sum()

    def wide_squares(x: Any) -> Any:
        return (x.astype(np.float64) ** 2).sum()

    def largest(x: Any) -> Any:
        return x.max()

    def move(out: Any, at: int, x: Any, start: int, scale: Any) -> None:
        memory_from(out)[at : at + LANES] = scale * memory_from(x)[start : start + LANES]

    def prefetch(out: Any, at: int) -> None:
        pass

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
        """Instructions on vectors of an array's numbers. No fast-math flag: what is written is what is computed."""

        def __init__(self, context: Any, builder: Any, dtype: Any, lanes: int = LANES) -> None:
            self.context, self.builder, self.dtype, self.lanes = context, builder, dtype, lanes
            self.number = context.get_value_type(dtype)
            self.vector = ir.VectorType(self.number, lanes)
            self.align = dtype.bitwidth // 8

        def every(self, value: float) -> Any:
            return ir.Constant(self.vector, [self.number(value)] * self.lanes)

        def spread(self, value: Any) -> Any:
            """One number in every lane."""
            one = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, I32(0))
            return self.shuffle(one, one, [0] * self.lanes)

        def shuffle(self, x: Any, y: Any, lanes: list[int]) -> Any:
            return self.builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))

        def start(self, kind: Any, array: Any, offset: Any = None) -> Any:
            """The address of an array's element, counted from its first."""
            data = self.context.make_array(kind)(self.context, self.builder, array).data
            return data if offset is None else self.at(data, offset)

        def at(self, pointer: Any, offset: Any) -> Any:
            return self.builder.gep(pointer, [offset if offset.type == I64 else self.builder.zext(offset, I64)])

        def load(self, pointer: Any) -> Any:
            return self.builder.load(self.builder.bitcast(pointer, self.vector.as_pointer()), align=self.align)

        def store(self, value: Any, pointer: Any) -> None:
            self.builder.store(value, self.builder.bitcast(pointer, value.type.as_pointer()), align=self.align)

        def variable(self, first: Any) -> Any:
            """A register with a name: the optimiser removes the memory."""
            place = cgutils.alloca_once_value(self.builder, first)
            self.builder.store(first, place)
            return place

        def larger(self, a: Any, b: Any) -> Any:
            return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

        def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
            """In one rounding: an instruction of its own, not a choice of the compiler. Numbers or vectors."""
            kind, bits = a.type, self.dtype.bitwidth
            name = f"llvm.fma.{f'v{kind.count}' if isinstance(kind, ir.VectorType) else ''}f{bits}"
            function = cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(kind, [kind] * 3), name)
            return self.builder.call(function, [a, b, c])

        def fold(self, value: Any, join: Any) -> Any:
            """All lanes joined into one number, by halves."""
            width = value.type.count
            while width > 1:
                width //= 2
                low, high = list(range(width)), list(range(width, 2 * width))
                value = join(self.shuffle(value, value, low), self.shuffle(value, value, high))
            return self.builder.extract_element(value, I32(0))

        def fold_four(self, s: list[Any]) -> Any:
            """[Σs₀, Σs₁, Σs₂, Σs₃] of four vectors of 16, in one tree of shuffles; fits a place of four numbers.

            Lane i meets lane i + 2, then i + 1, then what is left is folded by halves: shuffles inside quarters of a
            register are the fast ones, and this is done for every gate, cell tile and step (docs/LOG.md).
            """
            n = self.lanes
            quads = range(0, n, 4)
            low = [i for q in quads for i in (q, n + q, q + 1, n + q + 1)]
            high = [i for q in quads for i in (q + 2, n + q + 2, q + 3, n + q + 3)]
            add, shuffle = self.builder.fadd, self.shuffle
            u, w = (add(shuffle(x, y, low), shuffle(x, y, high)) for x, y in (s[:2], s[2:]))
            low = [i for q in quads for i in (q, q + 1, n + q, n + q + 1)]
            high = [i for q in quads for i in (q + 2, q + 3, n + q + 2, n + q + 3)]
            z = add(shuffle(u, w, low), shuffle(u, w, high))
            while n > 4:
                n //= 2
                z = add(shuffle(z, z, list(range(n))), shuffle(z, z, list(range(n, 2 * n))))
            return z

        def exp(self, value: Any) -> Any:
            """Of a number or of a vector."""
            builder, kind, bits = self.builder, value.type, self.dtype.bitwidth
            mantissa, bias, terms, smallest = _FORMATS[bits]
            wide = isinstance(kind, ir.VectorType)
            integer: Any = ir.VectorType(ir.IntType(bits), self.lanes) if wide else ir.IntType(bits)

            def real(x: float) -> Any:
                return self.every(x) if wide else kind(x)

            def whole_number(x: int) -> Any:
                return ir.Constant(integer, [ir.IntType(bits)(x)] * self.lanes) if wide else integer(x)

            # A comparison, not a maximum: a NaN must come out as one.
            value = builder.select(builder.fcmp_ordered("<", value, real(smallest)), real(smallest), value)
            name = f"llvm.floor.{f'v{self.lanes}' if wide else ''}f{bits}"
            floor = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name)
            whole = builder.call(floor, [self.multiply_add(value, real(1 / LN2), real(0.5))])
            # ln 2 in two parts: the first has few bits, so that whole · high is exact; the second is what is left of
            # it, which a difference of two float64 would not be.
            rest = self.multiply_add(whole, real(-LN2_HIGH), value)
            rest = self.multiply_add(whole, real(-LN2_LOW), rest)
            series = real(1 / math.factorial(terms - 1))
            for k in range(terms - 2, -1, -1):
                series = self.multiply_add(series, rest, real(1 / math.factorial(k)))
            exponent = builder.add(builder.fptosi(whole, integer), whole_number(bias))
            return builder.fmul(series, builder.bitcast(builder.shl(exponent, whole_number(mantissa)), kind))

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

    def check_rows(*rows: Any) -> None:
        """What is added up is read from an address on: of a column or of another type that would be other numbers."""
        for row in rows:
            if row.ndim != 1 or row.layout != "C" or row.dtype != rows[0].dtype:
                raise TypingError(
                    f"a sum over rows takes contiguous vectors of one type, not {', '.join(map(str, rows))}"
                )

    def reduction(accumulate: Callable[..., Any], wide: bool = False) -> Callable[..., Any]:
        """An intrinsic's code: `accumulate(emit, sum, numbers …)` over contiguous rows of one length, in SUMS sums."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            dtype = signature.args[0].dtype
            kind = types.float64 if wide else dtype
            emit, half = Emitter(context, builder, kind, SUMS), Emitter(context, builder, kind, LANES)
            source, align = context.get_value_type(dtype), dtype.bitwidth // 8
            arrays = [context.make_array(a)(context, builder, b) for a, b in zip(signature.args, args, strict=True)]
            count, rows = builder.extract_value(arrays[0].shape, 0), [array.data for array in arrays]
            sums, spill = emit.variable(emit.every(0.0)), cgutils.alloca_once(builder, emit.vector)
            whole = builder.and_(count, I64(-SUMS))

            def numbers(index: Any, width: int) -> list[Any]:
                given, wanted = (ir.VectorType(t, width) if width > 1 else t for t in (source, emit.number))
                places = (builder.bitcast(builder.gep(row, [index]), given.as_pointer()) for row in rows)
                found = [builder.load(place, align=align) for place in places]
                return [builder.fpext(value, wanted) for value in found] if given != wanted else found

            with cgutils.for_range_slice(builder, I64(0), whole, I64(SUMS)) as (index, _):
                builder.store(accumulate(emit, builder.load(sums), *numbers(index, SUMS)), sums)
            rest = emit.variable(whole)
            with builder.if_then(builder.icmp_signed(">=", builder.sub(count, whole), I64(LANES))):
                old = builder.load(sums)
                low = accumulate(half, emit.shuffle(old, old, list(range(LANES))), *numbers(whole, LANES))
                high = emit.shuffle(old, old, list(range(LANES, SUMS)))
                builder.store(emit.shuffle(low, high, list(range(SUMS))), sums)
                builder.store(builder.add(whole, I64(LANES)), rest)
            begin = builder.load(rest)
            with builder.if_then(builder.icmp_signed("<", begin, count)):  # the last few, by way of memory
                builder.store(builder.load(sums), spill)
                first = builder.bitcast(spill, emit.number.as_pointer())
                with cgutils.for_range_slice(builder, begin, count, I64(1)) as (index, _):
                    place = builder.gep(first, [builder.sub(index, whole)])
                    builder.store(accumulate(emit, builder.load(place), *numbers(index, 1)), place)
                builder.store(builder.load(spill), sums)
            return emit.fold(builder.load(sums), builder.fadd)

        return codegen

    @intrinsic
    def total(typing: Any, x: Any) -> Any:
        """The sum of a contiguous vector: SUMS running sums, folded by halves."""
        check_rows(x)
        return x.dtype(x), reduction(lambda emit, sums, a: emit.builder.fadd(sums, a))

    @intrinsic
    def dot(typing: Any, x: Any, y: Any) -> Any:
        """Σ x·y in the same order, each term fused; y is as long as x."""
        check_rows(x, y)
        return x.dtype(x, y), reduction(lambda emit, sums, a, b: emit.multiply_add(a, b, sums))

    @intrinsic
    def wide_squares(typing: Any, x: Any) -> Any:
        """Σ x² in float64, in the same order."""
        check_rows(x)
        return types.float64(x), reduction(lambda emit, sums, a: emit.multiply_add(a, a, sums), wide=True)

    @intrinsic
    def bits_of(typing: Any, x: Any) -> Any:
        return types.int64(types.float64), lambda c, builder, s, args: builder.bitcast(args[0], I64)

    @intrinsic
    def from_bits(typing: Any, x: Any) -> Any:
        return types.float64(types.int64), lambda c, builder, s, args: builder.bitcast(args[0], ir.DoubleType())

    @intrinsic
    def largest(typing: Any, x: Any) -> Any:
        """The largest of a contiguous vector (of at least one number); a NaN may be passed over."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = Emitter(context, builder, x.dtype)
            array = context.make_array(x)(context, builder, args[0])
            count = builder.extract_value(array.shape, 0)
            best, top = emit.variable(emit.every(-math.inf)), emit.variable(emit.number(-math.inf))
            whole = builder.and_(count, I64(-LANES))
            with cgutils.for_range_slice(builder, I64(0), whole, I64(LANES)) as (index, _):
                builder.store(emit.larger(emit.load(builder.gep(array.data, [index])), builder.load(best)), best)
            with cgutils.for_range_slice(builder, whole, count, I64(1)) as (index, _):
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
            byte, word = ir.IntType(8).as_pointer(), I32
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            line = builder.bitcast(Emitter(context, builder, out.dtype).start(out, args[0], args[1]), byte)
            builder.call(function, [line, word(1), word(3), word(1)])  # to write, keep it near, data
            return context.get_dummy_value()

        return types.void(out, size), codegen
