"""NVIDIA GPUs by way of CuPy: kernels compiled by NVRTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.gpu.arrays import DeviceArray
from samebits.devices.gpu.clock import CudaClock
from samebits.devices.gpu.dialect import Parameter, for_cuda, packed
from samebits.errors import SamebitsError

TYPES: dict[str, Any] = {name: np.dtype(name).type for name in ("int32", "int64", "float32", "float64")}
OPTIONS = ("--fmad=false", "-ftz=true", "-prec-div=true", "-prec-sqrt=true")


def package() -> Any:
    try:
        import cupy
    except ImportError:
        raise SamebitsError("NVIDIA GPUs need CuPy; install the extra: pip install 'samebits[cuda]'") from None
    return cupy


def count() -> int:
    """How many devices there are; without CuPy or a driver none."""
    return found()[0]


def found() -> tuple[int, str]:
    """How many devices there are; and if there is none, what CUDA says."""
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount()), ""
    except ImportError:
        return 0, ""
    except RuntimeError as error:  # CUDA's errors are RuntimeErrors: no driver, no device
        return 0, str(error)


SMALL_ROOM = 48 << 10  # bytes that a group may use without asking
GRAPHS = 64  # kept: a step of every shape that comes again


class Launch(NamedTuple):
    kernel: Any
    grid: tuple[int, int]
    threads: int
    args: tuple[Any, ...]
    shared: int
    arrays: tuple[DeviceArray, ...]  # whose memory must stay
    written: frozenset[int]  # addresses of buffers
    aside: bool

    @property
    def used(self) -> frozenset[int]:
        return frozenset(array.buffer.ptr for array in self.arrays)


class Bundle(NamedTuple):
    launches: Sequence[Launch]
    used: frozenset[int]  # addresses of buffers


class Cuda:
    """One device: memory, modules, and a stream that runs what is launched in order.

    Launches are put on a tape first. When somebody wants to see a result, or to write to memory that the tape uses, it
    is run; what comes again, as one CUDA graph, which costs a tenth of the launches.
    """

    def __init__(self, number: int = 0) -> None:
        self._cupy = package()
        self._device = self._cupy.cuda.Device(number)
        said = self._device.attributes
        self.threads, self.across = 512, True  # of a large group; whether those of a warp look at each other
        self.room, self.busy = int(said["MaxSharedMemoryPerBlockOptin"]), int(said["MultiProcessorCount"])
        self._tape: list[tuple[bool, Bundle]] = []
        self._graphs: dict[tuple[int, ...], tuple[Any, list[Bundle]]] = {}
        self._clock: CudaClock | None = None
        with self._device:
            self.stream, self._beside = (self._cupy.cuda.Stream(non_blocking=True) for _ in range(2))

    @property
    def name(self) -> str:
        found = self._cupy.cuda.runtime.getDeviceProperties(self._device.id)["name"]
        return str(found.decode())

    def allocate(self, size: int) -> Any:
        with self._device:
            return self._cupy.cuda.alloc(max(4, size))

    def held(self) -> int:
        """Bytes that our buffers have, and those that were given back and wait to be used again: CuPy's pool."""
        return int(self._cupy.get_default_memory_pool().total_bytes())

    def start_clock(self) -> CudaClock:
        """From now on kernels run one by one, and are timed."""
        self.run_tape()
        with self._device:
            self._clock = CudaClock(self._cupy, self.stream)
        return self._clock

    def write(self, buffer: Any, start: int, content: Array) -> None:
        if content.nbytes:
            self._before_change(buffer)
            self._copy(buffer.ptr + start, content.ctypes.data, content.nbytes, 1)

    def read(self, buffer: Any, start: int, into: Array) -> None:
        if into.nbytes:
            self.run_tape()
            self._copy(into.ctypes.data, buffer.ptr + start, into.nbytes, 2)
            self.stream.synchronize()

    def _copy(self, target: int, source: int, size: int, kind: int) -> None:
        self._cupy.cuda.runtime.memcpyAsync(target, source, size, kind, self.stream.ptr)

    def zero(self, buffer: Any, start: int, size: int) -> None:
        self._before_change(buffer)
        self._cupy.cuda.runtime.memsetAsync(buffer.ptr + start, 0, size, self.stream.ptr)

    def _before_change(self, buffer: Any) -> None:
        if any(buffer.ptr in bundle.used for _, bundle in self._tape):
            self.run_tape()

    def compile(self, text: str, defines: Mapping[str, Any]) -> dict[str, tuple[Any, tuple[Parameter, ...]]]:
        source = for_cuda(text, defines)
        with self._device:
            module = self._cupy.RawModule(code=source.text, options=OPTIONS)
            return {name: (module.get_function(name), known) for name, known in source.kernels.items()}

    def prepare(
        self, kernel: Any, known: Sequence[Parameter], grid: tuple[int, int], threads: int, args: Sequence[Any],
        shared: int, aside: bool,
    ) -> Launch:  # fmt: skip
        if shared > SMALL_ROOM and kernel.max_dynamic_shared_size_bytes < shared:
            kernel.max_dynamic_shared_size_bytes = shared
        given = tuple(
            np.uint64(value.buffer.ptr + value.start * value.itemsize)
            if isinstance(value, DeviceArray)
            else packed(parameter, value)
            if parameter.record is not None
            else TYPES[parameter.kind](value)
            for parameter, value in zip(known, args, strict=True)
        )
        arrays = tuple(value for value in args if isinstance(value, DeviceArray))
        written = {value.buffer.ptr for parameter, value in zip(known, args, strict=True) if parameter.is_written}
        return Launch(kernel, grid, threads, given, shared, arrays, frozenset(written), aside)

    def bundle(self, launches: Sequence[Launch]) -> Bundle:
        return Bundle(launches, frozenset(address for launch in launches for address in launch.used))

    def run(self, bundle: Bundle, again: bool) -> None:
        """Put it on the tape; `again`: the very same one comes more than once."""
        self._tape.append((again, bundle))

    def run_tape(self) -> None:
        """All that was launched so far: on the stream when this returns."""
        tape, self._tape = self._tape, []
        with self._device, self.stream:
            for again, some in groupby(tape, key=lambda entry: entry[0]):
                bundles = [bundle for _, bundle in some]
                if self._clock:
                    self._clock.run(
                        [(one.kernel.name, partial(self._start, one)) for b in bundles for one in b.launches]
                    )
                elif again:
                    self._graph_of(bundles).launch(self.stream)
                else:
                    self._launch(bundles)

    def _launch(self, bundles: Sequence[Bundle]) -> None:
        """In order; but what is aside goes to a stream of its own, and others wait for it if they meet in memory."""
        running: list[tuple[Any, Launch]] = []
        for one in (launch for bundle in bundles for launch in bundle.launches):
            meets = [
                place for place, (_, other) in enumerate(running)
                if one.written & other.used or one.used & other.written
            ]  # fmt: skip
            if one.aside:
                self._beside.wait_event(self.stream.record(self._event()))
                with self._beside:
                    self._start(one)
                running.append((self._beside.record(self._event()), one))
                continue
            if meets:
                self.stream.wait_event(running[meets[-1]][0])
                running = running[meets[-1] + 1 :]
            self._start(one)
        if running:
            self.stream.wait_event(running[-1][0])

    def _event(self) -> Any:
        return self._cupy.cuda.Event(disable_timing=True)

    def _start(self, one: Launch) -> None:
        one.kernel(one.grid, (one.threads,), one.args, shared_mem=one.shared)

    def _graph_of(self, bundles: list[Bundle]) -> Any:
        key = tuple(map(id, bundles))  # the cache keeps them alive
        if key not in self._graphs:
            self.stream.begin_capture()
            self._launch(bundles)
            if len(self._graphs) >= GRAPHS:
                self._graphs.pop(next(iter(self._graphs)))
            self._graphs[key] = self.stream.end_capture(), bundles
        return self._graphs[key][0]

    def finish(self) -> None:
        self.run_tape()
