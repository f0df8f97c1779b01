"""What compiled workers need to share work: tickets for independent tasks, claims for tasks that depend on each other.

A ticket is a number that is handed out once. Where tasks form levels (a tile at one CA step), every unit has a claim:
the next level of it that nobody has taken. A worker goes level by level, takes its own units first, whose data is in
its cache, then whatever others have not begun, and waits for what the task needs. It enters a level only when
everything before it is taken, so the lowest unfinished task can always run: no deadlock, even when one worker does it
all, or five share two cores. Who takes a task never changes what it computes.

When a worker has raised an error, the others get no more tasks and wait for nobody: what they computed is thrown away.
"""

from __future__ import annotations

import platform
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from samebits.arithmetic.arrays import Array
from samebits.compiler.jit import kernel

PAD = 8  # int64 per counter: one cache line each, so that workers do not disturb each other
FORWARD, BACKWARD, WAITING = 0, 1, 2  # columns of Schedule.clock
NONE_LEFT = 1 << 40  # a ticket past every task, and small enough to be multiplied
SPINS_BEFORE_YIELD = 1000  # some 40 microseconds, less than most tasks take
MACHINE = platform.machine().lower()

_I64 = ir.IntType(64)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


if numba.config.DISABLE_JIT:  # plain Python, one worker: so that coverage can see the kernels

    def fetch_add(counters: Any, index: int, amount: int) -> int:
        old = int(counters[index])
        counters[index] += amount
        return old

    def load_acquire(counters: Any, index: int) -> int:
        return int(counters[index])

    def compare_and_swap(counters: Any, index: int, old: int, new: int) -> bool:
        if counters[index] != old:
            return False
        counters[index] = new
        return True

    def has_failed(counters: Any) -> bool:
        return False  # the error has passed through here already

    def ticks() -> int:
        return 0

    def sched_yield() -> int:
        return 0

    def relax() -> None:
        return None

else:

    @intrinsic
    def fetch_add(typing: Any, counters: Any, index: Any, amount: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
            return builder.atomic_rmw("add", pointer, args[2], "acq_rel")

        return types.int64(counters, types.int64, types.int64), codegen

    @intrinsic
    def load_acquire(typing: Any, counters: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
            return builder.load_atomic(pointer, "acquire", 8)

        return types.int64(counters, types.int64), codegen

    @intrinsic
    def compare_and_swap(typing: Any, counters: Any, index: Any, old: Any, new: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
            return builder.extract_value(builder.cmpxchg(pointer, args[2], args[3], "acq_rel", "acquire"), 1)

        return types.boolean(counters, types.int64, types.int64, types.int64), codegen

    @intrinsic
    def has_failed(typing: Any, counters: Any) -> Any:
        """Whether a worker has raised an error; what lies before the first counter says where to look."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            before = builder.load(_pointer(context, builder, signature.args[0], args[0], _I64(-PAD)))
            flag = builder.inttoptr(before, _I64.as_pointer())
            return builder.icmp_signed("!=", builder.load_atomic(flag, "monotonic", 8), _I64(0))

        return types.boolean(counters), codegen

    @intrinsic
    def ticks(typing: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            function = builder.module.declare_intrinsic("llvm.readcyclecounter", fnty=ir.FunctionType(_I64, []))
            return builder.call(function, [])

        return types.int64(), codegen

    @intrinsic
    def relax(typing: Any) -> Any:
        """Tell the core that this is a waiting loop: it saves power, and leaves more to a thread it shares it with."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if MACHINE in ("x86_64", "amd64"):
                kind = ir.FunctionType(ir.VoidType(), [])
                builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", fnty=kind), [])
            elif MACHINE in ("aarch64", "arm64"):
                kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32)])
                hint = builder.module.declare_intrinsic("llvm.aarch64.hint", fnty=kind)
                builder.call(hint, [ir.Constant(ir.IntType(32), 1)])  # YIELD
            return context.get_dummy_value()

        return types.void(), codegen

    sched_yield = types.ExternalFunction("sched_yield", types.int32())


class Schedule(NamedTuple):
    """What a kernel may know about who shares its work: to choose where a worker begins, never what is computed."""

    workers: int
    clock: Array  # (workers, PAD) ticks spent forward, backward, waiting


class Levels(NamedTuple):
    """Tasks that form levels, and the workers that share them."""

    claims: Array  # the next level of every unit that no worker has taken
    progress: Array  # finished tasks, of every unit or of every group of units
    schedule: Schedule


def new_counters(count: int, failed: int) -> Array:
    """Counters at 0, a cache line each; at the address `failed` is a number that is not 0 once a worker has raised."""
    lines = np.zeros((count + 1) * PAD, np.int64)
    lines[0] = failed
    return lines[PAD:]


@kernel
def claim(tickets: Array) -> int:
    """The next task number; each is handed out once."""
    return NONE_LEFT if has_failed(tickets) else fetch_add(tickets, 0, 1)


@kernel
def take(claims: Array, level: int, cursor: int, first: int) -> int:
    """The next cursor position, from `cursor`, whose unit this worker now owns at this level; or the unit count."""
    units = claims.size // PAD
    if has_failed(claims):
        return units
    while cursor < units:
        unit = unit_at(cursor, first, units)
        if load_acquire(claims, unit * PAD) == level and compare_and_swap(claims, unit * PAD, level, level + 1):
            break
        cursor += 1
    return cursor


@kernel
def unit_at(cursor: int, first: int, units: int) -> int:
    """Units in the order a worker prefers them: from `first` on, then around."""
    return (first + cursor) % units


@kernel
def wait_for(progress: Array, counter: int, value: int) -> None:
    """Return once counter has reached value. Spins briefly, then lets other threads of a busy machine run."""
    spins = 0
    while load_acquire(progress, counter * PAD) < value:
        relax()
        spins += 1
        if spins > SPINS_BEFORE_YIELD:
            if has_failed(progress):
                break
            sched_yield()


@kernel
def finish(progress: Array, counter: int) -> None:
    """Count one task as done: everything it wrote is visible to whoever sees the count."""
    fetch_add(progress, counter * PAD, 1)
