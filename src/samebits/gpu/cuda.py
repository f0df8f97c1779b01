"""NVIDIA GPUs by way of CuPy: kernels compiled by NVRTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from samebits.engine.arrays import Array
from samebits.errors import SamebitsError
from samebits.gpu.arrays import DeviceArray
from samebits.gpu.dialect import Parameter, for_cuda

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
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())
    except ImportError:
        return 0
    except RuntimeError:  # CUDA's errors are RuntimeErrors: no driver, no device
        return 0


GRAPHS = 64  # kept: a step of every shape that comes again


class Cuda:
    """One device: memory, modules, and a stream that runs what is launched in order.

    Launches are put on a tape first. When somebody wants to see a result, or to write to memory that the tape uses, it
    is run: a tape that has been run before as one CUDA graph, which costs a tenth of the launches.
    """

    def __init__(self, number: int = 0) -> None:
        self._cupy = package()
        self._device = self._cupy.cuda.Device(number)
        self.warps = 32
        self._tape: list[tuple[Any, tuple[int, int], int, tuple[Any, ...]]] = []
        self._used: set[int] = set()  # buffers that the tape uses
        self._graphs: dict[Any, Any] = {}
        with self._device:
            self.stream = self._cupy.cuda.Stream(non_blocking=True)

    @property
    def name(self) -> str:
        found = self._cupy.cuda.runtime.getDeviceProperties(self._device.id)["name"]
        return str(found.decode())

    def allocate(self, size: int) -> Any:
        with self._device:
            return self._cupy.cuda.alloc(max(4, size))

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
        if buffer.ptr in self._used:
            self.run_tape()

    def compile(self, text: str, defines: Mapping[str, Any]) -> dict[str, tuple[Any, tuple[Parameter, ...]]]:
        source = for_cuda(text, defines)
        with self._device:
            module = self._cupy.RawModule(code=source.text, options=OPTIONS)
            return {name: (module.get_function(name), known) for name, known in source.kernels.items()}

    def launch(
        self, kernel: Any, known: Sequence[Parameter], grid: tuple[int, int], threads: int, args: Sequence[Any]
    ) -> None:
        given = []
        for parameter, value in zip(known, args, strict=True):
            if isinstance(value, DeviceArray):
                self._used.add(value.buffer.ptr)
                given.append((np.uint64, value.buffer.ptr + value.start * value.itemsize))
            else:
                given.append((TYPES[parameter.kind], value))
        self._tape.append((kernel, grid, threads, tuple(given)))

    def run_tape(self) -> None:
        """All that was launched so far: on the stream when this returns."""
        if not self._tape:
            return
        tape, self._tape = self._tape, []
        self._used.clear()
        key = tuple((id(kernel), grid, threads, given) for kernel, grid, threads, given in tape)
        with self._device:
            graph = self._graphs.get(key)
            if graph is None:
                with self.stream:
                    self.stream.begin_capture()
                    for kernel, grid, threads, given in tape:
                        kernel(grid, (threads,), tuple(kind(value) for kind, value in given))
                    graph = self.stream.end_capture()
                if len(self._graphs) >= GRAPHS:
                    self._graphs.pop(next(iter(self._graphs)))
                self._graphs[key] = graph
            graph.launch(self.stream)

    def finish(self) -> None:
        self.run_tape()
