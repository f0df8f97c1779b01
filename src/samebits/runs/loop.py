"""The loop of a run: begin or go on, step, log, evaluate, save, until it is done or somebody stops it."""

from __future__ import annotations

import errno
import math
import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits.arithmetic.arrays import Array
from samebits.devices.interface import Device
from samebits.errors import DeviceMemoryError, SamebitsError
from samebits.groups.agreement import by_first
from samebits.groups.exchange import Links
from samebits.runs import checkpoint as checkpoints
from samebits.runs.record import folder_name
from samebits.runs.runfolder import METRICS, RunFolder
from samebits.runs.sharing import share_checkpoint
from samebits.runs.table import check_metrics
from samebits.runs.writer import RunWriter, Writer
from samebits.training.ahead import compile_ahead
from samebits.training.contract import Family
from samebits.training.params import weights_hash
from samebits.training.parts import Glimpse
from samebits.training.state import Checkpoint
from samebits.training.trainer import Trainer, batch_that_fits


class GroupWarning(UserWarning):
    """Something to know of several processes that share a run."""


SAMPLE = "sample"  # key of an observer's row: the text of Family.glimpse
Observer = Callable[[int, dict[str, Any]], None]  # (steps done, the row just logged or {})


@dataclass
class Outcome:
    """How a call of `run_training` ended."""

    weights: str
    step: int
    interrupted: bool
    stopped_early: bool


