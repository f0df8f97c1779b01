"""One model in training: batch → groups and units → gradient → merge → clip and optimiser."""

from __future__ import annotations

import gc
import math
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.tree import sum_tree
from samebits.config import TrainConfig, override
from samebits.devices.cpu.rehearsal import Rehearsal, prepare
from samebits.devices.interface import Device, Vector
from samebits.errors import DeviceMemoryError, SamebitsError
from samebits.groups.exchange import Links
from samebits.training.contract import Batch, Constants, Family, Kernels, Wave
from samebits.training.params import tensor_at
from samebits.training.reduction import Plan, Reduction
from samebits.training.schedule import learning_rate
from samebits.training.state import Checkpoint, TrainState


class Trainer:
    """One model in training: its vectors, its buffers, and what a step does."""

    def __init__(
        self, family: Family, config: TrainConfig, device: Device, dtype: DTypeLike = np.float32,
        links: Links | None = None,
    ) -> None:  # fmt: skip
        prepare_training(family, config, device, dtype)
        self.family, self.config, self.device = family, config, device
        self.kernels = kernels_for(family, device)
        self.layout = family.layout(config)
        self.constants = family.constants(config)
        self.params = device.upload(family.init(config, dtype))
        self.optimiser = device.optimiser(self.params)
        self.data = family.load(config)
        self.gradient = device.vector(self.params.shape, self.params.dtype)
        slot_memory = max(config.slot_memory, device.slot_memory)
        self.reduction = Reduction(device, slot_memory, config.micro_batches, family.group_bytes(config), links)
        self.state = TrainState()
        self.stop_agreed = False  # somebody, here or elsewhere, asked to stop before the last step
        self._drawn: tuple[int, Batch, Plan] | None = None  # a step's, ahead of time
        self.told: Callable[[dict[str, Any]], None] = lambda row: None  # how `finish` gets on

    def step(self, log: bool = False, stop: bool = False, look: bool = False) -> dict[str, Any]:
        """One optimiser step; its metrics, with those that cost extra only when the step is logged.

        A device that waits to be seen has none but for steps that are logged, or looked at.
        """
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
        self.state.step = step + 1
        if not (log or look) and self.device.waits_to_be_seen and step + 1 != config.schedule_steps:
            return {"step": step + 1}
        loss, info = self._mean(losses, batch), self.optimiser.outcome()
        if not (math.isfinite(loss) and info.finite):
            self.state.step = step
            raise SamebitsError(self._not_finite(step, loss))
        if step + 1 == config.schedule_steps:
            self._finish()
        return {"step": step + 1, names.loss: loss, **measured, "grad_norm": info.norm, "lr": lr}

    def rehearse(self) -> None:
        """Post all that a step posts, and an evaluation: on a device that does nothing, to see what it is."""
        _, batch, plan = self._draw(0)
        losses = self._post_gradient(batch, plan)
        lr = learning_rate(self.config, 0, self.state.plateau)
        self.optimiser.step(self.config, self.gradient, batch.divisor, 0, lr)
        self._mean(losses, batch)
        own = [batch] if self.family.metrics.batch else []
        for one in (*own, self.family.evaluation(self.config, self.data, False)):
            _post_evaluation(self.family, self.config, self.constants, self.params, one, self.reduction)

    def _finish(self) -> None:
        """What the family does once its schedule is over."""
        if self.family.finish is None:
            return
        device = self.device
        params = device.download(self.params)
        finished = self.family.finish(self.config, self.constants, params, self.data, device.workers, self.told)
        if finished is not None:
            self.params[:] = finished

    def idle_ranks(self) -> int:
        """How many processes of the group have no part of the next step."""
        self._drawn = self._draw(self.state.step)
        return sum(first == last for first, last in self._drawn[2].ranges)

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
        if self.kernels.ahead:
            self.kernels.ahead(batch)
        return step, batch, self._gradient_plan(batch)

    def _gradient_plan(self, batch: Batch) -> Plan:
        groups, width = self.family.groups(self.config, batch), self.family.slot_size(self.config)
        unit_bytes = width * self.params.itemsize
        if self.kernels.nodes:  # as if in one wave: then a row is shared by so many units
            unit_bytes >>= self.kernels.nodes(self.config, Wave(0, len(groups), 0, int(groups.sum())))
        return self.reduction.plan(groups, unit_bytes)

    def _post_gradient(self, batch: Batch, plan: Plan) -> Vector:
        """The units' losses, there once the device has joined."""
        config, kernels, losses, carried = self.config, self.kernels, self.reduction.losses(plan), None

        def compute(wave: Wave, slots: Vector) -> None:
            nonlocal carried
            own = losses[wave.first_unit : wave.last_unit]
            carried = kernels.gradient(config, self.constants, self.params, batch, wave, slots, own, self.device)

        width = self.family.slot_size(config)
        nodes = partial(kernels.nodes, config) if kernels.nodes else None
        merged = self.reduction.total(plan, width, self.params.dtype, compute, kernels.folded, nodes)
        if kernels.pull_back is None:
            self.gradient = merged
        else:
            kernels.pull_back(config, self.params, merged, self.gradient, carried, self.device)
        return losses

    def evaluate(self, batch: Batch) -> dict[str, float]:
        """The family's metrics on a batch, summed over fixed units by the tree."""
        return evaluate(self.family, self.config, self.constants, self.params, batch, self.reduction)

    def checkpoint(self, config_hash: str) -> Checkpoint:
        """Where the run is. Numbers that are not finite, at a step that nobody looked at, are never saved."""
        if not self.optimiser.outcome().finite:
            raise SamebitsError(
                f"step {self.state.step} or one before it: a gradient or parameter is not finite; training stopped "
                "here and every checkpoint is intact; train anew with a lower lr, or with clip_norm; log_every 1 tells "
                "the step"
            )
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


