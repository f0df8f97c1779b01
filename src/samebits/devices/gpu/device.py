"""A GPU as a device (devices/interface.py): memory, kernels that are posted, the tree and the optimiser.

Most steps post what the step before posted. So posts can be recorded (`replay`): when the same function comes again
with equal arguments, the launches are there, and a back end can run them as one. What differs from step to step must
lie in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from itertools import accumulate
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.simd import SUMS
from samebits.arithmetic.tree import tree_nodes
from samebits.config import TrainConfig
from samebits.devices.cpu.optimizer import TINY
from samebits.devices.cpu.tree import SLICE, Node, row_of, waiting_rows
from samebits.devices.gpu import dialect
from samebits.devices.gpu.arrays import DeviceArray, Packed
from samebits.devices.gpu.elementary import real
from samebits.devices.gpu.fingerprints import FINGERPRINTS, fingerprint
from samebits.devices.optimizer import StepInfo, hyper_of

THREADS = 256
LEVELS = 20  # of a sum
LANES = "devices/gpu/lanes.cl"
TREE, OPTIM = ("devices/gpu/tree.cl",), (LANES, "devices/gpu/optim.cl")
OPTIM_WORDS = {"SUMS": SUMS, "SLICE": SLICE, "TINY": real(TINY)}
REAL = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


RECORDINGS, CONSTANTS = 256, 256  # kept: of every shape that comes again


class Recording(NamedTuple):
    moves: int  # of the device's memory, before it was made
    bundle: Any  # of launches
    result: Any
    arguments: tuple[Any, ...]  # kept alive: the key has the addresses of their buffers


class Gpu:
    """Implements devices/interface.py over a back end (cuda.py, opencl.py)."""

    kind = "gpu"
    waits_to_be_seen = True
    slot_memory = 2048  # a wave should keep all of it busy

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.moves = 0  # how often working memory was moved: launches of before point to the old one
        self._programs: dict[Any, Mapping[str, Any]] = {}
        self._scratch: dict[str, Scratch] = {}
        self._recordings: dict[Hashable, Recording] = {}
        self._recorded: list[Any] | None = None  # launches, while a recording is made

    def program(self, files: tuple[dialect.Part, ...], **defines: Any) -> Mapping[str, Any]:
        """The kernels in these files, compiled once for these words."""
        key = files, tuple(sorted(defines.items()))
        if key not in self._programs:
            self._programs[key] = self.backend.compile(dialect.read(*files), defines)
        return self._programs[key]

    def post(
        self, kernel: Any, groups: int | tuple[int, int], threads: int, *args: Any, shared: int = 0,
        aside: bool = False,
    ) -> None:  # fmt: skip
        """Run it over so many groups of so many threads; `shared`: bytes of a group's room. `aside`: nobody needs its
        results soon, so a back end may run it beside what follows."""
        function, known = kernel
        grid = groups if isinstance(groups, tuple) else (groups, 1)
        launch = self.backend.prepare(function, known, grid, threads, args, shared, aside)
        if self._recorded is None:
            self.backend.run(self.backend.bundle([launch]), again=False)
        else:
            self._recorded.append(launch)

    def fold(self, root: DeviceArray, rows: DeviceArray, aside: bool = False) -> None:
        """Post it: root becomes that of the tree over these rows."""
        count, width = rows.shape
        kernel = self.program(TREE, REAL=REAL[rows.dtype], LEVELS=LEVELS)["whole"]
        self.post(kernel, -(-width // THREADS), THREADS, root, rows, width, count, aside=aside)

    def replay(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What function(device, *arguments) returns. When it comes again with equal arguments, and all memory is where
        it was, its posts are launched without the call.

        The key is the function and the fingerprint of every argument (fingerprints.py). So all that the function reads
        must be an argument: one that has variables from outside is refused.
        """
        if type(function) is not FunctionType or function.__closure__ is not None:
            raise TypeError(f"{function} may read more than its arguments; replay takes plain functions")
        key = function, *[FINGERPRINTS[type(argument)](argument) for argument in arguments]
        found = self._recordings.get(key)
        if found is None or found.moves != self.moves:
            self._recorded = []
            try:
                result = function(self, *arguments)
                found = Recording(self.moves, self.backend.bundle(self._recorded), result, arguments)
            finally:
                self._recorded = None
            if len(self._recordings) >= RECORDINGS:
                self._recordings.pop(next(iter(self._recordings)))
            self._recordings[key] = found
        self.backend.run(found.bundle, again=True)
        return found.result

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
        self._capacities: dict[tuple[str, str], int] = {}
        self._constants: dict[Hashable, DeviceArray] = {}

    def buffer(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        """Kept and grown under this name; its contents are whatever the last user left."""
        size, kept = math.prod(shape), self._kept.get(name)
        if kept is None or kept.size < size or kept.dtype != np.dtype(dtype):
            self._device.moves += 1
            kept = self._kept[name] = self._device.vector(max(1, size), dtype)
        return kept[:size].reshape(shape)

    def capacity(self, owner: str, name: str, size: int) -> int:
        """At least so many, and one, and never fewer than before: grown by an eighth or so, so that it soon stays."""
        size = max(1, size)
        if size > self._capacities.get((owner, name), 0):
            grain = max(16, 1 << max(0, size.bit_length() - 4))
            self._capacities[owner, name] = -(-size // grain) * grain
        return self._capacities[owner, name]

    def send(self, name: str, arrays: Mapping[str, Array], dtype: DTypeLike) -> Packed:
        """The host's arrays, flat and in one copy; each begins at a multiple of sixteen bytes."""
        many = 16 // np.dtype(dtype).itemsize
        sizes = [array.size for array in arrays.values()]
        starts = [0, *accumulate(-(-size // many) * many for size in sizes)]
        packed = np.zeros(starts[-1], dtype)
        for array, start, size in zip(arrays.values(), starts, sizes, strict=False):
            packed[start : start + size] = array.reshape(-1)
        there = self.buffer(name, (max(1, starts[-1]),), dtype)[: starts[-1]]
        there[:] = packed
        return Packed(there, list(arrays), starts[:-1], sizes)

    def constant(self, content: Array, dtype: DTypeLike | None = None) -> DeviceArray:
        """The host's array on the device, perhaps as another type. Equal content is sent once; that of a read-only
        array is looked at once, that of any other every time."""
        key = fingerprint(content), np.dtype(dtype or content.dtype)
        if key not in self._constants:
            if len(self._constants) >= CONSTANTS:
                self._device.moves += 1
                self._constants.clear()
            self._constants[key] = self._device.upload(np.ascontiguousarray(content, dtype))
        return self._constants[key]


def post_fold(
    device: Gpu, partial: DeviceArray, rows: DeviceArray, levels: int, begin: int, end: int, count: int, level: int
) -> None:
    """So many rows, each a node of this level, become part of the nodes that wait; units begin … end are in already."""
    width = partial.shape[1]
    kernel = device.program(TREE, REAL=REAL[partial.dtype], LEVELS=LEVELS)["fold"]
    device.post(kernel, -(-width // THREADS), THREADS, partial, rows, levels, width, begin, end, count, level)


def post_root(device: Gpu, root: DeviceArray, partial: DeviceArray, count: int) -> None:
    """The root of the tree over so many units, from the nodes that wait."""
    kernel = device.program(TREE, REAL=REAL[root.dtype], LEVELS=LEVELS)["root"]
    device.post(kernel, -(-root.size // THREADS), THREADS, root, partial, root.size, count)


class GpuSum:
    """TreeSum of devices/cpu/tree.py for a GPU: a row may be a node of a level above the units."""

    def __init__(self, device: Gpu, width: int, most_units: int, dtype: DTypeLike) -> None:
        self._device, self._width, self._levels = device, width, most_units.bit_length()
        if self._levels > LEVELS:
            raise ValueError(f"{most_units} units; a sum on a device has fewer than {1 << LEVELS}")
        self._most, self._dtype = most_units, dtype
        self._partial: DeviceArray | None = None
        self.root = device.vector(width, dtype)
        self.begin = self.end = 0

    @property
    def partial(self) -> DeviceArray:
        """Nodes that wait; a sum that gets all rows at once needs none."""
        if self._partial is None:
            self._partial = self._device.vector((waiting_rows(self._most), self._width), self._dtype)
        return self._partial

    def start(self, first: int = 0) -> None:
        self.begin = self.end = first

    def push(self, rows: DeviceArray, units: int, level: int = 0) -> None:
        self._require_row_a_node(rows, units, level)
        self._fold(rows, len(rows), units, level)

    def whole(self, rows: DeviceArray, units: int, level: int = 0) -> DeviceArray:
        self._require_row_a_node(rows, units, level)
        self._check(units)
        self._device.replay(Gpu.fold, self.root, rows)
        return self.root

    def take(self, node: Node) -> None:
        if node.units[0] != self.end:
            raise ValueError(f"the node begins at unit {node.units[0]}; this sum ends at {self.end}")
        self._fold(node.row.reshape(1, -1), 1, 1 << node.level, node.level)

    def _fold(self, rows: Any, count: int, units: int, level: int) -> None:
        self._check(self.end + units)
        self._device.replay(post_fold, self.partial, rows, self._levels, self.begin, self.end, count, level)
        self.end += units

    def _require_row_a_node(self, rows: DeviceArray, units: int, level: int) -> None:
        if len(rows) << level != units:
            raise ValueError(
                f"{len(rows)} rows of level {level}, {units} units; here every node of the level has a row"
            )

    def _check(self, units: int) -> None:
        if units >= 1 << self._levels:
            raise ValueError(f"{units} units; this sum was made for fewer")

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
        self._device.replay(post_root, self.root, self.partial, count)
        return self.root


def post_adamw(
    device: Gpu, params: DeviceArray, first: DeviceArray, second: DeviceArray, gradient: DeviceArray,
    norms: DeviceArray, hyper: DeviceArray, outcome: DeviceArray,
) -> None:  # fmt: skip
    """A step: the gradient is clipped, its norm taken, and everything updated."""
    kernels, size, slices = device.program(OPTIM, **OPTIM_WORDS), params.size, len(norms)
    device.post(kernels["clip"], slices, SUMS, gradient, norms, hyper, size)
    device.post(kernels["norms"], 1, THREADS, norms, hyper, outcome, slices)
    device.post(kernels["adamw"], -(-size // THREADS), THREADS, params, first, second, gradient, hyper, outcome, size)


class GpuAdamW:
    """AdamW of devices/cpu/optimizer.py for a GPU. Numbers that are not finite stop all later updates."""

    def __init__(self, device: Gpu, params: DeviceArray) -> None:
        self._device, self.params = device, params
        self._slices = -(-params.size // SLICE)
        self.first, self.second = device.vector(params.shape, np.float32), device.vector(params.shape, np.float32)
        self._norms = device.vector((self._slices, 2), np.float64)
        self._hyper, self._outcome = device.vector(13, np.float64), device.vector(3, np.float64)

    def step(self, config: TrainConfig, gradient: DeviceArray, count: float, step: int, lr: float) -> None:
        hyper = np.array(hyper_of(config, count, step, lr), np.float32)
        self._hyper[:] = np.array([*hyper.tolist(), config.clip_norm, step + 1])
        self._device.replay(
            post_adamw, self.params, self.first, self.second, gradient, self._norms, self._hyper, self._outcome
        )

    def outcome(self) -> StepInfo:
        raw, _, bad = self._outcome.to_host().tolist()
        return StepInfo(math.sqrt(raw) if raw >= 0 else math.nan, not bad)