class Interrupts:
    """Ctrl-C: the first asks the loop to stop after its step, the second to stop at once.

    A program around us decides what it says and how it ends; by default it is told nothing, and the second Ctrl-C is
    Python's own KeyboardInterrupt. `also`: signals that ask to stop, too, however often they come.
    """

    def __init__(
        self, say: Callable[[str], None] = lambda text: None, leave: Callable[[], None] | None = None,
        also: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.asked, self._say, self._leave, self._also = False, say, leave, also
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._old = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, *self._also)}
        return self

    def __exit__(self, *ignored: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        if number != signal.SIGINT:
            if not self.asked:
                self._say(f"told to end ({signal.Signals(number).name}); stopping after this step, to save it")
            self.asked = True
            return
        if self.asked:
            self._say("stopped at once; checkpoints already written are intact")
            if self._leave:
                self._leave()
            raise KeyboardInterrupt
        self.asked = True
        self._say("stopping after this step, to save it; Ctrl-C again stops at once and loses what is not saved")


def run_training(
    run: RunFolder,
    device: Device,
    from_checkpoint: str | None = None,
    observe: Observer | None = None,
    interrupts: Interrupts | None = None,
    new_metrics: bool = False,
    links: Links | None = None,
) -> Outcome:
    """Train a run folder to its config's steps, from nothing or from a checkpoint; `last` may also be none yet.

    With `new_metrics`, a metrics.csv that was changed since is kept beside, and a new one begins. Of several processes
    rank 0 reads and writes the folder, and the others need not even see it.
    """
    writes = links is None or links.rank == 0
    with ExitStack() as held:
        by_first(links, lambda: held.enter_context(run.lock()))
        run.mark_inexact(device.name, device.lacks)
        try:
            seen = observe or (lambda step, row: None)
            return _begin_and_train(run, device, from_checkpoint, seen, interrupts or Interrupts(), new_metrics, links)
        except OSError as error:
            if not writes:
                raise
            run.check_there()
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            raise SamebitsError(
                f"cannot write to {run.path} ({error.strerror or error}); the run stopped and {_last(run)}; "
                f"{'make room' if full else 'fix that'}, then: samebits resume {run.path}"
            ) from None
        except Exception as error:
            told = device.problem(error)
            if told is None or not writes:
                raise
            traceback.clear_frames(error.__traceback__)  # which hold what fills the device's memory
            fits = _what_fits(run, device) if isinstance(told, DeviceMemoryError) else ""
            raise type(told)(
                f"{told}; {fits}the run stopped and {_last(run)}; to go on with the same bits: samebits resume "
                f"{run.path} --device cpu"
            ) from error


def _begin_and_train(
    run: RunFolder, device: Device, from_checkpoint: str | None, observe: Observer, interrupts: Interrupts,
    new_metrics: bool, links: Links | None,
) -> Outcome:  # fmt: skip
    writes = links is None or links.rank == 0
    trainer, saved_at = _begin(run, device, from_checkpoint, new_metrics, links)
    writer = RunWriter(run, metric_columns(run.family), trainer.state) if writes else Writer()
    if links is not None and writes and (idle := trainer.idle_ranks()):
        warnings.warn(
            f"{idle} of {links.size} processes have nothing to do: a step has only {links.size - idle} parts; "
            "fewer processes are as fast",
            GroupWarning,
            stacklevel=3,
        )
    return _train(run, trainer, saved_at, writer, observe, interrupts)


def _last(run: RunFolder) -> str:
    saved = checkpoints.steps_saved(run.checkpoints)
    return f"the last checkpoint, step-{saved[-1]}, is intact" if saved else "there was no checkpoint yet"


def _what_fits(run: RunFolder, device: Device) -> str:
    """After the device's memory was full: which batch would have fitted, as tried."""
    config = run.config
    found = batch_that_fits(run.family, config, device)
    if not found:
        return f"batch_size is {config.batch_size}, and not even 1 fits; "
    return (
        f"batch_size is {config.batch_size}; {found} fits; or, without changing a bit, the same batch in parts: --set "
        f"micro_batches={config.micro_batches * -(-config.batch_size // found)}; "
    )


def _train(
    run: RunFolder, trainer: Trainer, saved_at: int, writer: Writer, observe: Observer, interrupts: Interrupts
) -> Outcome:
    """The loop. All of several processes go through it alike; what differs is who writes, and who is asked to stop."""
    config, state = run.config, trainer.state
    trainer.tell = lambda row: observe(state.step, row)
    stop = False
    with writer, interrupts:
        while state.step < config.steps and not stop and not state.stopped_early:
            done = state.step + 1
            logged = done == 1 or done % config.log_every == 0
            evaluated = config.eval_every > 0 and done % config.eval_every == 0
            # The last step has a row too, but one that goes when the run goes on: a longer run would not have it.
            passing = done == config.steps and not logged and not evaluated
            trainer.advance(measure=logged or passing, stop=interrupts.asked)
            row = trainer.metrics() if logged or evaluated or passing else {}
            stop = trainer.stop_agreed
            improved = evaluated and _take_evaluation(trainer, row)
            if logged or evaluated or passing:
                writer.log(row, passing)
            seen = row
            glimpse = run.family.glimpse
            if glimpse and writer.writes and (every := glimpse.every(config)) and done % every == 0:
                seen = {**seen, SAMPLE: _shown(trainer, glimpse)}
            observe(done, seen)
            if improved or done % config.checkpoint_every == 0:
                writer.save(trainer.checkpoint(run.hash), trainer.layout)
                saved_at = done
            stop = stop or (interrupts.asked and trainer.links is None)
        if saved_at != state.step:
            writer.save(trainer.checkpoint(run.hash), trainer.layout)
    interrupted = stop and state.step < config.steps and not state.stopped_early
    return Outcome(weights_hash(trainer.device.download(trainer.params)), state.step, interrupted, state.stopped_early)


def _shown(trainer: Trainer, glimpse: Glimpse) -> str:
    """What the model can do at this step."""
    params = trainer.device.download(trainer.params).copy()
    return glimpse.show(trainer.family.model(trainer.config, params, trainer.arrays()), trainer.device)


def _begin(
    run: RunFolder, device: Device, from_checkpoint: str | None, new_metrics: bool, links: Links | None
) -> tuple[Trainer, int]:
    """A trainer where the run begins or goes on, and the step it has saved; −1: none, or not with these metrics."""
    family, config = run.family, run.config
    compile_ahead(family, config, device)
    saved = share_checkpoint(links, lambda: _read(run, from_checkpoint, new_metrics))
    if saved is None:
        trainer = Trainer(family, config, device, links=links)
        if family.start:
            family.start.fill(config, trainer.layout, trainer.constants, trainer.params)
        return trainer, -1
    own = run.checkpoints / folder_name(saved.state.step)
    if family.start and own.is_dir():
        config = family.start.resumed(config, own)
    trainer = Trainer(family, config, device, links=links)
    trainer.restore(saved)
    if links is None or links.rank == 0:
        checkpoints.set_aside(run.checkpoints, trainer.state.step)
        checkpoints.prune(run.checkpoints, config.keep, trainer.state.best_step)  # a kill may have left one more
    return trainer, -1 if saved.state.metrics_bytes == 0 else trainer.state.step


def _read(run: RunFolder, from_checkpoint: str | None, new_metrics: bool) -> Checkpoint | None:
    """The checkpoint that a run goes on from; None where it begins."""
    if os.path.lexists(run.checkpoints) and not run.checkpoints.is_dir():
        raise SamebitsError(f"{run.checkpoints} is no folder; it must hold the run's checkpoints; put them back")
    checkpoints.clean(run.checkpoints)
    if from_checkpoint is None or (from_checkpoint == "last" and not checkpoints.steps_saved(run.checkpoints)):
        return None
    saved = checkpoints.load(checkpoints.choose(run.checkpoints, from_checkpoint), run.expected)
    if run.config.steps < saved.state.step:
        raise SamebitsError(
            f"steps is {run.config.steps}; the checkpoint is at step {saved.state.step}; "
            f"set --steps to at least {saved.state.step}"
        )
    check_metrics(run.path / METRICS, saved.state, new_metrics)
    return saved


def metric_columns(family: Family) -> tuple[str, ...]:
    names = family.metrics
    return ("step", names.loss, *names.batch, "grad_norm", "lr", *(f"eval_{name}" for name in names.evaluation))


def _take_evaluation(trainer: Trainer, row: dict[str, Any]) -> bool:
    """Evaluate, add the columns to the row, move plateau, best and early stopping on. True if the best yet."""
    family, config, state = trainer.family, trainer.config, trainer.state
    found = trainer.evaluate(family.evaluation(config, trainer.data, False))
    row |= {f"eval_{name}": found[name] for name in family.metrics.evaluation}
    value = found[family.metrics.best]
    state.plateau.observe(config, value)
    improved = math.isfinite(value) and (state.best_value is None or value < state.best_value)
    if improved:
        state.best_value, state.best_step, state.stale_evaluations = value, state.step, 0
    else:
        state.stale_evaluations += 1
        state.stopped_early = bool(config.early_stop) and state.stale_evaluations >= config.early_stop
    return improved


def latest_weights(run: RunFolder, which: str = "last") -> tuple[Array, Checkpoint, Path]:
    """The verified parameters of a run."""
    path = checkpoints.choose(run.checkpoints, which)
    found = checkpoints.load(path, run.expected)
    return found.params, found, path
