"""One soft gate over many cells, forward and backward, as vector instructions.

A soft gate is c₀ + c₁a + c₂b + c₃ab. Written as a loop, the compiler must prove that five rows do not overlap and adds
up its four sums lane by lane: it ran the backward pass three times slower than these two functions, which say it with
LLVM's vectors directly (docs/LOG.md). Lanes come in blocks of 32: two 512-bit vectors of float32, four of float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from samebits.families.logic_ca.config import LANE_BLOCK
from samebits.families.logic_ca.program import WRITES_A, WRITES_B

VECTOR_BYTES = 64
FLAGS = ("contract", "reassoc", "nsz")
I32, I64 = ir.IntType(32), ir.IntType(64)


class Emitter:
    """The few vector operations a gate needs, on top of llvmlite's builder."""

    def __init__(self, context: Any, builder: Any, dtype: Any) -> None:
        self.context, self.b = context, builder
        self.scalar = context.get_value_type(dtype)
        self.lanes = VECTOR_BYTES // (dtype.bitwidth // 8)
        self.vector = ir.VectorType(self.scalar, self.lanes)
        self.align = dtype.bitwidth // 8

    def data(self, array_type: Any, array: Any) -> Any:
        return self.context.make_array(array_type)(self.context, self.b, array).data

    def at(self, base: Any, offset: Any) -> Any:
        return self.b.gep(base, [self.b.zext(offset, I64) if offset.type != I64 else offset])

    def load(self, pointer: Any, index: Any) -> Any:
        return self.b.load(self._vector_pointer(pointer, index), align=self.align)

    def store(self, value: Any, pointer: Any, index: Any) -> None:
        self.b.store(value, self._vector_pointer(pointer, index), align=self.align)

    def _vector_pointer(self, pointer: Any, index: Any) -> Any:
        return self.b.bitcast(self.b.gep(pointer, [index]), self.vector.as_pointer())

    def add(self, x: Any, y: Any) -> Any:
        return self.b.fadd(x, y, flags=FLAGS)

    def mul(self, x: Any, y: Any) -> Any:
        return self.b.fmul(x, y, flags=FLAGS)

    def shuffle(self, x: Any, y: Any, lanes: list[int]) -> Any:
        return self.b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))

    def coefficients(self, pointer: Any) -> list[Any]:
        """The gate's four numbers, each spread over a vector."""
        spread = []
        for k in range(4):
            number = self.b.load(self.b.gep(pointer, [ir.Constant(I64, k)]))
            one = self.b.insert_element(ir.Constant(self.vector, ir.Undefined), number, ir.Constant(I32, 0))
            spread.append(self.shuffle(one, one, [0] * self.lanes))
        return spread

    def each_vector(self, width: Any, body: Callable[[Any], None]) -> None:
        """body(lane index) for every vector of `width` lanes, unrolled over a lane block."""
        with cgutils.for_range_slice(self.b, ir.Constant(I64, 0), width, ir.Constant(I64, LANE_BLOCK)) as (start, _):
            for j in range(0, LANE_BLOCK, self.lanes):
                body(self.b.add(start, ir.Constant(I64, j)))

    def sum_four(self, s: list[Any]) -> Any:
        """[Σs₀, Σs₁, Σs₂, Σs₃] of four vectors, by pairwise shuffles instead of four separate reductions."""
        n = self.lanes
        quads = range(0, n, 4)
        low = [i for q in quads for i in (q, n + q, q + 1, n + q + 1)]
        high = [i for q in quads for i in (q + 2, n + q + 2, q + 3, n + q + 3)]
        u, w = (self.add(self.shuffle(x, y, low), self.shuffle(x, y, high)) for x, y in (s[:2], s[2:]))
        low = [i for q in quads for i in (q, q + 1, n + q, n + q + 1)]
        high = [i for q in quads for i in (q + 2, q + 3, n + q + 2, n + q + 3)]
        z = self.add(self.shuffle(u, w, low), self.shuffle(u, w, high))
        while n > 4:
            n //= 2
            z = self.add(self.shuffle(z, z, list(range(n))), self.shuffle(z, z, list(range(n, 2 * n))))
        return z


