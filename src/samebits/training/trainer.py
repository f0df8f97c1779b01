"""One model in training: batch → groups and units → gradient → merge → clip and optimizer."""

from __future__ import annotations

import gc
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from samebits.config import TrainConfig, override
from samebits.devices.interface import Device, Vector
from samebits.errors import DeviceMemoryError, SamebitsError
from samebits.groups.exchange import Links
from samebits.training.computation import computation
from samebits.training.contract import Batch, Constants, Family
from samebits.training.params import tensor_at
from samebits.training.reduction import Plan
from samebits.training.schedule import learning_rate
from samebits.training.state import Checkpoint, TrainState


@dataclass
class Step:
    """A step that was made, until its metrics are read."""

    number: int  # of steps done, this one included
    losses: Vector  # of its units
    divisor: float
    lr: float
    measured: dict[str, float]  # metrics of its batch
    loss: float | None = None  # read from the device


class Trainer:
    """One model in training: its vectors, its buffers, and what a step does."""

    def __init__(
        self,
        family: Family,
        config: TrainConfig,
        device: Device,
        dtype: DTypeLike = np.float32,
        links: Links | None = None,
    ) -> None:
        self.family, self.config, self.device = family, config, device
        self.layout = family.layout(config)
        self.params = device.upload(family.init(config, dtype))
        state = {name: device.upload(array.copy()) for name, array in family.state(config).items()}
        self.model = computation(family, config, family.constants(config), self.params, device, state, links)
        self.optimiser = device.optimiser(self.params)
        self.data = family.load(config)
        self.state = TrainState()
        self.stop_agreed = False  # a process of the group was asked to stop before the last step
        self.tell: Callable[[dict[str, Any]], None] = lambda row: None  # takes what Family.finish reports
        self._drawn: tuple[int, Batch, Plan] | None = None  # a step's batch, ahead of time
        self._last: Step | None = None

    @property
    def constants(self) -> Constants:
        return self.model.constants

    def arrays(self) -> Constants:
        """What a model gets besides its weights: constants, and the mutable state as it is now."""
        return {**self.constants, **{name: self.device.download(array) for name, array in self.model.state.items()}}

    @property
    def links(self) -> Links | None:
        return self.model.reduction.links

    def advance(self, measure: bool = False, stop: bool = False) -> None:
        """Make one optimizer step; with `measure`, `metrics` has those of the step's batch too.

        Raises where a number is not finite. A device on which reading a result would hold up the work is not asked:
        there `metrics` and `checkpoint` raise.
        """
        step, config, model = self.state.step, self.config, self.model
        _, batch, plan = self._drawn if self._drawn and self._drawn[0] == step else self._draw(step)
        sums = model.post_gradient(batch, plan)
        self.gradient = sums.gradient
        measured: dict[str, float] = {}
        if measure and (names := self.family.metrics.batch):
            self.device.join()
            metrics = model.evaluate(batch)
            measured = {name: metrics[name] for name in names}
        model.post_state(sums)
        lr = learning_rate(config, step, self.state.plateau)
        self.optimiser.step(config, self.gradient, batch.divisor, step, lr)
        self._drawn = self._draw(step + 1)  # while the device computes
        self.device.join()
        self.stop_agreed = bool(model.reduction.gather_losses(sums.losses, plan, float(stop)))
        self.state.step = step + 1
        self._last = Step(step + 1, sums.losses, batch.divisor, lr, measured)
        ends = step + 1 == config.schedule_steps
        if ends or not self.device.waits_to_be_seen:
            self._read(self._last)
        if ends:
            self._finish()

    def metrics(self) -> dict[str, Any]:
        """The row of the last step: its number, loss, gradient norm and learning rate, and what was measured."""
        last = self._last
        if last is None:
            raise ValueError("no step was made yet")
        loss = self._read(last)
        norm = self.optimiser.outcome().norm
        return {"step": last.number, self.family.metrics.loss: loss, **last.measured, "grad_norm": norm, "lr": last.lr}

    def step(self) -> dict[str, Any]:
        """Make one step and read all its metrics."""
        self.advance(measure=True)
        return self.metrics()

    def _read(self, last: Step) -> float:
        """The mean loss of a step; raises where it, the gradient or a parameter is not finite."""
        if last.loss is None:
            last.loss = self.model.loss_sum(last.losses) / last.divisor
            if not (math.isfinite(last.loss) and self.optimiser.outcome().finite):
                self.state.step = last.number - 1
                raise SamebitsError(self._not_finite(last))
        return last.loss

    def post_everything(self) -> None:
        """Post all that a step posts, and an evaluation; nothing of it is waited for or read."""
        _, batch, plan = self._draw(0)
        sums = self.model.post_gradient(batch, plan)
        self.model.post_state(sums)
        lr = learning_rate(self.config, 0, self.state.plateau)
        self.optimiser.step(self.config, sums.gradient, batch.divisor, 0, lr)
        self.model.loss_sum(sums.losses)
        own = [batch] if self.family.metrics.batch else []
        for judged in (*own, self.family.evaluation(self.config, self.data, False)):
            self.model.post_evaluation(judged)

    def _finish(self) -> None:
        """What the family does once its schedule is over."""
        if self.family.finish is None:
            return
        device = self.device
        params = device.download(self.params)
        finished = self.family.finish(self.config, self.constants, params, self.data, device.workers, self.tell)
        if finished is not None:
            self.params[:] = finished

    def idle_ranks(self) -> int:
        """How many processes of the group have no part of the next step."""
        self._drawn = self._draw(self.state.step)
        return sum(first == last for first, last in self._drawn[2].ranges)

    def loss_and_gradient(self, batch: Batch) -> tuple[float, Vector]:
        """The mean loss of a batch, and the sums of its gradient."""
        loss, gradient = self.model.loss_and_gradient(batch)
        return loss / batch.divisor, gradient

    def _draw(self, step: int) -> tuple[int, Batch, Plan]:
        batch = self.family.batch(self.config, self.data, step)
        if self.model.kernels.ahead:
            self.model.kernels.ahead(batch)
        return step, batch, self.model.plan(batch)

    def evaluate(self, batch: Batch) -> dict[str, float]:
        """The family's metrics on a batch, summed over fixed units by the tree."""
        return self.model.evaluate(batch)

    def checkpoint(self, config_hash: str) -> Checkpoint:
        """The state of the run. Numbers that are not finite, at a step that nobody read, are never saved."""
        if not self.optimiser.outcome().finite:
            raise SamebitsError(
                f"step {self.state.step} or one before it: a gradient or parameter is not finite; training stopped "
                "here and every checkpoint is intact; train anew with a lower lr, or with clip_norm; log_every 1 tells "
                "the step"
            )
        vectors = self.params, self.optimiser.first, self.optimiser.second
        params, first, second = (self.device.download(vector) for vector in vectors)
        mutable = {name: self.device.download(array) for name, array in self.model.state.items()}
        return Checkpoint(self.state, params, first, second, self.constants, config_hash, mutable)

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint of this config (record.read)."""
        self.params[:], self.optimiser.first[:], self.optimiser.second[:] = saved.params, saved.first, saved.second
        for name, array in saved.mutable.items():
            self.model.state[name][:] = array
        self.state = replace(saved.state, plateau=replace(saved.state.plateau))
        self.model.constants = saved.constants

    def _not_finite(self, last: Step) -> str:
        culprit = next(
            (
                f"{what} of {tensor_at(self.layout, int(np.argmin(np.isfinite(vector))))}"
                for what, there in (("parameters", self.params), ("gradient", self.gradient))
                for vector in [self.device.download(there)]
                if not np.isfinite(vector).all()
            ),
            "loss alone",
        )
        return (
            f"step {last.number}: the loss is {last.loss}; not finite: the {culprit}; training stopped here and every "
            "checkpoint is intact; train anew with a lower lr, or with clip_norm"
        )


def resolve(family: Family, config: TrainConfig) -> TrainConfig:
    """Fix what `train` fixes: the length of the schedule, and what the family reads off its data."""
    fixed: TrainConfig = family.prepare(config)
    return fixed if fixed.schedule_steps else override(fixed, {"schedule_steps": fixed.steps})


def batch_that_fits(family: Family, config: TrainConfig, device: Device) -> int:
    """The largest half, quarter … of the batch whose step the device has memory for, as tried; 0: none."""
    size = config.batch_size
    while size > 1:
        size //= 2
        device.forget()
        gc.collect()  # what the failed step held
        try:
            trainer = Trainer(family, override(config, {"batch_size": size}), device)
            trainer.advance()
            trainer.metrics()  # waits for the device
        except Exception as error:
            if not isinstance(device.problem(error), DeviceMemoryError):
                raise
            traceback.clear_frames(error.__traceback__)
        else:
            return size
    return 0
