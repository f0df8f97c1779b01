"""Working memory that is kept and grown over a run: fresh pages every step cost more than the arithmetic.

Every owner has a namespace of its own, so that two of them can never meet under one name unseen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array, aligned

MOST_VIEWS = 256  # a family whose shapes change all the time must not fill the memory with them


class Scratch:
    """The buffers of one owner. Their contents are whatever the last user left."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._buffers: dict[str, Array] = {}
        self._views: dict[Any, Array] = {}  # of the buffers, as they were asked for: the same every step

    def buffer(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        key = name, shape, dtype
        found = self._views.get(key)
        if found is None:
            size = math.prod(shape) * np.dtype(dtype).itemsize
            memory = self._buffers.get(name)
            if memory is None or memory.size < size:
                memory = self._buffers[name] = aligned(size, np.uint8)
                self._views.clear()
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            found = self._views[key] = memory[:size].view(dtype).reshape(shape)
        return found

    def per_worker(self, name: str, size: int, dtype: DTypeLike) -> Array:
        """One row a worker."""
        return self.buffer(name, (self._workers, size), dtype)
