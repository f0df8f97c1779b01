"""The loop: batch → groups and units → gradient → merge → clip and optimiser → metrics, checkpoint."""

from __future__ import annotations

import errno
import math
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from samebits.config import TrainConfig, override
from samebits.engine import checkpoint as checkpoints
from samebits.engine.arrays import Array
from samebits.engine.device import Device, Vector
from samebits.engine.exchange import Links
from samebits.engine.family import Batch, Constants, Family, Kernels, Wave
from samebits.engine.merge import sum_tree
from samebits.engine.optim import learning_rate
from samebits.engine.params import tensor_at, weights_hash
from samebits.engine.record import Checkpoint, TrainState
from samebits.engine.reduction import Plan, Reduction
from samebits.engine.runfolder import METRICS, RunFolder
from samebits.engine.source import begin_with, read_source
from samebits.engine.table import check_metrics
from samebits.engine.writer import RunWriter, Writer
from samebits.errors import SamebitsError

Observer = Callable[[int, dict[str, Any]], None]  # (steps done, the row just logged or {})


class Trainer:
    """One model in training: its vectors, its buffers, and what a step does."""

    def __init__(
        self, family: Family, config: TrainConfig, device: Device, dtype: DTypeLike = np.float32,
        links: Links | None = None,
    ) -> None:  # fmt: skip
        self.family, self.config, self.device = family, config, device
        self.kernels = kernels_for(family, device)
        self.layout = family.layout(config)
        self.constants = family.constants(config)
        self.params = device.upload(family.init(config, dtype))
        self.optimiser = device.optimiser(self.params)
        self.data = family.load(config)
        self.gradient = device.vector(self.params.shape, self.params.dtype)
        self.reduction = Reduction(device, config.slot_memory, config.micro_batches, family.group_bytes(config), links)
        self.state = TrainState()
        self.stop_agreed = False  # somebody, here or elsewhere, asked to stop before the last step
        self._drawn: tuple[int, Batch, Plan] | None = None  # a step's, ahead of time

    def step(self, log: bool = False, stop: bool = False) -> dict[str, Any]:
        """One optimiser step; its metrics, with those that cost extra only when the step is logged."""
        names, config, step = self.family.metrics, self.config, self.state.step
        _, batch, plan = self._drawn if self._drawn and self._drawn[0] == step else self._draw(step)
        losses = self._post_gradient(batch, plan)
        measured: dict[str, float] = {}
        if log and names.batch:
            self.device.join()
            found = self.evaluate(batch)
            measured = {name: found[name] for name in names.batch}
        lr = learning_rate(config, step, self.state.plateau)
        self.optimiser.step(config, self.gradient, batch.divisor, step, lr)
        self._drawn = self._draw(step + 1)  # the others are computing meanwhile
        self.device.join()
        self.stop_agreed = bool(self.reduction.gather_losses(losses, plan, float(stop)))
        loss, info = self._mean(losses, batch), self.optimiser.outcome()
        if not (math.isfinite(loss) and info.finite):
            raise SamebitsError(self._not_finite(step, loss))
        self.state.step = step + 1
        return {"step": step + 1, names.loss: loss, **measured, "grad_norm": info.norm, "lr": lr}

    def loss_and_gradient(self, batch: Batch) -> float:
        """Fill self.gradient with the merged, pulled-back sums of the batch; the mean loss."""
        plan = self._gradient_plan(batch)
        losses = self._post_gradient(batch, plan)
        self.device.join()
        self.reduction.gather_losses(losses, plan)
        return self._mean(losses, batch)

    def _mean(self, losses: Vector, batch: Batch) -> float:
        return sum_tree(self.device.download(losses).reshape(-1)) / batch.divisor

    def _draw(self, step: int) -> tuple[int, Batch, Plan]:
        batch = self.family.batch(self.config, self.data, step)
        return step, batch, self._gradient_plan(batch)

    def _gradient_plan(self, batch: Batch) -> Plan:
        groups, width = self.family.groups(self.config, batch), self.family.slot_size(self.config)
        return self.reduction.plan(groups, width * self.params.itemsize)

    def _post_gradient(self, batch: Batch, plan: Plan) -> Vector:
        """The units' losses, there once the device has joined."""
        config, kernels, losses, carried = self.config, self.kernels, self.reduction.losses(plan), None

        def compute(wave: Wave, slots: Vector) -> None:
            nonlocal carried
            own = losses[wave.first_unit : wave.last_unit]
            carried = kernels.gradient(config, self.constants, self.params, batch, wave, slots, own, self.device)

        width = self.family.slot_size(config)
        merged = self.reduction.total(plan, width, self.params.dtype, compute, kernels.folded)
        if kernels.pull_back is None:
            self.gradient = merged
        else:
            kernels.pull_back(config, self.params, merged, self.gradient, carried, self.device)
        return losses

    def evaluate(self, batch: Batch) -> dict[str, float]:
        """The family's metrics on a batch, summed over fixed units by the tree."""
        return evaluate(self.family, self.config, self.constants, self.params, batch, self.reduction)

    def checkpoint(self, config_hash: str) -> Checkpoint:
        vectors = self.params, self.optimiser.first, self.optimiser.second
        params, first, second = (self.device.download(vector) for vector in vectors)
        return Checkpoint(self.state, params, first, second, self.constants, config_hash)

    def restore(self, saved: Checkpoint) -> None:
        """Go on from a checkpoint of this config (record.read)."""
        self.params[:], self.optimiser.first[:], self.optimiser.second[:] = saved.params, saved.first, saved.second
        self.state = replace(saved.state, plateau=replace(saved.state.plateau))
        self.constants = saved.constants

    def _not_finite(self, step: int, loss: float) -> str:
        culprit = next(
            (f"{what} of {tensor_at(self.layout, int(np.argmin(np.isfinite(vector))))}"
             for what, there in (("parameters", self.params), ("gradient", self.gradient))
             for vector in [self.device.download(there)]
             if not np.isfinite(vector).all()),
            "loss alone",
        )  # fmt: skip
        return (
            f"step {step + 1}: the loss is {loss}; not finite: the {culprit}; training stopped here and every "
            "checkpoint is intact; train anew with a lower lr, or with clip_norm"
        )


