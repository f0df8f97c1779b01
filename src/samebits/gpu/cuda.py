"""NVIDIA GPUs by way of CuPy: kernels compiled by NVRTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from samebits.engine.arrays import Array
from samebits.errors import SamebitsError
from samebits.gpu.arrays import DeviceArray
from samebits.gpu.dialect import Parameter, for_cuda

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


class Cuda:
    """One device: memory, modules, and a stream that runs kernels in order."""

    def __init__(self, number: int = 0) -> None:
        self._cupy = package()
        self._device = self._cupy.cuda.Device(number)
        self.warps = 16
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
            self._copy(buffer.ptr + start, content.ctypes.data, content.nbytes, 1)

    def read(self, buffer: Any, start: int, into: Array) -> None:
        if into.nbytes:
            self._copy(into.ctypes.data, buffer.ptr + start, into.nbytes, 2)
            self.finish()

    def _copy(self, target: int, source: int, size: int, kind: int) -> None:
        self._cupy.cuda.runtime.memcpyAsync(target, source, size, kind, self.stream.ptr)

    def zero(self, buffer: Any, start: int, size: int) -> None:
        self._cupy.cuda.runtime.memsetAsync(buffer.ptr + start, 0, size, self.stream.ptr)

    def compile(self, text: str, defines: Mapping[str, Any]) -> dict[str, tuple[Any, tuple[Parameter, ...]]]:
        source = for_cuda(text, defines)
        with self._device:
            module = self._cupy.RawModule(code=source.text, options=OPTIONS)
            return {name: (module.get_function(name), known) for name, known in source.kernels.items()}

    def launch(
        self, kernel: Any, known: Sequence[Parameter], grid: tuple[int, int], threads: int, args: Sequence[Any]
    ) -> None:
        given = [
            np.uint64(value.buffer.ptr + value.start * value.itemsize)
            if isinstance(value, DeviceArray)
            else np.dtype(parameter.kind).type(value)
            for parameter, value in zip(known, args, strict=True)
        ]
        with self._device, self.stream:
            kernel(grid, (threads,), tuple(given))

    def finish(self) -> None:
        self.stream.synchronize()
