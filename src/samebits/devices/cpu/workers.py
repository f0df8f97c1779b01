"""The CPU as a device: a pool of threads whose arithmetic is ours (modes.py), and their working memory (scratch.py)."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import TracebackType
from typing import Self

from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array, aligned
from samebits.devices.cpu.modes import flush_denormals, flushing, require_nearest
from samebits.devices.cpu.optimizer import AdamW
from samebits.devices.cpu.pool import Pool, worker_count
from samebits.devices.cpu.scratch import Scratch
from samebits.devices.cpu.tree import TreeSum
from samebits.errors import SamebitsError


class Workers(Pool):
    """What `--workers` asks for. Implements devices/interface.py: vectors are NumPy arrays."""

    kind = "cpu"
    waits_to_be_seen = False
    slot_memory = 0
    shares_memory = True
    name = "the CPU"
    lacks: tuple[str, ...] = ()

    def __init__(self, asked: str | int = "auto", share_little: bool = False) -> None:
        super().__init__(worker_count(asked), flush_denormals, share_little)
        self._scratch: dict[str, Scratch] = {}
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        require_nearest()
        with ExitStack() as entered:
            entered.enter_context(flushing())
            super().__enter__()
            entered.push(super().__exit__)
            self._entered = entered.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)

    @property
    def workers(self) -> Self:
        return self

    def scratch(self, owner: str) -> Scratch:
        """Working memory under names of the owner's own."""
        found = self._scratch.get(owner)
        if found is None:
            found = self._scratch[owner] = Scratch(self.count)
        return found

    def vector(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
        return aligned(shape, dtype)

    def upload(self, host: Array) -> Array:
        return host

    def download(self, vector: Array) -> Array:
        return vector

    def tree_sum(self, width: int, most_units: int, dtype: DTypeLike, partial: Array | None = None) -> TreeSum:
        return TreeSum(self, width, most_units, dtype, partial)

    def optimiser(self, params: Array) -> AdamW:
        return AdamW(self, params)

    def forget(self) -> None:
        self._scratch.clear()

    def problem(self, error: Exception) -> SamebitsError | None:
        return None


def workers_for(asked: str | int | Workers) -> AbstractContextManager[Workers]:
    """Workers for one call: new ones from a count, or the caller's own, left running."""
    return nullcontext(asked) if isinstance(asked, Workers) else Workers(asked)
