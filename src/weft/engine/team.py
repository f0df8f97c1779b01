"""How one compiled function starts on every worker within a microsecond or two, without Python.

A dispatch through Python is slow for small work: each thread must be woken and must take the interpreter's lock to
unpack the arguments. Here the caller unpacks them once, onto its stack, and posts two addresses on a board: of the
compiled body and of the arguments. The other workers never left compiled code: they watch the board, briefly spinning,
then asleep on a condition variable. All workers, the caller too, enter the body by the same address, so all run the
same machine code, whatever their number.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from weft.engine.arrays import Array, aligned
from weft.engine.jit import kernel
from weft.engine.sync import fetch_add, load_acquire, relax, sched_yield

# Places on the board, in int64; a cache line is 8. Everything a post writes is in one line.
POSTS, ENTER, BODY, ARGUMENTS = 0, 1, 2, 3  # how many posts there were; of the last: trampoline, function, arguments
DONE, FAILED = 8, 9  # workers that have ended the last post; those of them that raised
LOCK, SIGNAL = 16, 32  # a pthread mutex and its condition variable
BOARD_SIZE = 48

SPINS = 20_000  # about a millisecond: longer than what a training step does between two posts
SPINS_BEFORE_YIELD = 1000

_I64, _POINTER = ir.IntType(64), ir.IntType(8).as_pointer()
_ENTER = ir.FunctionType(_I64, [_I64, _I64, _POINTER])  # (worker, body, arguments) → 0, or a status


def new_board() -> Array:
    board = aligned(BOARD_SIZE, np.int64)
    if not numba.config.DISABLE_JIT:
        prepare(board)
    return board


def _at(context: Any, builder: Any, array_type: Any, array: Any, index: int) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [ir.Constant(_I64, index)])


@intrinsic
def place(typing: Any, board: Any, index: Any) -> Any:
    """The address of a place on the board."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(builder.gep(data, [args[1]]), _I64)

    return types.uintp(board, types.int64), codegen


@intrinsic
def kind_of(typing: Any, args: Any) -> Any:
    """A number for the types of a tuple of arguments: the same in every process."""
    found = int.from_bytes(hashlib.sha256(repr(tuple(args.types)).encode()).digest()[:7], "little")

    def codegen(context: Any, builder: Any, signature: Any, llargs: Any) -> Any:
        return ir.Constant(_I64, found)

    return types.int64(args), codegen


@intrinsic
def write_post(typing: Any, board: Any, body: Any, args: Any) -> Any:
    """Put the arguments on the caller's stack, and on the board where they are and how to call `body` with them."""

    def codegen(context: Any, builder: Any, signature: Any, llargs: Any) -> Any:
        array, entry, packed = llargs
        kinds = (types.int64, *signature.args[2].types)
        enter = ir.Function(builder.module, _ENTER, f"{builder.function.name}.enter")
        enter.linkage = "internal"
        inner = ir.IRBuilder(enter.append_basic_block("entry"))
        worker, address, pointer = enter.args
        given = inner.load(inner.bitcast(pointer, packed.type.as_pointer()))
        values = [worker, *(inner.extract_value(given, i) for i in range(len(kinds) - 1))]
        convention = context.call_conv.get_function_type(types.none, kinds)
        function = inner.inttoptr(address, convention.as_pointer())
        status, _ = context.call_conv.call_function(inner, function, types.none, kinds, values)
        inner.ret(inner.zext(status.is_error, _I64))

        with builder.goto_entry_block():
            stack = builder.alloca(packed.type)
        builder.store(packed, stack)
        for index, value in (
            (ENTER, builder.ptrtoint(enter, _I64)),
            (BODY, entry),
            (ARGUMENTS, builder.ptrtoint(stack, _I64)),
        ):
            builder.store(value, _at(context, builder, signature.args[0], array, index))
        return context.get_dummy_value()

    return types.void(board, types.int64, args), codegen