def kernels_for(family: Family, device: Device) -> Kernels:
    if device.kind not in family.kernels:
        raise SamebitsError(
            f"{family.name} has no kernels for the device {device.kind}; it has them for {', '.join(family.kernels)}"
        )
    return family.kernels[device.kind]


def evaluate(
    family: Family, config: TrainConfig, constants: Constants, params: Vector, batch: Batch, reduction: Reduction
) -> dict[str, float]:
    """A family's metrics of these parameters on a batch."""
    device, columns = reduction.device, family.metrics.columns
    kernels = kernels_for(family, device)

    def compute(wave: Wave, rows: Vector) -> None:
        kernels.evaluate(config, constants, params, batch, wave, rows, device)

    plan = reduction.plan(family.groups(config, batch), 8 * len(columns))
    merged = reduction.total(plan, len(columns), np.float64, compute)
    device.join()
    return family.summarise(config, dict(zip(columns, device.download(merged).tolist(), strict=True)), batch)


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
    Python's own KeyboardInterrupt.
    """

    def __init__(self, say: Callable[[str], None] = lambda text: None, leave: Callable[[], None] | None = None) -> None:
        self.asked, self._say, self._leave = False, say, leave

    def __enter__(self) -> Interrupts:
        self._old: Any = None
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)

    def _handle(self, number: int, frame: object) -> None:
        if self.asked:
            self._say("stopped at once; checkpoints already written are intact")
            if self._leave:
                self._leave()
            raise KeyboardInterrupt
        self.asked = True
        self._say("stopping after this step, to save it; Ctrl-C again stops at once and loses what is not saved")


def resolve(family: Family, config: TrainConfig) -> TrainConfig:
    """Fix what `train` fixes: the length of the schedule, and what the family reads off its data."""
    fixed = family.prepare(config)
    return fixed if fixed.schedule_steps else override(fixed, {"schedule_steps": fixed.steps})


def run_training(
    run: RunFolder,
    device: Device,
    from_checkpoint: str | None = None,
    observe: Observer | None = None,
    interrupts: Interrupts | None = None,
    new_metrics: bool = False,
) -> Outcome:
    """Train a run folder to its config's steps, from nothing or from a checkpoint; `last` may also be none yet.

    With `new_metrics`, a metrics.csv that was changed since is kept beside, and a new one begins.
    """
    with run.lock():
        try:
            trainer, saved_at = _begin(run, device, from_checkpoint, new_metrics)
            writer = RunWriter(run, metric_columns(run.family), trainer.state)
            told = observe or (lambda step, row: None)
            return _train(run, trainer, saved_at, writer, told, interrupts or Interrupts())
        except OSError as error:
            run.check_there()
            saved = checkpoints.steps_saved(run.checkpoints)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            last = f"the last checkpoint, step-{saved[-1]}, is intact" if saved else "there was no checkpoint yet"
            raise SamebitsError(
                f"cannot write to {run.path} ({error.strerror or error}); the run stopped and {last}; "
                f"{'make room' if full else 'fix that'}, then: samebits resume {run.path}"
            ) from None


def _train(
    run: RunFolder, trainer: Trainer, saved_at: int, writer: Writer, observe: Observer, interrupts: Interrupts
) -> Outcome:
    """The loop. All of several processes go through it alike; what differs is who writes, and who is asked to stop."""
    config, state = run.config, trainer.state
    stop = False
    with writer, interrupts:
        while state.step < config.steps and not stop and not state.stopped_early:
            done = state.step + 1
            logged = done == 1 or done % config.log_every == 0
            evaluated = config.eval_every > 0 and done % config.eval_every == 0
            row = trainer.step(logged, interrupts.asked)
            stop = trainer.stop_agreed
            improved = evaluated and _take_evaluation(trainer, row)
            if logged or evaluated:
                writer.log(row)
            observe(done, row if logged or evaluated else {})
            if improved or done % config.checkpoint_every == 0:
                writer.save(trainer.checkpoint(run.hash), trainer.layout)
                saved_at = done
            stop = stop or (interrupts.asked and trainer.reduction.links is None)
        if saved_at != state.step:
            writer.save(trainer.checkpoint(run.hash), trainer.layout)
    interrupted = stop and state.step < config.steps and not state.stopped_early
    return Outcome(weights_hash(trainer.device.download(trainer.params)), state.step, interrupted, state.stopped_early)


def _begin(run: RunFolder, device: Device, from_checkpoint: str | None, new_metrics: bool) -> tuple[Trainer, int]:
    """A trainer where the run begins or goes on, and the step it has saved; −1: none, or not with these metrics."""
    family, config = run.family, run.config
    if run.checkpoints.exists() and not run.checkpoints.is_dir():
        raise SamebitsError(f"{run.checkpoints} is no folder; it must hold the run's checkpoints; put them back")
    checkpoints.clean(run.checkpoints)
    init_from = getattr(config, "init_from", "")
    if from_checkpoint is None or (from_checkpoint == "last" and not checkpoints.steps_saved(run.checkpoints)):
        trainer = Trainer(family, config, device)
        if init_from:
            begin_with(read_source(init_from, family.name), trainer.layout, trainer.constants, trainer.params)
        return trainer, -1
    chosen = checkpoints.choose(run.checkpoints, from_checkpoint)
    saved = checkpoints.load(chosen, run.expected)
    if config.steps < saved.state.step:
        raise SamebitsError(
            f"steps is {config.steps}; the checkpoint is at step {saved.state.step}; "
            f"set --steps to at least {saved.state.step}"
        )
    begun_anew = check_metrics(run.path / METRICS, saved.state, new_metrics)
    if "init_from" in type(config).model_fields:
        config = override(config, {"init_from": str(chosen)})  # what it inherited or learned is in its own checkpoint
    trainer = Trainer(family, config, device)
    trainer.restore(saved)
    checkpoints.set_aside(run.checkpoints, trainer.state.step)
    checkpoints.prune(run.checkpoints, config.keep, trainer.state.best_step)  # killed while it did, it left one more
    return trainer, -1 if begun_anew else trainer.state.step


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
