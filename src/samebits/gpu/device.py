"""A GPU as a device (engine/device.py): memory, kernels that are posted, the tree and the optimiser."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from samebits.config import TrainConfig
from samebits.engine.arrays import Array
from samebits.engine.merge import Node, row_of, waiting_rows
from samebits.engine.optim import StepInfo, hyper_of
from samebits.engine.shares import tree_nodes
from samebits.gpu import dialect
from samebits.gpu.arrays import DeviceArray

THREADS = 256
SUMS, SLICE = 32, 1024
LANES = "gpu/lanes.cl"
TREE, OPTIM = ("gpu/tree.cl",), (LANES, "gpu/optim.cl")
REAL = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


class Gpu:
    """Implements engine/device.py over a back end (cuda.py, opencl.py)."""

    kind = "gpu"
    waits_to_be_seen = True

    def __init__(self, backend: Any) -> None:
        self.backend, self.warps = backend, backend.warps
        self._programs: dict[Any, Mapping[str, Any]] = {}
        self._scratch: dict[str, Scratch] = {}

    def program(self, files: tuple[str, ...], **defines: Any) -> Mapping[str, Any]:
        """The kernels in these files, compiled once for these words."""
        key = files, tuple(sorted(defines.items()))
        if key not in self._programs:
            self._programs[key] = self.backend.compile(dialect.read(*files), defines)
        return self._programs[key]

    def post(self, kernel: Any, groups: int | tuple[int, int], threads: int, *args: Any) -> None:
        function, known = kernel
        grid = groups if isinstance(groups, tuple) else (groups, 1)
        self.backend.launch(function, known, grid, threads, args)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        shape = (shape,) if isinstance(shape, int) else shape
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return DeviceArray(self.backend, self.backend.allocate(size), 0, shape, dtype)

    def vector(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        found = self.empty(shape, dtype)
        self.clear(found)
        return found

    def clear(self, array: DeviceArray) -> None:
        self.backend.zero(array.buffer, array.start * array.itemsize, array.nbytes)

    def upload(self, host: Array) -> DeviceArray:
        found = self.empty(host.shape, host.dtype)
        found[:] = host
        return found

    def download(self, vector: DeviceArray) -> Array:
        return vector.to_host()

    def scratch(self, owner: str) -> Scratch:
        return self._scratch.setdefault(owner, Scratch(self))

    def tree_sum(self, width: int, most_units: int, dtype: DTypeLike, partial: Any = None) -> GpuSum:
        return GpuSum(self, width, most_units, dtype)

    def optimiser(self, params: DeviceArray) -> GpuAdamW:
        return GpuAdamW(self, params)

    def join(self) -> None:
        self.backend.finish()


class Scratch:
    """Working memory under names; grown, never shrunk."""

    def __init__(self, device: Gpu) -> None:
        self._device = device
        self._kept: dict[str, DeviceArray] = {}

    def buffer(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        """Kept and grown under this name; its contents are whatever the last user left."""
        size, kept = int(np.prod(shape)), self._kept.get(name)
        if kept is None or kept.size < size or kept.dtype != np.dtype(dtype):
            kept = self._kept[name] = self._device.vector(max(1, size), dtype)
        return kept[:size].reshape(shape)

    def constant(self, name: str, content: Array) -> DeviceArray:
        """The host's array on the device, sent when it is another one than last time."""
        kept = self._kept.get(name)
        if kept is None or getattr(kept, "host", None) is not content:
            kept = self._kept[name] = self._device.upload(np.ascontiguousarray(content))
            kept.host = content  # type: ignore[attr-defined]
        return kept


class GpuSum:
    """Rows summed by the fixed tree: engine/merge.py's TreeSum."""

    def __init__(self, device: Gpu, width: int, most_units: int, dtype: DTypeLike) -> None:
        self._device, self._width, self._levels = device, width, most_units.bit_length()
        self._kernels = device.program(TREE, REAL=REAL[np.dtype(dtype)])
        self.partial = device.vector((waiting_rows(most_units), width), dtype)
        self.root = device.vector(width, dtype)
        self.begin = self.end = 0

    def start(self, first: int = 0) -> None:
        self.begin = self.end = first

    def push(self, rows: DeviceArray, folded: int = 0) -> None:
        assert folded == 0
        self._fold(rows, len(rows), len(rows), -1)

    def take(self, node: Node) -> None:
        if node.units[0] != self.end:
            raise ValueError(f"the node begins at unit {node.units[0]}; this sum ends at {self.end}")
        self._fold(node.row.reshape(1, -1), 1, 1 << node.level, node.level)

    def _fold(self, rows: Any, count: int, units: int, level: int) -> None:
        if self.end + units >= 1 << self._levels:
            raise ValueError(f"{self.end + units} units; this sum was made for fewer")
        self._device.post(
            self._kernels["fold"], -(-self._width // THREADS), THREADS, self.partial, rows, self._levels, self._width,
            self.begin, self.end, count, level,
        )  # fmt: skip
        self.end += units

    def nodes(self) -> list[Node]:
        return [
            Node(level, place, self.partial[row_of(level, place, self._levels)])  # type: ignore[arg-type]
            for level, place in tree_nodes(self.begin, self.end)
        ]

    def finish(self) -> DeviceArray:
        count = self.end
        if self.begin:
            raise ValueError(f"this sum begins at unit {self.begin}; only one that begins at 0 has a root")
        self.start()
        groups = -(-self._width // THREADS)
        self._device.post(self._kernels["root"], groups, THREADS, self.root, self.partial, self._width, count)
        return self.root


class GpuAdamW:
    """engine/optim.py's AdamW. Numbers that are not finite stop all later updates; `outcome` tells the step."""

    def __init__(self, device: Gpu, params: DeviceArray) -> None:
        self._device, self.params = device, params
        self._kernels = device.program(OPTIM)
        self._slices = -(-params.size // SLICE)
        self.first, self.second = device.vector(params.shape, np.float32), device.vector(params.shape, np.float32)
        self._norms = device.vector((self._slices, 2), np.float64)
        self._hyper, self._outcome = device.vector(11, np.float32), device.vector(5, np.float64)

    def step(self, config: TrainConfig, gradient: DeviceArray, count: float, step: int, lr: float) -> None:
        self._hyper[:] = np.array(hyper_of(config, count, step, lr), np.float32)
        self._outcome[2:3] = config.clip_norm
        self._outcome[4:5] = step + 1
        size, post = self.params.size, self._device.post
        post(self._kernels["clip"], self._slices, SUMS, gradient, self._norms, self._hyper, size)
        post(self._kernels["norms"], 1, THREADS, self._norms, self._outcome, self._slices)
        post(
            self._kernels["adamw"], -(-size // THREADS), THREADS, self.params, self.first, self.second, gradient,
            self._hyper, self._outcome, size,
        )  # fmt: skip

    def outcome(self) -> StepInfo:
        raw, _, _, bad, _ = self._outcome.to_host().tolist()
        return StepInfo(math.sqrt(raw) if raw >= 0 else math.nan, not bad)