@intrinsic
def enter_posted(typing: Any, board: Any, worker: Any) -> Any:
    """Call what is posted; 0, or not if it raised."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def load(index: int) -> Any:
            return builder.load(_at(context, builder, signature.args[0], args[0], index))

        enter = builder.inttoptr(load(ENTER), _ENTER.as_pointer())
        return builder.call(enter, [args[1], load(BODY), builder.inttoptr(load(ARGUMENTS), _POINTER)])

    return types.int64(board, types.int64), codegen


def _pthread(name: str, arguments: int) -> Any:
    return types.ExternalFunction(f"pthread_{name}", types.int32(*[types.uintp] * arguments))


mutex_init, cond_init = _pthread("mutex_init", 2), _pthread("cond_init", 2)
mutex_lock, mutex_unlock = _pthread("mutex_lock", 1), _pthread("mutex_unlock", 1)
cond_wait, cond_broadcast = _pthread("cond_wait", 2), _pthread("cond_broadcast", 1)


@kernel
def prepare(board: Array) -> None:
    mutex_init(place(board, LOCK), 0)
    cond_init(place(board, SIGNAL), 0)


@kernel
def announce(board: Array) -> None:
    """What is on the board is the next post: those who spin see the count, those who sleep are woken."""
    mutex_lock(place(board, LOCK))
    fetch_add(board, POSTS, 1)
    cond_broadcast(place(board, SIGNAL))
    mutex_unlock(place(board, LOCK))


@kernel
def await_post(board: Array, seen: int, spins: int) -> None:
    """Until there are more than `seen` posts."""
    for _ in range(spins):
        if load_acquire(board, POSTS) > seen:
            return
        relax()
    mutex_lock(place(board, LOCK))
    while load_acquire(board, POSTS) <= seen:
        cond_wait(place(board, SIGNAL), place(board, LOCK))
    mutex_unlock(place(board, LOCK))


@kernel
def post_python(board: Array) -> None:
    """Call the workers out of compiled code: there is something for Python."""
    board[ENTER] = 0
    board[DONE] = 0
    announce(board)


@kernel
def serve(worker: int, board: Array, seen: int, spins: int) -> int:
    """Work off posts, from number `seen` on, until one is for Python; its number."""
    while True:
        await_post(board, seen, spins)
        seen += 1  # the caller waits for everybody before it posts again
        if board[ENTER] == 0:
            return seen
        if enter_posted(board, worker) != 0:
            fetch_add(board, FAILED, 1)
        fetch_add(board, DONE, 1)


@kernel
def done(board: Array) -> None:
    fetch_add(board, DONE, 1)


@kernel
def await_done(board: Array, others: int) -> None:
    spins = 0
    while load_acquire(board, DONE) < others:
        relax()
        spins += 1
        if spins > SPINS_BEFORE_YIELD:
            sched_yield()


@kernel
def launch(board: Array, entries: Array, others: int, *args: Any) -> int:
    """Run a body on all workers. entries (k, 2): its compiled versions, kind of arguments and address.

    How many workers raised; −1 if there is no version for these arguments.
    """
    kind = kind_of(args)
    for i in range(entries.shape[0]):
        if entries[i, 0] == kind:
            board[DONE] = board[FAILED] = 0
            write_post(board, entries[i, 1], args)
            if others > 0:
                announce(board)
            failed = enter_posted(board, 0)
            await_done(board, others)
            return failed + board[FAILED]
    return -1


@kernel
def kind(*args: Any) -> int:
    return kind_of(args)


class Entries:
    """The compiled versions of bodies, as `launch` looks them up."""

    def __init__(self) -> None:
        self._found: dict[Any, Array] = {}

    def of(self, body: Any) -> Array:
        return self._found.get(body, _NONE)

    def add(self, body: Any, args: tuple[Any, ...]) -> None:
        """Compile `body` for these arguments, or find it compiled."""
        kinds = (types.int64, *map(numba.typeof, args))
        body.compile(kinds)
        version = body.overloads[kinds]
        if version.signature.return_type != types.none:
            raise TypeError(f"{body.py_func.__name__} returns something; what workers run must not")
        address = version.library.get_pointer_to_function(version.fndesc.llvm_func_name)
        self._found[body] = np.append(self.of(body), [[kind(*args), address]], axis=0)


_NONE = np.zeros((0, 2), np.int64)
