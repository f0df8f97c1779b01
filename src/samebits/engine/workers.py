"""Who computes: a pool of threads that run one compiled function at once, and one after another (team.py).

Each worker takes tickets (sync.py) until there are none. The worker count decides who begins where and computes what,
never what is computed. It may exceed the cores and is never clamped.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numba
import numpy as np
from numba.core.dispatcher import Dispatcher
from numpy.typing import DTypeLike
from threadpoolctl import threadpool_limits

from samebits.engine import team
from samebits.engine.arrays import Array, aligned
from samebits.engine.denormals import FLUSHING, set_mode
from samebits.engine.sync import PAD
from samebits.errors import SamebitsError

MOST_WORKERS = 4096  # beyond any machine; guards against a slipped digit


MOST_VIEWS = 256  # a family whose shapes change all the time must not fill the memory with them
ENTRIES = team.Entries()


def available_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """The cores this process may use: those it may run on, or the time a container grants it, if that is less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        granted, period = quota.read_text().split()
        if granted != "max":
            return max(1, min(cores, math.ceil(int(granted) / int(period))))
    return cores


def worker_count(asked: str | int) -> int:
    """What --workers means: `auto`, or a whole number from 1."""
    text = str(asked).strip()
    if text == "auto":
        return available_cores()
    if not text.isdecimal() or not 1 <= int(text) <= MOST_WORKERS:
        raise SamebitsError(
            f"workers is {text!r}; it must be 'auto' or a whole number from 1 to {MOST_WORKERS}; "
            f"use --workers auto for the {available_cores()} cores of this machine"
        )
    return int(text)


class Workers:
    """Threads, their scratch memory and their clocks. They work inside `with`, where the caller is worker 0."""

    def __init__(self, asked: str | int = "auto") -> None:
        self.count = worker_count(asked)
        self.ticks = aligned((self.count, PAD), np.int64)
        self._buffers: dict[str, Array] = {}
        self._views: dict[Any, Array] = {}  # of the buffers, as they were asked for: the same every step
        self._board = team.new_board()
        self._posted: list[tuple[Callable[..., None], tuple[Any, ...]]] = []  # not over yet: keeps arguments alive
        self.log: list[tuple[str, int, int]] | None = None  # what ran, and its ticks, for those who want to know
        self._spins = team.SPINS if self.count <= available_cores() else 0  # a spinning worker must not hold up another
        self._python: tuple[Callable[..., None], tuple[Any, ...]] | None = None
        self._problems: list[BaseException] = []
        self._limits: Any = None
        self._mode = 0

    def __enter__(self) -> Workers:
        self._limits = threadpool_limits(limits=1, user_api="blas")
        self._mode = set_mode(FLUSHING)
        which = int(self._board[team.POSTS]), int(self._board[team.TEAM])
        if not numba.config.DISABLE_JIT:
            for index in range(1, self.count):
                thread = threading.Thread(
                    target=self._serve, args=(index, *which), name=f"samebits-{index}", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:
                    self.__exit__(None, None, None)
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
            set_mode(self._mode)
            self._limits.restore_original_limits()
            if not numba.config.DISABLE_JIT:
                team.dismiss(self._board)

    def run(self, body: Callable[..., None], *args: Any, alone: bool = False) -> None:
        """Call body(worker, *args) on the workers at once; return when all of it is done.

        Body shares its tasks by tickets: a worker that comes when none are left is not waited for. Compiled, or plain
        Python.
        """
        if numba.config.DISABLE_JIT or isinstance(body, Dispatcher):
            self.post(body, *args, alone=alone)
            self.join()
            return
        self.join()
        self._python, number = (body, args), int(self._board[team.POSTS])
        team.post_python(self._board)
        if team.come_in(self._board, number):
            self._call(0)
            team.leave(self._board, number)
        team.await_over(self._board, number)
        problems, self._problems = self._problems, []
        for problem in problems:
            raise problem

    def post(self, body: Callable[..., None], *args: Any, alone: bool = False) -> None:
        """The same without waiting for it: what is posted runs in this order, and is done when `join` returns.

        Until then nobody else may touch what it works on. `alone`: too little to share, one worker does it.
        """
        if numba.config.DISABLE_JIT:  # plain Python has no atomics; one worker can do all the work
            body(0, *args)
            return
        if len(self._posted) == team.RING:
            self.join()
        self._posted.append((body, args))  # before the workers see them
        if not team.post(self._board, ENTRIES.of(body), alone, *args):
            self._posted.pop()
            ENTRIES.add(body, args)
            self.post(body, *args, alone=alone)

    def join(self) -> None:
        """Take part in what is posted; return when all of it is done."""
        if not self._posted:
            return
        first = int(self._board[team.POSTS]) - len(self._posted)
        failed = team.join(self._board, first)
        posted, self._posted = self._posted, []
        if failed:
            body = posted[int(self._board[team.CULPRIT]) - first][0]
            raise RuntimeError(f"{body.__name__} raised an error in {failed} of {self.count} workers")
        if self.log is not None:
            for number, (body, _) in enumerate(posted, first):
                base = team.base_of(number)
                started, ended = self._board[base + team.STARTED], self._board[base + team.ENDED]
                self.log.append((body.__name__, int(started), int(ended)))

    def per_worker(self, name: str, size: int, dtype: DTypeLike) -> Array:
        """Scratch rows, one a worker."""
        return self.buffer(f"{name} per worker", (self.count, size), dtype)

    def buffer(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Scratch memory under this name, kept and grown over the run: fresh pages cost more than the arithmetic.

        Its contents are whatever the last user left.
        """
        key = name, shape, dtype
        found = self._views.get(key)
        if found is None:
            size = math.prod(shape) * np.dtype(dtype).itemsize
            kept = self._buffers.get(name)
            if kept is None or kept.size < size:
                kept = self._buffers[name] = aligned(size, np.uint8)
                self._views.clear()
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            found = self._views[key] = kept[:size].view(dtype).reshape(shape)
        return found

    def tickets(self) -> Array:
        """A fresh ticket counter for one run."""
        return np.zeros(1, np.int64)

    def counters(self, count: int) -> Array:
        """Fresh claims or progress counters for one run, a cache line each."""
        return np.zeros(count * PAD, np.int64)

    def _serve(self, index: int, seen: int, which: int) -> None:
        set_mode(FLUSHING)
        while (number := team.serve(index, self._board, seen, which, self._spins)) >= 0:
            self._call(index)
            team.leave(self._board, number)
            seen = number + 1

    def _call(self, index: int) -> None:
        """Run a body that is plain Python."""
        assert self._python is not None
        body, args = self._python
        try:
            body(index, *args)
        except BaseException as problem:
            self._problems.append(problem)


def team_of(workers: str | int | Workers) -> AbstractContextManager[Workers]:
    """Workers for one call: a new team from a count, or the caller's own, left running."""
    return nullcontext(workers) if isinstance(workers, Workers) else Workers(workers)
