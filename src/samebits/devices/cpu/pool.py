"""A pool of threads that run one compiled function at once, and one after another (dispatch.py).

Each worker takes tickets (sync.py) until there are none. The worker count decides who begins where and computes what,
never what is computed. It may exceed the cores and is never clamped.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numba
import numpy as np
from numba.core.dispatcher import Dispatcher

from samebits.arithmetic.arrays import Array, aligned
from samebits.checks import index_of, refuse
from samebits.compiler.cores import available_cores
from samebits.devices.cpu import dispatch
from samebits.devices.cpu.sync import PAD, Schedule, new_counters
from samebits.errors import SamebitsError

MOST_WORKERS = 4096  # beyond any machine; guards against a slipped digit
MOST_DIGITS = 20  # zeros in front included; Python itself gives up at some thousands
ENTRIES = dispatch.Entries()


def local_processes() -> int:
    """How many processes of one run share this machine, as torchrun says (cluster.py)."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, int(text)) if text.isdecimal() and len(text) <= MOST_DIGITS else 1


def worker_count(asked: str | int) -> int:
    """What --workers means: `auto`, or a whole number from 1."""
    if isinstance(asked, str):
        text = asked.strip()
        if text == "auto":
            return max(1, available_cores() // local_processes())
        found = int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None
    else:
        found = index_of(asked)
    if found is None or not 1 <= found <= MOST_WORKERS:
        rule = f"'auto' or a whole number from 1 to {MOST_WORKERS}"
        raise refuse("workers", asked, rule, f"use --workers auto for the {available_cores()} cores of this machine")
    return found


class Pool:
    """Threads that work inside `with`, where the caller is worker 0. `each_thread` is called once on every other.

    With `share_little`, what is posted as too little to share is shared all the same: slower, and a test of sharing.
    """

    def __init__(self, count: int, each_thread: Callable[[], None] = lambda: None, share_little: bool = False) -> None:
        self.count, self._each_thread, self._share_little = count, each_thread, share_little
        self.schedule = Schedule(count, aligned((count, PAD), np.int64))
        self._board = dispatch.new_board()
        self._failed = int(self._board[dispatch.FAILED :].ctypes.data)  # where it is said that a worker raised an error
        self._posted: list[tuple[Callable[..., None], tuple[Any, ...]]] = []  # not over yet: keeps arguments alive
        self.log: list[tuple[str, int, int]] | None = None  # what ran, and its ticks, for those who want to know
        self._spins = dispatch.SPINS if count <= available_cores() else 0  # a spinning worker must not hold up another
        self._python: tuple[Callable[..., None], tuple[Any, ...]] | None = None
        self._inside = threading.Lock()  # held inside `with`
        self._user: tuple[int, int] | None = None  # (thread, process) of who entered
        self._problems: list[BaseException] = []

    def __enter__(self) -> Self:
        if not self._inside.acquire(blocking=False):
            raise SamebitsError(
                "these workers are in use already: they were entered a second time, or by another thread; pass on the "
                "ones you have, or make new ones"
            )
        self._user = threading.get_ident(), os.getpid()
        which = int(self._board[dispatch.POSTS]), int(self._board[dispatch.SHIFT])
        if not numba.config.DISABLE_JIT:
            for index in range(1, self.count):
                name = f"samebits-{index}"
                thread = threading.Thread(target=self._serve, args=(index, *which), name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    Pool.__exit__(self, None, None, None)
                    raise SamebitsError(
                        f"workers is {self.count}; this machine lets a process start only {index} of them; "
                        "use fewer --workers"
                    ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.join()  # after an error, something may still be posted
        finally:
            if not numba.config.DISABLE_JIT:
                dispatch.dismiss(self._board)
            self._user = None
            self._inside.release()

    def _check_user(self) -> None:
        """One thread hands out the work: two at once would mix up what is posted, and nobody would notice."""
        if self._user != (threading.get_ident(), os.getpid()):
            where = "by another thread or process than the one that entered them" if self._user else "outside of `with`"
            raise SamebitsError(
                f"these workers are used {where}; enter them with `with`, use them there, and give every thread its own"
            )

    def run(self, body: Callable[..., None], *args: Any, alone: bool = False) -> None:
        """Call body(worker, *args) on the workers at once; return when all of it is done.

        Body shares its tasks by tickets: a worker that comes when none are left is not waited for. Compiled, or plain
        Python.
        """
        self._check_user()
        if numba.config.DISABLE_JIT or isinstance(body, Dispatcher):
            self.post(body, *args, alone=alone)
            self.join()
            return
        self.join()
        self._python, number = (body, args), int(self._board[dispatch.POSTS])
        dispatch.post_python(self._board)
        if dispatch.come_in(self._board, number):
            self._call(0)
            dispatch.leave(self._board, number)
        dispatch.await_over(self._board, number)
        problems, self._problems = self._problems, []
        for problem in problems:
            raise problem

    def post(self, body: Callable[..., None], *args: Any, alone: bool = False) -> None:
        """The same without waiting for it: what is posted runs in this order, and is done when `join` returns.

        Until then nobody else may touch what it works on. `alone`: too little to share, one worker does it.
        """
        self._check_user()
        if numba.config.DISABLE_JIT:  # plain Python has no atomics; one worker can do all the work
            body(0, *args)
            return
        if len(self._posted) == dispatch.RING:
            self.join()
        self._posted.append((body, args))  # before the workers see them
        if not dispatch.post(self._board, ENTRIES.of(body), alone and not self._share_little, *args):
            self._posted.pop()
            ENTRIES.add(body, args)
            self.post(body, *args, alone=alone)

    def join(self) -> None:
        """Take part in what is posted; return when all of it is done. An error in a worker is raised here."""
        if not self._posted:
            return
        self._check_user()
        first = int(self._board[dispatch.POSTS]) - len(self._posted)
        failed = dispatch.join(self._board, first)
        posted, self._posted = self._posted, []
        if failed:
            body = posted[int(self._board[dispatch.CULPRIT]) - first][0]
            problem = dispatch.raised(int(self._board[dispatch.PROBLEM]))
            told = f": {type(problem).__name__}: {problem}" if problem else ""
            where = f"{body.__name__} raised an error in {failed} of {self.count} workers"
            raise RuntimeError(f"{where}{told}") from problem
        if self.log is not None:
            for number, (body, _) in enumerate(posted, first):
                base = dispatch.base_of(number)
                started, ended = self._board[base + dispatch.STARTED], self._board[base + dispatch.ENDED]
                self.log.append((body.__name__, int(started), int(ended)))

    def tickets(self) -> Array:
        """A fresh ticket counter for one run."""
        return self.counters(1)

    def counters(self, count: int) -> Array:
        """Fresh claims or progress counters for one run, a cache line each."""
        return new_counters(count, self._failed)

    def _serve(self, index: int, seen: int, which: int) -> None:
        self._each_thread()
        while (number := dispatch.serve(index, self._board, seen, which, self._spins)) >= 0:
            self._call(index)
            dispatch.leave(self._board, number)
            seen = number + 1

    def _call(self, index: int) -> None:
        """Run a body that is plain Python."""
        assert self._python is not None
        body, args = self._python
        try:
            body(index, *args)
        except BaseException as problem:
            self._problems.append(problem)
