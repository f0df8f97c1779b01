"""How long each kernel takes by the device's own clock, for `samebits profile`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

FILLER = 256 << 20  # bytes that are cleared again and again: tens of microseconds each time
FIRST, LAUNCHES = 16, 2  # times, and once more for so many launches

Times = list[tuple[str, float]]  # kernels in the order they ran, milliseconds


class CudaClock:
    """Events between launches. A GPU that is faster than Python would wait for each launch, and the wait be timed: so
    it has something else to do until all of them are in the stream."""

    def __init__(self, cupy: Any, stream: Any) -> None:
        self._cupy, self._stream, self._times = cupy, stream, Times()
        self._filler = cupy.cuda.alloc(FILLER)

    def run(self, launches: Sequence[tuple[str, Callable[[], None]]]) -> None:
        for _ in range(FIRST + len(launches) // LAUNCHES):
            self._cupy.cuda.runtime.memsetAsync(self._filler.ptr, 0, FILLER, self._stream.ptr)
        marks = [self._mark()]
        for _, launch in launches:
            launch()
            marks.append(self._mark())
        self._stream.synchronize()
        spent = [self._cupy.cuda.get_elapsed_time(a, b) for a, b in pairwise(marks)]
        self._times += [(name, float(ms)) for (name, _), ms in zip(launches, spent, strict=True)]

    def _mark(self) -> Any:
        found = self._cupy.cuda.Event()
        found.record(self._stream)
        return found

    def take(self) -> Times:
        """What was timed since the last call."""
        found, self._times = self._times, []
        return found


class OpenCLClock:
    """Events of a queue that keeps their times."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Any]] = []

    def add(self, name: str, event: Any) -> None:
        self._events.append((name, event))

    def take(self) -> Times:
        """What was timed since the last call."""
        found, self._events = self._events, []
        for _, event in found:
            event.wait()
        return [(name, 1e-6 * (event.profile.end - event.profile.start)) for name, event in found]
