"""Gradient, evaluation and state updates of a family on a device: the one place that calls its kernels.

The trainer, models and checks use these functions, so that all of them compute the same units by the same tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.tree import sum_tree
from samebits.config import TrainConfig
from samebits.devices.interface import Device, Vector
from samebits.errors import SamebitsError
from samebits.groups.exchange import Links
from samebits.training.contract import Batch, Constants, Family, Kernels, Wave, Work
from samebits.training.reduction import Plan, Reduction


def kernels_for(family: Family, device: Device) -> Kernels:
    """The family's kernels for this kind of device."""
    if device.kind not in family.kernels:
        raise SamebitsError(
            f"{family.name} has no kernels for the device {device.kind}; it has them for "
            f"{', '.join(family.kernels)}; use --device {next(iter(family.kernels))}"
        )
    return family.kernels[device.kind]


class Sums(NamedTuple):
    """What a batch's gradient consists of, before any division; there once the device has joined."""

    losses: Vector  # of every unit
    gradient: Vector
    statistics: Vector | None  # for Kernels.update_state; None where the family has none
    last: Work  # the work of the last wave


@dataclass
class Computation:
    """A family's model on a device: parameters, constants and mutable state, and the sums that are made of them."""

    family: Family
    config: TrainConfig
    constants: Constants
    params: Vector
    state: Mapping[str, Vector]
    reduction: Reduction

    def __post_init__(self) -> None:
        self.device = self.reduction.device
        self.kernels = kernels_for(self.family, self.device)
        self._size = self.family.slot_size(self.config)
        self._width = self._size + self.family.statistics(self.config)
        self._out: Vector | None = None  # the gradient, where pull_back makes it

    def plan(self, batch: Batch) -> Plan:
        """How the gradient of a batch is cut into waves."""
        groups = self.family.groups(self.config, batch)
        unit_bytes = self._width * self.params.itemsize
        if self.kernels.row_level:  # as if in one wave: a row is then shared by 2^level units
            unit_bytes >>= self.kernels.row_level(self.config, Wave(0, len(groups), 0, int(groups.sum())))
        return self.reduction.plan(groups, unit_bytes)

    def post_gradient(self, batch: Batch, plan: Plan) -> Sums:
        """Post the gradient of a batch."""
        kernels, losses, carried = self.kernels, self.reduction.losses(plan), None
        last = self._work(batch, plan.waves[-1])

        def compute(wave: Wave, slots: Vector) -> int:
            nonlocal carried
            filled = kernels.gradient(self._work(batch, wave), slots, losses[wave.first_unit : wave.last_unit])
            carried = filled.carried
            return filled.level

        merged = self.reduction.total(plan, self._width, self.params.dtype, compute, self._row_level)
        gradient, statistics = merged, None
        if self._size < self._width:
            gradient, statistics = merged[: self._size], merged[self._size :]
        if kernels.pull_back is not None:
            if self._out is None:
                self._out = self.device.vector(self.params.shape, self.params.dtype)
            kernels.pull_back(last, gradient, self._out, carried)
            gradient = self._out
        return Sums(losses, gradient, statistics, last)

    def _work(self, batch: Batch, wave: Wave) -> Work[Any, Any]:
        return Work(self.config, self.constants, self.params, self.state, batch, wave, self.device)

    def _row_level(self, wave: Wave) -> int:
        return self.kernels.row_level(self.config, wave) if self.kernels.row_level else 0

    def post_state(self, sums: Sums) -> None:
        """Post the update of the mutable state, from the statistics of a batch."""
        if self.kernels.update_state is not None:
            self.kernels.update_state(sums.last, sums.statistics)

    def loss_sum(self, losses: Vector) -> float:
        """The units' losses, summed by the tree; it uses their memory up."""
        return sum_tree(self.device.download(losses).reshape(-1))

    def loss_and_gradient(self, batch: Batch) -> tuple[float, Vector]:
        """The sums of loss and gradient over a batch. The gradient is good until the next call."""
        plan = self.plan(batch)
        sums = self.post_gradient(batch, plan)
        self.device.join()
        self.reduction.gather_losses(sums.losses, plan)
        return self.loss_sum(sums.losses), sums.gradient

    def post_evaluation(self, batch: Batch) -> Vector:
        """Post the sums behind the family's metrics."""
        columns = self.family.metrics.columns

        def compute(wave: Wave, rows: Vector) -> int:
            self.kernels.evaluate(self._work(batch, wave), rows)
            return 0

        plan = self.reduction.plan(self.family.groups(self.config, batch), 8 * len(columns))
        return self.reduction.total(plan, len(columns), np.float64, compute)

    def evaluate(self, batch: Batch) -> dict[str, float]:
        """The family's metrics on a batch, summed over fixed units by the tree."""
        merged = self.post_evaluation(batch)
        self.device.join()
        sums = self.device.download(merged).tolist()
        return self.family.summarise(self.config, dict(zip(self.family.metrics.columns, sums, strict=True)), batch)


def computation(
    family: Family,
    config: TrainConfig,
    constants: Constants,
    params: Vector,
    device: Device,
    state: Mapping[str, Vector] | None = None,
    links: Links | None = None,
    slot_memory: int = 0,
) -> Computation:
    """A family's model on a device. Waves fit the config's slot_memory, or the device's, or this one, in megabytes."""
    slot_memory = max(config.slot_memory, device.slot_memory, slot_memory)
    reduction = Reduction(device, slot_memory, config.micro_batches, family.group_bytes(config), links)
    return Computation(family, config, constants, params, state or {}, reduction)
