"""How one compiled function after another runs on every worker, without Python in between.

A dispatch through Python is slow for small work: each thread must be woken and must take the interpreter's lock to
unpack the arguments. Here the caller unpacks them once and posts them on a board, with the address of the compiled
body, and may go on in Python: prepare the next post, draw the next batch. The other workers never left compiled code:
they watch the board, briefly spinning, then asleep on a condition variable. The caller is a worker too, whenever it
joins. All enter the body by the same address, so all run the same machine code, whatever their number.

Posts are worked off in their order. A body shares its work by tickets, so it returns only when all of it is taken: with
the first worker that leaves, a post is closed to those who have not come yet; when all who came have left, it is over,
and the next may begin. Nobody waits for a worker that sleeps, or that the machine does not let run.
"""

from __future__ import annotations

import ctypes
import hashlib
import pickle
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from samebits.arithmetic.arrays import Array, aligned
from samebits.compiler.jit import kernel
from samebits.devices.cpu.sync import compare_and_swap, fetch_add, load_acquire, relax, sched_yield, ticks

# The board, in int64; a cache line is 8.
POSTS, SHIFT = 0, 1  # how many posts there were; which shift of threads is wanted: others go
FAILED, CULPRIT, PROBLEM = 8, 9, 10  # workers that raised; the post and the exception of the first
LOCK, SIGNAL = 16, 32  # a pthread mutex and its condition variable
FIRST_POST, RING = 48, 16  # where posts are: a ring of so many
STATE, ENTER, BODY, STARTED, ENDED, ARGUMENTS = 0, 8, 9, 16, 17, 24  # places of a post: trampoline, function, ticks …
MOST_ARGUMENTS = 1000  # in int64; an array of one dimension takes 7
POST_SIZE = ARGUMENTS + MOST_ARGUMENTS
BOARD_SIZE = FIRST_POST + RING * POST_SIZE

# The state of a post: how many workers are in it, whether others may still come, whether one is enough, its number.
INSIDE, CLOSED, ALONE, NUMBER = (1 << 15) - 1, 1 << 15, 1 << 16, 17

SPINS = 20_000  # about a millisecond: longer than what a training step does between two posts
SPINS_BEFORE_YIELD = 1000

_I64, _POINTER = ir.IntType(64), ir.IntType(8).as_pointer()
_ENTER = ir.FunctionType(_I64, [_I64, _I64, _POINTER])  # (worker, body, arguments) → 0, or the exception


def new_board() -> Array:
    board = aligned(BOARD_SIZE, np.int64)
    if not numba.config.DISABLE_JIT:
        prepare(board)
    return board


def _at(context: Any, builder: Any, array_type: Any, array: Any, base: Any, index: int) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [builder.add(base, ir.Constant(_I64, index))])


@intrinsic
def address_of(typing: Any, board: Any, index: Any) -> Any:
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


def borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The same arguments, their arrays without owners: the caller keeps the memory alive, nobody counts references.

    Workers that count do so at the same addresses, all at once, for every slice they take.
    """
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = ir.Constant(array.meminfo.type, None)
        array.parent = ir.Constant(array.parent.type, None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        for i, inner in enumerate(kind):
            part = borrowed(context, builder, inner, builder.extract_value(value, i))
            value = builder.insert_value(value, part, i)
    return value


@intrinsic
def write_post(typing: Any, board: Any, base: Any, body: Any, args: Any) -> Any:
    """Write to the place `base` of the board the arguments, and how to call `body` with them."""

    def codegen(context: Any, builder: Any, signature: Any, llargs: Any) -> Any:
        array, place, entry, packed = llargs
        packed = borrowed(context, builder, signature.args[3], packed)
        if context.get_abi_sizeof(packed.type) > 8 * MOST_ARGUMENTS:
            raise TypeError(f"arguments of {context.get_abi_sizeof(packed.type)} bytes; the board has room for fewer")
        kinds = (types.int64, *signature.args[3].types)
        enter = ir.Function(builder.module, _ENTER, f"{builder.function.name}.enter")
        enter.linkage = "internal"
        inner = ir.IRBuilder(enter.append_basic_block("entry"))
        worker, address, pointer = enter.args
        given = inner.load(inner.bitcast(pointer, packed.type.as_pointer()))
        values = [worker, *(inner.extract_value(given, i) for i in range(len(kinds) - 1))]
        convention = context.call_conv.get_function_type(types.none, kinds)
        function = inner.inttoptr(address, convention.as_pointer())
        status, _ = context.call_conv.call_function(inner, function, types.none, kinds, values)
        raised = inner.ptrtoint(status.excinfoptr, _I64)
        inner.ret(inner.select(status.is_error, raised, ir.Constant(_I64, 0)))

        def at(index: int) -> Any:
            return _at(context, builder, signature.args[0], array, place, index)

        builder.store(packed, builder.bitcast(at(ARGUMENTS), packed.type.as_pointer()))
        builder.store(builder.ptrtoint(enter, _I64), at(ENTER))
        builder.store(entry, at(BODY))
        return context.get_dummy_value()

    return types.void(board, types.int64, types.int64, args), codegen


@intrinsic
def enter_posted(typing: Any, board: Any, base: Any, worker: Any) -> Any:
    """Call what is posted at this place; 0, or not if it raised."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def at(index: int) -> Any:
            return _at(context, builder, signature.args[0], args[0], args[1], index)

        enter = builder.inttoptr(builder.load(at(ENTER)), _ENTER.as_pointer())
        return builder.call(enter, [args[2], builder.load(at(BODY)), builder.bitcast(at(ARGUMENTS), _POINTER)])

    return types.int64(board, types.int64, types.int64), codegen


def _pthread(name: str, arguments: int) -> Any:
    return types.ExternalFunction(f"pthread_{name}", types.int32(*[types.uintp] * arguments))


mutex_init, cond_init = _pthread("mutex_init", 2), _pthread("cond_init", 2)
mutex_lock, mutex_unlock = _pthread("mutex_lock", 1), _pthread("mutex_unlock", 1)
cond_wait, cond_broadcast = _pthread("cond_wait", 2), _pthread("cond_broadcast", 1)


@kernel
def prepare(board: Array) -> None:
    mutex_init(address_of(board, LOCK), 0)
    cond_init(address_of(board, SIGNAL), 0)


@kernel
def base_of(number: int) -> int:
    return FIRST_POST + number % RING * POST_SIZE


@kernel
def announce(board: Array, place: int) -> None:
    """Count up POSTS or SHIFT: those who spin see it, those who sleep are woken."""
    mutex_lock(address_of(board, LOCK))
    fetch_add(board, place, 1)
    cond_broadcast(address_of(board, SIGNAL))
    mutex_unlock(address_of(board, LOCK))


@kernel
def open_post(board: Array, alone: bool) -> None:
    """What was written to the next place is now the next post. One that is for a single worker wakes nobody."""
    number = board[POSTS]
    board[base_of(number) + STATE] = (number << NUMBER) | (ALONE if alone else 0)
    if alone:
        fetch_add(board, POSTS, 1)
    else:
        announce(board, POSTS)


@kernel
def post(board: Array, entries: Array, alone: bool, *args: Any) -> bool:
    """Post a body and its arguments. entries (k, 2): its compiled versions, kind of arguments and address.

    False if there is no version for these. The caller sees to it that the ring has room.
    """
    kind = kind_of(args)
    for i in range(entries.shape[0]):
        if entries[i, 0] == kind:
            write_post(board, base_of(board[POSTS]), entries[i, 1], args)
            open_post(board, alone)
            return True
    return False


@kernel
def post_python(board: Array) -> None:
    """Call the workers out of compiled code: there is something for Python."""
    board[base_of(board[POSTS]) + ENTER] = 0
    open_post(board, False)


@kernel
def is_over(board: Array, number: int) -> bool:
    state = load_acquire(board, base_of(number) + STATE)
    return (state >> NUMBER) != number or state & (CLOSED | INSIDE) == CLOSED


@kernel
def await_over(board: Array, number: int) -> None:
    spins = 0
    while not is_over(board, number):
        relax()
        spins += 1
        if spins > SPINS_BEFORE_YIELD:
            sched_yield()


