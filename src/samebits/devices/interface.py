"""The seam between the engine and what computes. `Workers` is the CPU; another device is another class like it.

The engine reaches vectors, slots, merge, optimiser and kernels through this and nothing else. A family brings kernels
for every kind of device it runs on (`Family.kernels`); its data, config, evaluation and reports know of no device.
Work is posted: it is done, and its results may be looked at, once `join` has returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array
from samebits.config import TrainConfig
from samebits.errors import SamebitsError

if TYPE_CHECKING:
    from samebits.devices.cpu.workers import Workers

Vector = Any  # an array that lives on the device


class Memory(Protocol):
    def buffer(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Vector:
        """Kept and grown under this name; its contents are whatever the last user left."""


class Sum(Protocol):
    """Rows summed by the fixed tree (arithmetic/tree.py).

    `rows` are those of the next `units` units: row i begins at their unit i · units / len(rows), and holds the node of
    `level` that begins there, or a smaller one where that would reach beyond these units.
    """

    def start(self, first: int = 0) -> None: ...
    def push(self, rows: Vector, units: int, level: int = 0) -> None: ...
    def whole(self, rows: Vector, units: int, level: int = 0) -> Vector: ...
    def take(self, node: Any) -> None: ...
    def nodes(self) -> list[Any]: ...
    def finish(self) -> Vector: ...


class Optimiser(Protocol):
    first: Vector
    second: Vector

    def step(self, config: TrainConfig, gradient: Vector, count: float, step: int, lr: float) -> None: ...
    def outcome(self) -> Any: ...


class Device(Protocol):
    waits_to_be_seen: bool  # a look at a result holds it up: the engine looks only when it must
    slot_memory: int  # MB that waves may take even if the config says less
    shares_memory: bool  # its vectors lie where other processes of this machine can read them

    @property
    def lacks(self) -> tuple[str, ...]:
        """What it does not compute as the CPU does; empty where it keeps the promise."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def kind(self) -> str:
        """Which of a family's kernels it runs."""

    @property
    def workers(self) -> Workers:
        """The CPU's, for what a family has no kernels for on this kind of device."""

    def vector(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Vector:
        """Zeros."""

    def upload(self, host: Array) -> Vector: ...
    def download(self, vector: Vector) -> Array: ...
    def scratch(self, owner: str) -> Memory: ...
    def tree_sum(self, width: int, most_units: int, dtype: DTypeLike, partial: Array | None = None) -> Sum: ...
    def optimiser(self, params: Vector) -> Optimiser: ...
    def join(self) -> None: ...
    def forget(self) -> None:
        """Let go of all working memory."""

    def problem(self, error: Exception) -> SamebitsError | None:
        """What an exception means that came out of the device; None for one that did not."""