def prepare_training(family: Family, config: TrainConfig, device: Device, dtype: DTypeLike = np.float32) -> None:
    """Have all compiled that training takes, before anything is begun. A Trainer does so itself, if nobody did."""

    def rehearse(empty: Rehearsal) -> None:
        Trainer(family, config, empty, dtype).rehearse()

    prepare(family.name, config, np.dtype(dtype), device, rehearse)


def kernels_for(family: Family, device: Device) -> Kernels:
    if device.kind not in family.kernels:
        raise SamebitsError(
            f"{family.name} has no kernels for the device {device.kind}; it has them for "
            f"{', '.join(family.kernels)}; use --device {next(iter(family.kernels))}"
        )
    return family.kernels[device.kind]


def evaluate(
    family: Family, config: TrainConfig, constants: Constants, params: Vector, batch: Batch, reduction: Reduction
) -> dict[str, float]:
    """A family's metrics of these parameters on a batch."""
    merged = _post_evaluation(family, config, constants, params, batch, reduction)
    reduction.device.join()
    found = reduction.device.download(merged).tolist()
    return family.summarise(config, dict(zip(family.metrics.columns, found, strict=True)), batch)


def _post_evaluation(
    family: Family, config: TrainConfig, constants: Constants, params: Vector, batch: Batch, reduction: Reduction
) -> Vector:
    """The sums behind a family's metrics, there once the device has joined."""
    device, columns = reduction.device, family.metrics.columns
    kernels = kernels_for(family, device)

    def compute(wave: Wave, rows: Vector) -> None:
        kernels.evaluate(config, constants, params, batch, wave, rows, device)

    plan = reduction.plan(family.groups(config, batch), 8 * len(columns))
    return reduction.total(plan, len(columns), np.float64, compute)


def resolve(family: Family, config: TrainConfig) -> TrainConfig:
    """Fix what `train` fixes: the length of the schedule, and what the family reads off its data."""
    fixed = family.prepare(config)
    return fixed if fixed.schedule_steps else override(fixed, {"schedule_steps": fixed.steps})


def batch_that_fits(family: Family, config: TrainConfig, device: Device) -> int:
    """The largest half, quarter … of the batch whose step the device has memory for, as tried; 0: none."""
    size = config.batch_size
    while size > 1:
        size //= 2
        device.forget()
        gc.collect()  # what the failed step held
        try:
            Trainer(family, override(config, {"batch_size": size}), device).step(look=True)
        except Exception as error:
            if not isinstance(device.problem(error), DeviceMemoryError):
                raise
            traceback.clear_frames(error.__traceback__)
        else:
            return size
    return 0