@kernel
def come_in(board: Array, number: int) -> bool:
    """Take part in a post, once the one before it is over; False if it is closed already."""
    place = base_of(number) + STATE
    state = load_acquire(board, place)
    if (state >> NUMBER) != number or state & CLOSED:
        return False
    await_over(board, number - 1)
    while True:
        state = load_acquire(board, place)
        if (state >> NUMBER) != number or state & CLOSED:
            return False
        if compare_and_swap(board, place, state, (state + 1) | (CLOSED if state & ALONE else 0)):
            if state & INSIDE == 0:  # the first: nobody can have left yet
                board[place + STARTED] = ticks()
            return True


@kernel
def leave(board: Array, number: int) -> None:
    place = base_of(number) + STATE
    while True:
        state = load_acquire(board, place)
        if state & INSIDE == 1:
            board[place + ENDED] = ticks()
        if compare_and_swap(board, place, state, (state - 1) | CLOSED):
            return


@kernel
def take_part(worker: int, board: Array, number: int) -> None:
    problem = enter_posted(board, base_of(number), worker)
    if problem != 0 and fetch_add(board, FAILED, 1) == 0:  # from here on nobody begins another task (sync.py)
        board[CULPRIT] = number
        board[PROBLEM] = problem
    leave(board, number)


@kernel
def await_post(board: Array, seen: int, shift: int, spins: int) -> None:
    """Until there are more than `seen` posts, or another shift is wanted."""
    for _ in range(spins):
        if load_acquire(board, POSTS) > seen or load_acquire(board, SHIFT) != shift:
            return
        relax()
    mutex_lock(address_of(board, LOCK))
    while load_acquire(board, POSTS) <= seen and load_acquire(board, SHIFT) == shift:
        cond_wait(address_of(board, SIGNAL), address_of(board, LOCK))
    mutex_unlock(address_of(board, LOCK))


@kernel
def serve(worker: int, board: Array, seen: int, shift: int, spins: int) -> int:
    """Work off posts, from number `seen` on, until one is for Python: its number, come in. −1: this shift may go."""
    while True:
        await_post(board, seen, shift, spins)
        if load_acquire(board, SHIFT) != shift:
            return -1
        seen = max(seen, load_acquire(board, POSTS) - RING)  # those before are over: it slept
        if come_in(board, seen):
            if board[base_of(seen) + ENTER] == 0:
                return seen
            take_part(worker, board, seen)
        seen += 1


@kernel
def join(board: Array, first: int) -> int:
    """Worker 0: take part in the posts from number `first` on, and wait until all are over. How many workers raised."""
    last = board[POSTS]
    for number in range(first, last):
        if come_in(board, number):
            take_part(0, board, number)
    await_over(board, last - 1)
    failed = board[FAILED]
    board[FAILED] = 0  # everybody has left
    return failed


@kernel
def dismiss(board: Array) -> None:
    """Another shift is wanted from now on."""
    announce(board, SHIFT)


@kernel
def kind(*args: Any) -> int:
    return kind_of(args)


class Entries:
    """The compiled versions of bodies, as `post` looks them up."""

    def __init__(self) -> None:
        self._found: dict[Any, Array] = {}

    def of(self, body: Any) -> Array:
        return self._found.get(body, _NONE)

    def add(self, body: Any, args: tuple[Any, ...]) -> None:
        """Compile `body` for these arguments, or find it compiled."""
        kinds = (types.int64, *map(numba.typeof, args))
        signature, address = body.entered(kinds)
        if signature.return_type != types.none:
            raise TypeError(f"{body.py_func.__name__} returns something; what workers run must not")
        self._found[body] = np.append(self.of(body), [[kind(*args), address]], axis=0)


_NONE = np.zeros((0, 2), np.int64)


class _ExceptionRecord(ctypes.Structure):
    """Numba's record of an exception raised in compiled code: what it was pickled to when it was compiled."""

    _fields_ = (
        ("pickled", ctypes.c_void_p), ("size", ctypes.c_int32), ("hash", ctypes.c_void_p), ("unwrap", ctypes.c_void_p),
        ("dynamic", ctypes.c_int32),
    )  # fmt: skip


def raised(address: int) -> BaseException | None:
    """The exception at this address; None where its arguments were made while it ran and cannot be read from here."""
    record = _ExceptionRecord.from_address(address)
    if record.dynamic > 0:
        return None
    kind, args, *_ = pickle.loads(ctypes.string_at(record.pickled, record.size))
    problem: BaseException = kind(*(args or ()))
    return problem