if numba.config.DISABLE_JIT:  # the same in NumPy, so that coverage can see the kernels

    def gate_forward(values: Any, a: int, b: int, out: int, c: Any, width: int) -> None:
        x, y = values[a : a + width], values[b : b + width]
        values[out : out + width] = (c[3] * x + c[2]) * y + (c[1] * x + c[0])

    def gate_backward(
        sums: Any,
        adjoint: Any,
        values: Any,
        a: int,
        b: int,
        da: int,
        db: int,
        dout: int,
        flags: int,
        c: Any,
        width: int,
    ) -> None:
        x, y, d = values[a : a + width], values[b : b + width], adjoint[dout : dout + width].copy()
        sums += [d.sum(), (d * x).sum(), (d * y).sum(), (d * x * y).sum()]
        kept_a = 0 if flags & WRITES_A else adjoint[da : da + width]
        adjoint[da : da + width] = d * (c[3] * y + c[1]) + kept_a
        kept_b = 0 if flags & WRITES_B else adjoint[db : db + width]
        adjoint[db : db + width] = d * (c[3] * x + c[2]) + kept_b

else:

    @intrinsic
    def gate_forward(typing: Any, values: Any, a: Any, b: Any, out: Any, c: Any, width: Any) -> Any:
        """values[out : out + width] = the gate with coefficients c on the rows at a and b."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, signature.args[0].dtype)
            base = e.data(signature.args[0], args[0])
            row_a, row_b, row_out = (e.at(base, offset) for offset in args[1:4])
            c0, c1, c2, c3 = e.coefficients(e.data(signature.args[4], args[4]))

            def body(lane: Any) -> None:
                x, y = e.load(row_a, lane), e.load(row_b, lane)
                e.store(e.add(e.mul(e.add(e.mul(c3, x), c2), y), e.add(e.mul(c1, x), c0)), row_out, lane)

            e.each_vector(args[5], body)
            return context.get_dummy_value()

        return types.void(values, a, b, out, c, types.int64), codegen

    @intrinsic
    def gate_backward(
        typing: Any,
        sums: Any,
        adjoint: Any,
        values: Any,
        a: Any,
        b: Any,
        da: Any,
        db: Any,
        dout: Any,
        flags: Any,
        c: Any,
        width: Any,
    ) -> Any:
        """sums += [Σd, Σda, Σdb, Σdab], and d's share of the adjoints of a and b, stored or added as flags say."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, signature.args[2].dtype)
            gradients, base = e.data(signature.args[1], args[1]), e.data(signature.args[2], args[2])
            row_a, row_b = (e.at(base, offset) for offset in args[3:5])
            row_da, row_db, row_d = (e.at(gradients, offset) for offset in args[5:8])
            _, c1, c2, c3 = e.coefficients(e.data(signature.args[9], args[9]))
            zero = ir.Constant(e.vector, [0.0] * e.lanes)
            totals = [cgutils.alloca_once(builder, e.vector) for _ in range(4)]
            for total in totals:
                builder.store(zero, total)

            def gate(stores: int) -> Callable[[Any], None]:
                def body(lane: Any) -> None:
                    x, y, d = e.load(row_a, lane), e.load(row_b, lane), e.load(row_d, lane)
                    dx = e.mul(d, x)
                    for total, term in zip(totals, (d, dx, e.mul(d, y), e.mul(dx, y)), strict=True):
                        builder.store(e.add(builder.load(total), term), total)
                    to_a, to_b = e.mul(d, e.add(e.mul(c3, y), c1)), e.mul(d, e.add(e.mul(c3, x), c2))
                    e.store(to_a if stores & WRITES_A else e.add(to_a, e.load(row_da, lane)), row_da, lane)
                    e.store(to_b if stores & WRITES_B else e.add(to_b, e.load(row_db, lane)), row_db, lane)

                return body

            done = builder.append_basic_block("gate.done")
            cases = [builder.append_basic_block(f"gate.stores.{stores}") for stores in range(4)]
            switch = builder.switch(args[8], cases[0])
            for stores, block in enumerate(cases):
                if stores:
                    switch.add_case(ir.Constant(args[8].type, stores), block)
                builder.position_at_end(block)
                e.each_vector(args[10], gate(stores))
                builder.branch(done)
            builder.position_at_end(done)
            four = e.sum_four([builder.load(total) for total in totals])
            target = builder.bitcast(e.data(signature.args[0], args[0]), four.type.as_pointer())
            builder.store(builder.fadd(builder.load(target, align=e.align), four), target, align=e.align)
            return context.get_dummy_value()

        return types.void(sums, adjoint, values, a, b, da, db, dout, flags, c, types.int64), codegen
