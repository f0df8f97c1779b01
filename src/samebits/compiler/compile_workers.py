"""Compiling in processes beside us: several functions at once, while we can still be stopped.

LLVM answers no Ctrl-C, and keeps Python to itself. So a function that is not on disk yet is compiled by a helper
(helper.py), which leaves it on disk, where we find it. What helpers cannot do, we do ourselves, as if there were none:
one that fails costs time and nothing else.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any, NamedTuple

import numba

from samebits.compiler.children import command, environment
from samebits.compiler.cores import available_cores
from samebits.compiler.kernel_cache import KEPT_IN, KernelCache

MOST_HELPERS = 4  # each takes some 200 MB, and the largest function of a family is a third to a half of it all
SECONDS = 0.1  # between two looks at them
PATIENCE = 1.0  # seconds for one to end, once it is told to


class Progress(NamedTuple):
    """How compiling gets on."""

    names: tuple[str, ...]  # what is being compiled
    done: int
    total: int  # that are known of so far
    seconds: float


Watcher = Callable[[Progress | None], None]  # None: it is over, for now
watchers: list[Watcher] = []


class Order(NamedTuple):
    """A function to be compiled: where it is found, in which form, for which types."""

    module: str
    name: str
    form: str
    kinds: tuple[Any, ...]


@dataclass(eq=False)
class _Job:
    order: Order
    over: bool = False


class _Helper:
    """A process that takes one order after another."""

    def __init__(self) -> None:
        self.line, theirs = connection.Pipe()
        # It keeps what it makes where we look for it. In a session of its own Ctrl-C passes it by: we end it.
        env = environment(SAMEBITS_CACHE_DIR=os.path.dirname(str(KEPT_IN)))
        try:
            self.process = subprocess.Popen(
                command("samebits.compiler.compile_worker", str(theirs.fileno())), pass_fds=[theirs.fileno()], env=env,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        finally:
            theirs.close()
        self.job: _Job | None = None

    def end(self) -> None:
        """At once, but for a file that it is writing (helper.py)."""
        self.line.close()
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class _Office:
    """Who compiles what. One thread at a time is in it, and never takes Numba's lock there: it may have it already."""

    def __init__(self) -> None:
        self.owner, self.lock = os.getpid(), threading.RLock()
        self.helpers: list[_Helper] = []
        self.waiting: deque[_Job] = deque()
        self.known: dict[Order, _Job] = {}
        self.done, self.seconds = 0, 0.0
        self.usable, self.depth = True, 0

    def add(self, order: Order, first: bool) -> _Job:
        job = self.known.get(order)
        if job is None:
            job = self.known[order] = _Job(order)
            self.waiting.append(job)
        if first and job in self.waiting:  # somebody waits for it
            self.waiting.remove(job)
            self.waiting.appendleft(job)
        self._hand_out()
        return job

    def wait(self, until: Callable[[], bool]) -> None:
        """Until it is so, or nobody is left who could bring it about."""
        last = time.perf_counter()
        while not until() and self.usable and (self.waiting or any(helper.job for helper in self.helpers)):
            self._hand_out()
            busy = [helper for helper in self.helpers if helper.job]
            for line in connection.wait([helper.line for helper in busy], SECONDS):
                self._hear(next(helper for helper in busy if helper.line is line))
            now = time.perf_counter()
            self.seconds, last = self.seconds + now - last, now
            self._tell()

    def _tell(self) -> None:
        names = tuple(helper.job.order.name for helper in self.helpers if helper.job)
        for watcher in watchers:
            watcher(Progress(names, self.done, len(self.known), self.seconds))

    def _hand_out(self) -> None:
        for helper in [helper for helper in self.helpers if not helper.job and helper.process.poll() is not None]:
            self._lose(helper)  # it had nothing to do for a while, and went
        self.start(len(self.waiting) + sum(1 for one in self.helpers if one.job))
        for helper in self.helpers:
            if self.waiting and not helper.job:
                helper.job = self.waiting.popleft()
                try:
                    helper.line.send(helper.job.order)
                except OSError:
                    self._hear(helper)

    def start(self, wanted: int) -> None:
        """Have so many helpers, if there are cores for them."""
        try:
            while self.usable and len(self.helpers) < min(available_cores(), MOST_HELPERS, wanted):
                self.helpers.append(_Helper())
        except OSError:  # no such program, or no room for one more
            self.usable = bool(self.helpers)

    def _hear(self, helper: _Helper) -> None:
        """It has done its job, or it is gone. A job is over either way: what is not on disk we compile ourselves."""
        job, helper.job = helper.job, None
        assert job is not None
        job.over = True
        self.done += 1
        try:
            helper.line.recv()
        except (OSError, EOFError):
            self._lose(helper)
            self.usable = False

    def _lose(self, helper: _Helper) -> None:
        helper.end()
        self.helpers.remove(helper)

    def close(self) -> None:
        """Send everybody home, whatever they are doing."""
        for job in [*self.waiting, *(helper.job for helper in self.helpers if helper.job)]:
            del self.known[job.order]
        self.waiting.clear()
        for helper in list(self.helpers):
            self._lose(helper)


_office = _Office()


def _here() -> _Office:
    """This process's: a fork has none of its parent's helpers."""
    global _office
    if _office.owner != os.getpid():
        _office = _Office()
    return _office


def can_help() -> bool:
    return not numba.config.DISABLE_JIT and KEPT_IN is not None and KernelCache.ask is not None and _here().usable


def _order(function: Any, form: str, kinds: tuple[Any, ...]) -> Order | None:
    """What a helper can be told; None for a function that only we can see."""
    module, name = function.__module__, function.__qualname__
    if not can_help() or KernelCache.full or module == "__main__" or "<locals>" in name:
        return None
    try:
        pickle.dumps(kinds)
    except Exception:  # types of anybody's, which may do anything
        return None
    return Order(module, name, form, kinds)


def ask(function: Any, form: str, kinds: tuple[Any, ...]) -> None:
    """Have a function compiled, and wait for it. Afterwards it is on disk, or cannot be."""
    order = _order(function, form, kinds)
    if order is not None:
        with _inside() as office:
            job = office.add(order, first=True)
            office.wait(lambda: job.over)


def ahead(function: Any, form: str, kinds: tuple[Any, ...]) -> None:
    """Have it compiled, for it will be needed."""
    order = _order(function, form, kinds)
    if order is not None:
        with _inside() as office:
            office.add(order, first=False)


def finish() -> None:
    """Wait until all that was asked for is compiled."""
    with _inside() as office:
        office.wait(lambda: False)


def expect_much() -> None:
    """Have all helpers come: they take a second to begin."""
    with _inside() as office:
        office.start(MOST_HELPERS)


@contextmanager
def _inside() -> Iterator[_Office]:
    """Whatever interrupts us ends the helpers."""
    office = _here()
    with together(), office.lock:
        try:
            yield office
        except BaseException:
            office.close()
            raise


@contextmanager
def together() -> Iterator[None]:
    """For watchers, all that is compiled in here is one: they are told when it is over."""
    office = _here()
    office.depth += 1
    try:
        yield
    finally:
        office.depth -= 1
        if office.depth == 0:
            for watcher in watchers:
                watcher(None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    watchers.append(watcher)
    try:
        yield
    finally:
        watchers.remove(watcher)


def _go_home() -> None:
    if _office.owner == os.getpid():
        with suppress(Exception):
            _office.close()


atexit.register(_go_home)
