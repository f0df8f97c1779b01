"""One soft gate over many cells, forward and backward, as vector instructions.

A soft gate is c₀ + c₁a + c₂b + c₃ab. Written as a loop, the compiler must prove that five rows do not overlap and adds
up its four sums lane by lane: it ran the backward pass three times slower than these two functions, which say it with
LLVM's vectors directly (docs/LOG.md). Cells come in blocks of 32, one for each running sum (arithmetic/simd.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from samebits.arithmetic.simd import I64, LANES, SUMS
from samebits.compiler.compiled import WIDE_VECTORS
from samebits.families.logic_ca.program import WRITES_A, WRITES_B


class GateRows(NamedTuple):
    """Where the rows of a gate begin: its inputs in the values; their adjoints and its own in the adjoints."""

    a: Any
    b: Any
    da: Any
    db: Any
    dout: Any
    flags: Any  # WRITES_A, WRITES_B


if numba.config.DISABLE_JIT:  # the same in NumPy, so that coverage can see the kernels

    def gate_forward(values: Any, a: int, b: int, out: int, c: Any, width: int) -> None:
        x, y = values[a : a + width], values[b : b + width]
        values[out : out + width] = (c[3] * x + c[2]) * y + (c[1] * x + c[0])

    def gate_backward(sums: Any, adjoint: Any, values: Any, rows: GateRows, c: Any, width: int) -> None:
        a, b, da, db, dout, flags = rows
        x, y, d = values[a : a + width], values[b : b + width], adjoint[dout : dout + width].copy()
        sums += [d.sum(), (d * x).sum(), (d * y).sum(), (d * x * y).sum()]
        old_a = 0 if flags & WRITES_A else adjoint[da : da + width]
        adjoint[da : da + width] = d * (c[3] * y + c[1]) + old_a
        old_b = 0 if flags & WRITES_B else adjoint[db : db + width]
        adjoint[db : db + width] = d * (c[3] * x + c[2]) + old_b

else:
    from samebits.arithmetic.simd import Emitter

    def coefficients(emit: Emitter, pointer: Any) -> list[Any]:
        """The gate's four numbers, each spread over a vector."""
        return [emit.spread(emit.builder.load(emit.builder.gep(pointer, [I64(k)]))) for k in range(4)]

    def each_vector(
        emit: Emitter, width: Any, places: tuple[int, ...], body: Callable[[Any, int], None], first: int = 0
    ) -> None:
        """body(cell, place) for the vectors that begin at these places of every block of SUMS cells from `first` on."""
        with cgutils.for_range_slice(emit.builder, I64(first), width, I64(SUMS)) as (start, _):
            for place in places:
                body(emit.builder.add(start, I64(place)), place)

    @intrinsic
    def gate_forward(typing: Any, values: Any, a: Any, b: Any, out: Any, c: Any, width: Any) -> Any:
        """values[out : out + width] = the gate with coefficients c on the rows at a and b."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, signature.args[0].dtype)
            base = e.start(signature.args[0], args[0])
            row_a, row_b, row_out = (e.at(base, offset) for offset in args[1:4])
            c0, c1, c2, c3 = coefficients(e, e.start(signature.args[4], args[4]))

            def body(cell: Any, place: int) -> None:
                x, y = e.load(e.at(row_a, cell)), e.load(e.at(row_b, cell))
                value = e.multiply_add(e.multiply_add(c3, x, c2), y, e.multiply_add(c1, x, c0))
                e.store(value, e.at(row_out, cell))

            each_vector(e, args[5], tuple(range(0, SUMS, LANES)), body)
            return context.get_dummy_value()

        return types.void(values, a, b, out, c, types.int64), codegen

    @intrinsic
    def gate_backward(typing: Any, sums: Any, adjoint: Any, values: Any, rows: Any, c: Any, width: Any) -> Any:
        """sums += [Σd, Σda, Σdb, Σdab], and d's share of the adjoints of a and b, stored or added as flags say."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, signature.args[2].dtype)
            gradients, base = e.start(signature.args[1], args[1]), e.start(signature.args[2], args[2])
            a, b, da, db, dout, flags = (builder.extract_value(args[3], i) for i in range(6))
            row_a, row_b = (e.at(base, offset) for offset in (a, b))
            row_da, row_db, row_d = (e.at(gradients, offset) for offset in (da, db, dout))
            _, c1, c2, c3 = coefficients(e, e.start(signature.args[4], args[4]))
            totals = {
                place: [e.variable(e.every(0.0)) for _ in range(4)] for place in range(0, SUMS, LANES)
            }  # SUMS running sums of each kind

            def gate(stores: int, first: bool) -> Callable[[Any, int], None]:
                def body(cell: Any, place: int) -> None:
                    x, y, d = (e.load(e.at(row, cell)) for row in (row_a, row_b, row_d))
                    dx = builder.fmul(d, x)
                    if first:  # a running sum begins with its first number
                        after = d, dx, builder.fmul(d, y), builder.fmul(dx, y)
                    else:
                        t0, t1, t2, t3 = (builder.load(total) for total in totals[place])
                        fused = e.multiply_add(d, y, t2), e.multiply_add(dx, y, t3)
                        after = builder.fadd(t0, d), builder.fadd(t1, dx), *fused
                    for total, value in zip(totals[place], after, strict=True):
                        builder.store(value, total)
                    by_a, by_b = e.multiply_add(c3, y, c1), e.multiply_add(c3, x, c2)
                    for row, slope, flag in ((row_da, by_a, WRITES_A), (row_db, by_b, WRITES_B)):
                        # One after the other: a and b may be the same row.
                        target = e.at(row, cell)
                        share = builder.fmul(d, slope) if stores & flag else e.multiply_add(d, slope, e.load(target))
                        e.store(share, target)

                return body

            # All running sums at once where there are registers for them; else one vector of them after the other.
            passes = [tuple(totals)] if WIDE_VECTORS else [(place,) for place in totals]
            done = builder.append_basic_block("gate.done")
            cases = [builder.append_basic_block(f"gate.stores.{stores}") for stores in range(4)]
            switch = builder.switch(flags, cases[0])
            for stores, block in enumerate(cases):
                if stores:
                    switch.add_case(ir.Constant(flags.type, stores), block)
                builder.position_at_end(block)
                for places in passes:
                    for place in places:
                        gate(stores, True)(I64(place), place)
                    each_vector(e, args[5], places, gate(stores, False), SUMS)
                builder.branch(done)
            builder.position_at_end(done)
            low, high = ([builder.load(total) for total in totals[place]] for place in totals)
            four = e.fold_four([builder.fadd(x, y) for x, y in zip(low, high, strict=True)])
            target = builder.bitcast(e.start(signature.args[0], args[0]), four.type.as_pointer())
            builder.store(builder.fadd(builder.load(target, align=e.align), four), target, align=e.align)
            return context.get_dummy_value()

        return types.void(sums, adjoint, values, rows, c, types.int64), codegen
