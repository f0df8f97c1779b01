"""How the calling thread does arithmetic: denormal numbers are flushed to zero, results are rounded to the nearest.

Soft gates that are nearly wires multiply gradients by 1e-5 again and again; below 1e-38 a CPU falls back to microcode,
and a training step took ten times as long (docs/LOG.md). Every thread that computes sets this mode, so results do not
depend on who computed them.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from samebits.compiler.jit import kernel
from samebits.errors import SamebitsError

MACHINE = platform.machine().lower()
X86_FLUSH = 0x8040  # flush-to-zero and denormals-are-zero in MXCSR
ARM_FLUSH = 1 << 24  # FZ in FPCR

X86_DEFAULT, ARM_DEFAULT = 0x1F80, 0
FLUSHING = (X86_DEFAULT | X86_FLUSH) if MACHINE in ("x86_64", "amd64") else (ARM_DEFAULT | ARM_FLUSH)

if MACHINE in ("x86_64", "amd64"):

    @intrinsic
    def exchange_mode(typing: Any, mode: Any) -> Any:
        """Set MXCSR, return the old one."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [pointer])
            old, new = builder.alloca(word), builder.alloca(word)
            builder.store(builder.trunc(args[0], word), new)
            for name, slot in (("stmxcsr", old), ("ldmxcsr", new)):
                function = builder.module.declare_intrinsic(f"llvm.x86.sse.{name}", fnty=kind)
                builder.call(function, [builder.bitcast(slot, pointer)])
            return builder.zext(builder.load(old), ir.IntType(64))

        return types.int64(types.int64), codegen

else:

    @intrinsic
    def exchange_mode(typing: Any, mode: Any) -> Any:
        """Set FPCR, return the old one."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            wide = ir.IntType(64)
            get = builder.module.declare_intrinsic("llvm.aarch64.get.fpcr", fnty=ir.FunctionType(wide, []))
            put = builder.module.declare_intrinsic("llvm.aarch64.set.fpcr", fnty=ir.FunctionType(ir.VoidType(), [wide]))
            old = builder.call(get, [])
            builder.call(put, [args[0]])
            return old

        return types.int64(types.int64), codegen


if numba.config.DISABLE_JIT or MACHINE not in ("x86_64", "amd64", "aarch64", "arm64"):

    def set_mode(mode: int) -> int:
        """Without compiled code, or on a CPU we do not know, denormals stay: slower, never wrong."""
        return mode

else:

    @kernel
    def set_mode(mode: int) -> int:
        """Change the calling thread's floating-point mode; the old mode, to be restored."""
        return exchange_mode(mode)


def flush_denormals() -> None:
    """On the calling thread, for as long as it lives."""
    set_mode(FLUSHING)


@contextmanager
def flushing() -> Iterator[None]:
    """Denormals flushed on the calling thread; its mode is as before afterwards."""
    before = set_mode(FLUSHING)
    try:
        yield
    finally:
        set_mode(before)


TINIEST = 2.0**-60  # lost in a sum with 1, unless results are rounded up, down or towards zero


def require_nearest() -> None:
    """Refuse to work for a program that has changed the rounding mode: numbers in its files would be read as others."""
    one = float(1)  # not known to the compiler, which rounds to the nearest
    if one + TINIEST != 1 or one - TINIEST != 1:
        raise SamebitsError(
            "this program has changed the rounding mode of floating-point numbers, so a run could be neither trained "
            "nor read back as it was; set it to nearest first: fesetround(FE_TONEAREST)"
        )
