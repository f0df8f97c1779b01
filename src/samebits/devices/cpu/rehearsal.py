"""What training will need, found out beforehand: a step is rehearsed on workers that do nothing but remember what was
posted. So all of it can be compiled at once, in several processes, before anything is begun."""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.typing.typeof import Purpose, typeof
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array
from samebits.compiler import compile_workers as aside
from samebits.compiler.kernel_cache import CALLED, ENTERED, KEPT_IN
from samebits.config import TrainConfig
from samebits.devices.cpu import dispatch
from samebits.devices.cpu.tree import TreeSum, root_worker
from samebits.devices.cpu.workers import Workers
from samebits.devices.interface import Device

LOCK = "preparing.lock"
SECONDS = 0.1  # between two looks whether another process is through
PATIENCE = 120.0  # seconds; longer than anybody takes who does get on with it


class Rehearsal(Workers):
    """A worker that is told what to do, and does not."""

    def __init__(self) -> None:
        super().__init__(1)
        foresee(dispatch.join, CALLED, (_kind(self._board), types.int64))
        foresee(dispatch.dismiss, CALLED, (_kind(self._board),))

    def run(self, body: Callable[..., None], *args: Any, alone: bool = False) -> None:
        self.post(body, *args, alone=alone)

    def post(self, body: Callable[..., None], *args: Any, alone: bool = False) -> None:
        if isinstance(body, Dispatcher):
            foresee(body, ENTERED, (types.int64, *map(numba.typeof, args)))
            given = self._board, dispatch.Entries().of(body), alone, args
            foresee(dispatch.post, CALLED, tuple(map(_kind, given)))
            foresee(dispatch.kind, CALLED, (_kind(args),))

    def join(self) -> None:
        pass

    def tree_sum(self, width: int, most_units: int, dtype: DTypeLike, partial: Array | None = None) -> TreeSum:
        made = super().tree_sum(width, most_units, dtype, partial)
        self.post(root_worker, self.tickets(), made.root, made.partial, most_units)  # or not: that depends on the batch
        return made


def _kind(value: Any) -> Any:
    """Its type, where Python calls a compiled function with it."""
    return typeof(value, Purpose.argument)


def foresee(function: Any, form: str, kinds: tuple[Any, ...]) -> None:
    """A compiled function will be needed in this form for these types."""
    dispatcher = function.other(form)
    if kinds not in dispatcher.overloads and not dispatcher._cache.keeps(kinds, dispatcher.targetctx):
        aside.ahead(function.py_func, form, kinds)


def prepare(name: str, config: TrainConfig, dtype: Any, device: Device, rehearse: Callable[[Rehearsal], None]) -> None:
    """Compile what a family's training with this config takes, if that was not done before on this machine."""
    if not isinstance(device, Workers) or isinstance(device, Rehearsal) or not aside.can_help():
        return
    assert KEPT_IN is not None
    done = KEPT_IN / f"ready-{_shape(name, config, dtype)}"
    if done.exists():
        return
    with aside.together(), _one_at_a_time(KEPT_IN / LOCK):
        if not done.exists():
            aside.expect_much()
            try:
                rehearse(Rehearsal())
            except Exception:  # what is wrong will be said where it is done in earnest
                aside.finish()
            else:
                aside.finish()
                with suppress(OSError):
                    done.touch(mode=0o600)


def _shape(name: str, config: TrainConfig, dtype: Any) -> str:
    """What decides the types of all arguments, or more: of numbers, whether they are 0. If ever it is less, something
    is compiled when it is needed."""
    values = {
        key: bool(value) if isinstance(value, int | float) else value
        for key, value in config.model_dump(mode="json").items()
    }
    magic = cpu_target.target_context.codegen().magic_tuple()
    told = repr((name, values, str(dtype), magic, numba.__version__))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Of several processes one compiles, and the others find it done. Nobody waits for ever for one that is stuck."""
    try:
        file = path.open("ab")
    except OSError:
        yield
        return
    with file:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(SECONDS)
        yield
