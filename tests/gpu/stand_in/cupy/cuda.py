"""Devices, memory, streams, events and graphs."""

from __future__ import annotations

import ctypes
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

FENCE = 256  # bytes on either side of what is allocated
MARK = 0xA5


class Error(RuntimeError):
    """What goes wrong in CUDA."""


class OutOfMemoryError(MemoryError):
    """What CuPy's pool says."""


Error.__name__, Error.__module__ = "CUDARuntimeError", "cupy_backends.cuda.api.runtime"
OutOfMemoryError.__module__ = "cupy.cuda.memory"


@dataclass
class Choice:
    """What a GPU does in an order of its own."""

    threads: int = 0  # of a group: first to last, last to first, drawn anew all the time
    eager: bool = False  # a second stream runs as soon as it can, not as late as it may
    room: int = 227 << 10  # bytes of a group
    busy: int = 132  # processors


CHOICE = Choice()


class Device:
    id = 0

    def __init__(self, number: int) -> None:
        assert number == 0

    @property
    def room(self) -> int:
        return CHOICE.room

    @property
    def attributes(self) -> dict[str, int]:
        return {"MaxSharedMemoryPerBlockOptin": CHOICE.room, "MultiProcessorCount": CHOICE.busy}

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Pool:
    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}
        self.dead: list[int] = []  # given back; what was launched may still use them

    def total_bytes(self) -> int:
        return sum(block.size - 2 * FENCE for block in self.blocks.values())

    def sweep(self) -> None:
        """Look at all fences; forget what nobody uses."""
        for block in self.blocks.values():
            if not ((block[:FENCE] == MARK).all() and (block[-FENCE:] == MARK).all()):
                block[:FENCE] = block[-FENCE:] = MARK  # said once
                raise Error("a kernel wrote outside its memory")
        while self.dead:
            del self.blocks[self.dead.pop()]


POOL = Pool()


class MemoryPointer:
    def __init__(self, size: int) -> None:
        block = np.full(-(-size // 16) * 16 + 2 * FENCE, 0xFF, np.uint8)
        block[:FENCE] = block[FENCE + size :] = MARK
        self.ptr = block.ctypes.data + FENCE
        POOL.blocks[self.ptr] = block
        weakref.finalize(self, POOL.dead.append, self.ptr)


def alloc(size: int) -> MemoryPointer:
    return MemoryPointer(size)


@dataclass
class Moment:
    """A point in a stream that an event has recorded."""

    stream: Stream
    passed: bool = False
    at: float = 0.0


class Event:
    def __init__(self, disable_timing: bool = False) -> None:
        self.moment: Moment | None = None

    def record(self, stream: Stream) -> None:
        stream.record(self)


def get_elapsed_time(start: Event, end: Event) -> float:
    assert start.moment
    assert end.moment
    return 1e3 * (end.moment.at - start.moment.at)


@dataclass
class Entry:
    do: Callable[[], None] | None = None
    passes: Moment | None = None  # recorded here
    needs: Moment | None = None  # waited for here


STREAMS: dict[int, Stream] = {}
ENTERED: list[Stream] = []
CAPTURES: list[tuple[Stream, list[tuple[Stream, Entry]]]] = []


def current() -> Stream:
    return ENTERED[-1]


def forget() -> None:
    """All that still waits: its device is gone."""
    for stream in STREAMS.values():
        stream.waiting.clear()


@dataclass(eq=False)
class Stream:
    non_blocking: bool = False
    waiting: deque[Entry] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.ptr = id(self)
        STREAMS[self.ptr] = self

    def __enter__(self) -> Stream:
        ENTERED.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        ENTERED.pop()

    def add(self, do: Callable[[], None]) -> None:
        self._put(Entry(do=do))

    def record(self, event: Event) -> Event:
        event.moment = Moment(self)
        self._put(Entry(passes=event.moment))
        return event

    def wait_event(self, event: Event) -> None:
        assert event.moment
        self._put(Entry(needs=event.moment))

    def _put(self, entry: Entry) -> None:
        if CAPTURES:
            CAPTURES[-1][1].append((self, entry))
        else:
            self.waiting.append(entry)

    def begin_capture(self) -> None:
        CAPTURES.append((self, []))

    def end_capture(self) -> Graph:
        first, entries = CAPTURES.pop()
        assert first is self
        return Graph(self, entries)

    def synchronize(self) -> None:
        if CAPTURES:
            raise Error("cudaErrorStreamCaptureUnsupported: synchronize")
        try:
            run(list(STREAMS.values()), self)
        except Error:
            forget()
            raise
        if not any(stream.waiting for stream in STREAMS.values()):
            POOL.sweep()


def run(streams: list[Stream], wanted: Stream, until: Moment | None = None) -> None:
    """What waits in a stream, all of it or up to a moment, and what that needs of others."""
    while wanted.waiting and not (until and until.passed):
        if CHOICE.eager:
            for stream in streams:
                while stream is not wanted and stream.waiting and _can_go(stream.waiting[0]):
                    _go(stream.waiting.popleft())
        entry = wanted.waiting[0]
        if not _can_go(entry):
            assert entry.needs
            run(streams, entry.needs.stream, entry.needs)
        _go(wanted.waiting.popleft())


def _can_go(entry: Entry) -> bool:
    return entry.needs is None or entry.needs.passed


def _go(entry: Entry) -> None:
    if entry.do:
        entry.do()
    if entry.passes:
        entry.passes.passed, entry.passes.at = True, time.perf_counter()


class Graph:
    """What was captured: branches that may run side by side, and must have come together at the end."""

    def __init__(self, first: Stream, entries: list[tuple[Stream, Entry]]) -> None:
        self.first, self.entries = first, entries
        for stream in {stream for stream, _ in entries} - {first}:
            last = max(place for place, (other, _) in enumerate(entries) if other is stream)
            if not any(one is first and entry.needs is entries[last][1].passes for one, entry in entries[last + 1 :]):
                raise Error("cudaErrorStreamCaptureUnjoined")

    def launch(self, stream: Stream) -> None:
        stream.add(self._run)

    def _run(self) -> None:
        own = {stream: Stream() for stream in {self.first, *(stream for stream, _ in self.entries)}}
        moments: dict[int, Moment] = {}
        for stream, entry in self.entries:
            if entry.passes:
                moments[id(entry.passes)] = Moment(own[stream])
            passes = moments[id(entry.passes)] if entry.passes else None
            needs = moments[id(entry.needs)] if entry.needs else None
            own[stream].waiting.append(Entry(entry.do, passes, needs))
        run(list(own.values()), own[self.first])
        for stream in own.values():
            assert not stream.waiting
            del STREAMS[stream.ptr]


def memcpy_async(target: int, source: int, size: int, kind: int, stream: int) -> None:
    if CAPTURES:
        raise Error("cudaErrorStreamCaptureUnsupported: a copy")
    if kind == 1:  # from the host's memory, which the caller may use again at once
        content = ctypes.string_at(source, size)
        STREAMS[stream].add(lambda: ctypes.memmove(target, content, size) and None)
    else:
        STREAMS[stream].add(lambda: ctypes.memmove(target, source, size) and None)


def memset_async(target: int, value: int, size: int, stream: int) -> None:
    STREAMS[stream].add(lambda: ctypes.memset(target, value, size) and None)


runtime = SimpleNamespace(
    getDeviceCount=lambda: 1,
    getDeviceProperties=lambda number: {"name": b"a CPU that plays an NVIDIA GPU"},
    memcpyAsync=memcpy_async,
    memsetAsync=memset_async,
)
