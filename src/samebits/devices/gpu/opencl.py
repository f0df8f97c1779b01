"""OpenCL by way of PyOpenCL: any GPU, and PoCL, which is a CPU that behaves like one."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.gpu.arrays import DeviceArray
from samebits.devices.gpu.clock import OpenCLClock
from samebits.devices.gpu.dialect import Parameter, for_opencl, packed
from samebits.errors import SamebitsError

OPTIONS = ("-cl-denorms-are-zero", "-cl-fp32-correctly-rounded-divide-sqrt")


def package() -> Any:
    try:
        import pyopencl
    except ImportError:
        raise SamebitsError("OpenCL devices need PyOpenCL; install the extra: pip install 'samebits[opencl]'") from None
    return pyopencl


def devices() -> list[Any]:
    """All of them, platform by platform."""
    cl = package()
    try:
        return [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error:
        return []


def there() -> list[Any]:
    """The same; without PyOpenCL none."""
    try:
        return devices()
    except SamebitsError:
        return []


def is_gpu(device: Any) -> bool:
    return bool(device.type & package().device_type.GPU)


class Launch(NamedTuple):
    kernel: Any
    args: tuple[Any, ...]
    all_threads: tuple[int, int]
    threads: tuple[int, int]


class OpenCL:
    """One device: buffers, programs, and a queue that runs them in order."""

    def __init__(self, device: Any) -> None:
        self._cl = package()
        self.device = device
        self.threads, self.across = 64, False  # of a large group; whether those of a warp look at each other
        self.room, self.busy = int(device.local_mem_size), int(device.max_compute_units)  # bytes; groups at once
        self.context = self._cl.Context([device])
        self.queue = self._cl.CommandQueue(self.context)
        self._bytes = 0
        self._clock: OpenCLClock | None = None
        self._buffer = type("Buffer", (self._cl.Buffer,), {})  # one whose end can be noticed

    @property
    def name(self) -> str:
        return str(self.device.name).strip()

    def allocate(self, size: int) -> Any:
        found = self._buffer(self.context, self._cl.mem_flags.READ_WRITE, max(4, size))
        self._bytes += found.size
        weakref.finalize(found, self._given_back, found.size)
        return found

    def _given_back(self, size: int) -> None:
        self._bytes -= size

    def held(self) -> int:
        """Bytes that our buffers have."""
        return self._bytes

    def start_clock(self) -> OpenCLClock:
        """From now on kernels are timed."""
        self.finish()
        self.queue = self._cl.CommandQueue(self.context, properties=self._cl.command_queue_properties.PROFILING_ENABLE)
        self._clock = OpenCLClock()
        return self._clock

    def write(self, buffer: Any, start: int, content: Array) -> None:
        if content.nbytes:
            self._cl.enqueue_copy(self.queue, buffer, content, dst_offset=start, is_blocking=True)

    def read(self, buffer: Any, start: int, into: Array) -> None:
        if into.nbytes:
            self._cl.enqueue_copy(self.queue, into, buffer, src_offset=start, is_blocking=True)

    def zero(self, buffer: Any, start: int, size: int) -> None:
        if size:
            self._cl.enqueue_fill_buffer(self.queue, buffer, np.uint8(0), start, size)

    def compile(self, text: str, defines: Mapping[str, Any]) -> dict[str, tuple[Any, tuple[Parameter, ...]]]:
        source = for_opencl(text, defines, is_gpu(self.device))
        with warnings.catch_warnings():  # whatever a compiler has to say beside errors
            warnings.simplefilter("ignore", self._cl.CompilerWarning)
            program = self._cl.Program(self.context, source.text).build(list(OPTIONS))
        return {name: (self._cl.Kernel(program, name), known) for name, known in source.kernels.items()}

    def prepare(
        self, kernel: Any, known: Sequence[Parameter], grid: tuple[int, int], threads: int, args: Sequence[Any],
        shared: int, aside: bool,
    ) -> Launch:  # fmt: skip
        given: list[Any] = []
        starts: list[Any] = []
        for parameter, value in zip(known, args, strict=True):
            if isinstance(value, DeviceArray):
                given.append(value.buffer)
                starts.append(np.int64(value.start))
            elif parameter.record is not None:
                given.append(packed(parameter, value))
            else:
                given.append(np.dtype(parameter.kind).type(value))
        room = [self._cl.LocalMemory(shared)] if shared else []
        return Launch(kernel, (*given, *starts, *room), (grid[0] * threads, grid[1]), (threads, 1))

    def bundle(self, launches: Sequence[Launch]) -> Sequence[Launch]:
        return launches

    def run(self, bundle: Sequence[Launch], again: bool) -> None:
        for kernel, args, all_threads, threads in bundle:
            kernel.set_args(*args)
            done = self._cl.enqueue_nd_range_kernel(self.queue, kernel, all_threads, threads)
            if self._clock:
                self._clock.add(kernel.function_name, done)

    def finish(self) -> None:
        self.queue.finish()
