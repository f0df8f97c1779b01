"""Matrix products of a few hundred rows, held in registers: what message passing is made of.

BLAS packs its operands into buffers of its own, which pays for large matrices; here they lie in the cache already, and
packing cost a third of the time (docs/graphs.md). A block of ROWS × PANEL vectors of the result stays in registers
while the depth goes by: one broadcast and PANEL multiply-adds a row. Every element is one sum in the order of the
depth, whatever the block, so bits depend on nothing else. Widths that are no whole vectors go to BLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from weft.engine.arrays import LINE, Array
from weft.engine.blas import product, product_at
from weft.engine.jit import kernel

I32, I64 = ir.IntType(32), ir.IntType(64)
FLAGS = ("contract",)  # a multiply and an add become one instruction
# 32 registers of 64 bytes hold 24 sums; 16 of 32 bytes hold 6 × 1 of our 64-byte vectors, two registers each.
WIDE = bool(dict(binding.get_host_cpu_features()).get("avx512f"))
ROWS, PANEL = (6, 4) if WIDE else (6, 1)


def _block(rows: int, panel: int) -> Callable[..., None]:
    """A function for `rows` rows and `panel` vectors:

    out[o + r·out_row + j] = Σₖ a[p + r·a_row + k·a_step] · b[q + k·b_row + j], for k below depth.
    """
    if numba.config.DISABLE_JIT:

        def plain(
            out: Any,
            a: Any,
            b: Any,
            o: int,
            p: int,
            q: int,
            out_row: int,
            a_row: int,
            a_step: int,
            b_row: int,
            depth: int,
        ) -> None:
            wide = panel * LINE // out.itemsize
            for r in range(rows):
                total = np.zeros(wide, out.dtype)
                for k in range(depth):
                    total += a[p + r * a_row + k * a_step] * b[q + k * b_row : q + k * b_row + wide]
                out[o + r * out_row : o + r * out_row + wide] = total

        return plain

    @intrinsic
    def block(
        typing: Any, out: Any, a: Any, b: Any, o: Any, p: Any, q: Any, out_row: Any, a_row: Any, a_step: Any,
        b_row: Any, depth: Any,
    ) -> Any:  # fmt: skip
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            scalar = context.get_value_type(signature.args[0].dtype)
            size = signature.args[0].dtype.bitwidth // 8
            lanes = LINE // size
            vector = ir.VectorType(scalar, lanes)

            def pointer(index: int, offset: Any) -> Any:
                data = context.make_array(signature.args[index])(context, builder, args[index]).data
                return builder.gep(data, [offset])

            def vectors(base: Any, j: int) -> Any:
                return builder.bitcast(builder.gep(base, [I64(j * lanes)]), vector.as_pointer())

            outs, left, right = pointer(0, args[3]), pointer(1, args[4]), pointer(2, args[5])
            sums = [[cgutils.alloca_once(builder, vector) for _ in range(panel)] for _ in range(rows)]
            for row in sums:
                for place in row:
                    builder.store(ir.Constant(vector, [0.0] * lanes), place)
            with cgutils.for_range(builder, args[10]) as loop:
                line = builder.gep(right, [builder.mul(loop.index, args[9])])
                wide = [builder.load(vectors(line, j), align=size) for j in range(panel)]
                column = builder.gep(left, [builder.mul(loop.index, args[8])])
                for r in range(rows):
                    number = builder.load(builder.gep(column, [builder.mul(I64(r), args[7])]))
                    one = builder.insert_element(ir.Constant(vector, ir.Undefined), number, I32(0))
                    spread = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))
                    for j in range(panel):
                        term = builder.fmul(spread, wide[j], flags=FLAGS)
                        builder.store(builder.fadd(term, builder.load(sums[r][j]), flags=FLAGS), sums[r][j])
            for r in range(rows):
                base = builder.gep(outs, [builder.mul(I64(r), args[6])])
                for j in range(panel):
                    builder.store(builder.load(sums[r][j]), vectors(base, j), align=size)
            return context.get_dummy_value()

        i = types.int64
        return types.void(out, a, b, i, i, i, i, i, i, i, i), codegen

    return block


block_full = _block(ROWS, PANEL)
block_row = _block(1, PANEL)
block_slim = _block(ROWS, 1)
block_one = _block(1, 1)


@kernel
def _blocks(
    out: Array, a: Array, b: Array, m: int, n: int, depth: int, out_row: int, a_row: int, a_step: int, b_row: int
) -> None:
    """out (m, n), flat arrays with their strides; n is a whole number of vectors."""
    lanes = LINE // out.itemsize
    j = 0
    while j < n:
        full = n - j >= PANEL * lanes
        i = 0
        while i + ROWS <= m:
            if full:
                block_full(out, a, b, i * out_row + j, i * a_row, j, out_row, a_row, a_step, b_row, depth)
            else:
                block_slim(out, a, b, i * out_row + j, i * a_row, j, out_row, a_row, a_step, b_row, depth)
            i += ROWS
        while i < m:
            if full:
                block_row(out, a, b, i * out_row + j, i * a_row, j, out_row, a_row, a_step, b_row, depth)
            else:
                block_one(out, a, b, i * out_row + j, i * a_row, j, out_row, a_row, a_step, b_row, depth)
            i += 1
        j += PANEL * lanes if full else lanes


@kernel
def multiply(out: Array, columns: int, a: Array, b: Array) -> None:
    """The first `columns` columns of out (m, ≥ columns) = a (m, k) · b (k, columns). All contiguous."""
    if columns % (LINE // out.itemsize) == 0:
        _blocks(
            out.reshape(-1), a.reshape(-1), b.reshape(-1), a.shape[0], columns, a.shape[1],
            out.shape[1], a.shape[1], 1, b.shape[1],
        )  # fmt: skip
    else:
        product(out[:, :columns], a, b, 0.0)


@kernel
def multiply_at(out: Array, a: Array, b: Array) -> None:
    """out (m, n) = aᵀ · b, with a (k, m) and b (k, n). All contiguous."""
    if out.shape[1] % (LINE // out.itemsize) == 0:
        _blocks(
            out.reshape(-1), a.reshape(-1), b.reshape(-1), a.shape[1], out.shape[1], a.shape[0],
            out.shape[1], 1, a.shape[1], b.shape[1],
        )  # fmt: skip
    else:
        product_at(out, a, b, 0.0)


@kernel
def transpose(out: Array, a: Array) -> None:
    """out (n, m) from a (m, n)."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = a[j, i]
