"""Matrix products inside compiled kernels: BLAS on row-major blocks, without copies, into memory that is already there.

NumPy's `@` allocates its result and cannot add to it. These call the same routine (SciPy's BLAS, through the wrapper
Numba links anyway, so that kernels stay cacheable), with leading dimensions, so a block of a larger array will do.
One thread a call: `Workers` limits BLAS, and importing SciPy here makes sure there is something to limit.
"""

from __future__ import annotations

from typing import Any

import numba
import scipy.linalg.cython_blas  # noqa: F401  loaded before Workers limits its threads
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from weft.engine.arrays import Array
from weft.engine.jit import kernel

if numba.config.DISABLE_JIT:

    def _gemm(out: Any, a: Any, b: Any, flip_a: bool, flip_b: bool, *sizes_and_beta: Any) -> int:
        product = (a.T if flip_a else a) @ (b.T if flip_b else b)
        out[:] = product if sizes_and_beta[-1] == 0 else product + out
        return 0

else:

    @intrinsic
    def _gemm(
        typing: Any, out: Any, a: Any, b: Any, flip_a: Any, flip_b: Any, m: Any, n: Any, k: Any, lda: Any, ldb: Any,
        ldc: Any, beta: Any,
    ) -> Any:  # fmt: skip
        """BLAS is column-major and sees every array transposed: out = op(a) op(b) is asked as outᵀ = op(b)ᵀ op(a)ᵀ."""
        number = out.dtype
        kind = {types.float32: "s", types.float64: "d"}[number]
        size = types.int64
        signature = types.int32(out, a, b, types.boolean, types.boolean, size, size, size, size, size, size, number)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            i8, i32, i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
            scalar = context.get_value_type(number)
            pointer = scalar.as_pointer()

            def data(index: int) -> Any:
                return context.make_array(signature.args[index])(context, builder, args[index]).data

            def letter(flag: Any) -> Any:
                return builder.select(builder.trunc(flag, ir.IntType(1)), i8(ord("t")), i8(ord("n")))

            one = cgutils.alloca_once_value(builder, scalar(1.0))
            beta = cgutils.alloca_once_value(builder, args[11])
            kinds = [i8, i8, i8, i64, i64, i64, pointer, pointer, i64, pointer, i64, pointer, pointer, i64]
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(i32, kinds), "numba_xxgemm")
            m, n, k, lda, ldb, ldc = args[5:11]
            ways = [i8(ord(kind)), letter(args[4]), letter(args[3])]
            return builder.call(function, [*ways, n, m, k, one, data(2), ldb, data(1), lda, beta, data(0), ldc])

        return signature, codegen


@kernel
def _stride(array: Array) -> int:
    """Elements from one row to the next; BLAS wants at least the row's length even where there is one row."""
    return max(array.strides[0] // array.itemsize, array.shape[1])


@kernel
def product(out: Array, a: Array, b: Array, beta: float) -> None:
    """out (m, n) = a (m, k) · b (k, n) + beta · out. Rows are contiguous; they may be parts of longer ones."""
    m, k, n = a.shape[0], a.shape[1], b.shape[1]
    _gemm(out, a, b, False, False, m, n, k, _stride(a), _stride(b), _stride(out), out.dtype.type(beta))


@kernel
def product_bt(out: Array, a: Array, b: Array, beta: float) -> None:
    """out (m, n) = a (m, k) · bᵀ, with b (n, k), + beta · out."""
    m, k, n = a.shape[0], a.shape[1], b.shape[0]
    _gemm(out, a, b, False, True, m, n, k, _stride(a), _stride(b), _stride(out), out.dtype.type(beta))


@kernel
def product_at(out: Array, a: Array, b: Array, beta: float) -> None:
    """out (m, n) = aᵀ · b, with a (k, m) and b (k, n), + beta · out."""
    m, k, n = a.shape[1], a.shape[0], b.shape[1]
    _gemm(out, a, b, True, False, m, n, k, _stride(a), _stride(b), _stride(out), out.dtype.type(beta))
