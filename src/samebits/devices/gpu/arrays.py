"""Arrays on a device: a buffer, where they begin in it, and their shape."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array


class Memory(Protocol):
    """What a back end does with buffers (cuda.py, opencl.py); places are in bytes."""

    def write(self, buffer: Any, start: int, content: Array) -> None: ...
    def read(self, buffer: Any, start: int, into: Array) -> None: ...


class DeviceArray:
    """C-contiguous. Looks like a NumPy array as far as the engine looks: shape, dtype, slices along the first axis."""

    def __init__(self, memory: Memory, buffer: Any, start: int, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.memory, self.buffer, self.start, self.shape = memory, buffer, start, shape  # start: in elements
        self.dtype = np.dtype(dtype)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def fingerprint(self) -> Hashable:
        """Equal for arrays of one shape and dtype in the same memory, as long as the buffer is kept alive."""
        return DeviceArray, id(self.buffer), self.start, self.shape, self.dtype

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, *shape: Any) -> DeviceArray:
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        known = math.prod(length for length in wanted if length >= 0)
        full = tuple(self.size // known if length < 0 else length for length in wanted)
        if math.prod(full) != self.size:
            raise ValueError(f"cannot reshape {self.shape} to {wanted}")
        return DeviceArray(self.memory, self.buffer, self.start, full, self.dtype)

    def __getitem__(self, which: Any) -> DeviceArray:
        row = math.prod(self.shape[1:])
        if isinstance(which, slice):
            first, last, step = which.indices(self.shape[0])
            if step != 1:
                raise IndexError("an array on a device is cut into runs")
            shape: tuple[int, ...] = (max(0, last - first), *self.shape[1:])
        else:
            first, shape = int(which), self.shape[1:]
        return DeviceArray(self.memory, self.buffer, self.start + first * row, shape, self.dtype)

    def __setitem__(self, which: slice, content: Any) -> None:
        part = self[which]
        host = np.ascontiguousarray(np.broadcast_to(np.asarray(content, self.dtype), part.shape))
        part.memory.write(part.buffer, part.start * part.itemsize, host)

    def to_host(self) -> Array:
        found = np.empty(self.shape, self.dtype)
        self.memory.read(self.buffer, self.start * self.itemsize, found)
        return found


class Packed(Mapping[str, DeviceArray]):
    """Flat arrays in one memory, by name. They are made when they are asked for: a replay asks for none."""

    def __init__(self, memory: DeviceArray, names: Sequence[str], starts: Sequence[int], sizes: Sequence[int]) -> None:
        self.memory = memory
        self._places = dict(zip(names, zip(starts, sizes, strict=True), strict=True))

    def __getitem__(self, name: str) -> DeviceArray:
        start, size = self._places[name]
        return self.memory[start : start + size]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def fingerprint(self) -> Hashable:
        """Equal where memory, names, starts and sizes are."""
        return Packed, self.memory.fingerprint, tuple(self._places.items())
