"""Sums over the units of a batch: the one loop of training, evaluation and models.

A plan says which groups are ours and in how many waves. A wave's rows are computed and merged by the fixed tree, and
the next wave takes their memory. Where several processes share the batch, each sums its range, and nodes of the tree
are exchanged (exchange.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array
from samebits.devices.interface import Device, Sum, Vector
from samebits.groups.exchange import Exchange, Links
from samebits.groups.shares import shares
from samebits.training.contract import Wave
from samebits.training.units import plan_waves

OWNER = "reduction"


class Plan(NamedTuple):
    """How a batch is cut."""

    units: int  # of all of it
    waves: list[Wave]  # ours
    ranges: list[tuple[int, int]]  # the units of each process

    def own(self, links: Links | None) -> slice:
        """Our units."""
        return slice(*self.ranges[links.rank if links else 0])


class Reduction:
    """Sums on one device; buffers and plans are kept, for nearly every step is cut like the one before."""

    def __init__(
        self, device: Device, slot_memory: int, micro_batches: int, group_bytes: int, links: Links | None = None
    ) -> None:
        self.device, self.links, self._limits = device, links, (slot_memory, micro_batches)
        self._group_bytes = group_bytes
        self._plan: tuple[tuple[int, bytes] | None, Plan] = None, Plan(0, [], [])
        self._sums: dict[tuple[int, int, Any], Sum] = {}
        self._exchanges: dict[tuple[int, int, Any], Exchange] = {}

    def plan(self, groups: Array, unit_bytes: int) -> Plan:
        """How these groups, so many units each, are cut."""
        key = unit_bytes, groups.tobytes()
        if self._plan[0] != key:
            self._plan = key, self._planned(groups, unit_bytes)
        return self._plan[1]

    def _planned(self, groups: Array, unit_bytes: int) -> Plan:
        parts = shares(groups, self.links.size if self.links else 1)
        ends = [0, *np.cumsum(groups).tolist()]
        first, last = parts[self.links.rank if self.links else 0]
        if first == last:  # nothing is ours: a group is computed in vain, for kernels also make what pull_back needs
            first, last = 0, 1
        waves = [
            Wave(first + wave.first_group, first + wave.last_group, ends[first] + wave.first_unit,
                 ends[first] + wave.last_unit)
            for wave in plan_waves(groups[first:last], unit_bytes, self._group_bytes, *self._limits)
        ]  # fmt: skip
        return Plan(ends[-1], waves, [(ends[a], ends[b]) for a, b in parts])

    def losses(self, plan: Plan) -> Vector:
        """A float64 for every unit."""
        return self.device.scratch(OWNER).buffer("losses", (plan.units, 1), np.float64)

    def total(
        self, plan: Plan, width: int, dtype: DTypeLike, compute: Callable[[Wave, Vector], int],
        row_level: Callable[[Wave], int] = lambda wave: 0,
    ) -> Vector:  # fmt: skip
        """Post it: compute(wave, rows) fills rows of `width` numbers; returns the root of the tree over all units.

        There is a row for every node of row_level(wave), which is a unit at level 0. `compute` returns the level of the
        tree up to which it has folded the rows (contract.Filled). With a single wave nothing here waits for the device,
        unless there are other processes to wait for.
        """
        key = width, plan.units.bit_length(), np.dtype(dtype)
        total, own = self._sum(key), plan.own(self.links)
        total.start(own.start)
        for wave in plan.waves:
            self.device.join()  # what is filled before it is posted must not be in use
            shape = wave.units >> row_level(wave), width
            rows = self.device.scratch(OWNER).buffer(f"rows of {np.dtype(dtype)}", shape, dtype)
            level = compute(wave, rows)
            if self.links is None and len(plan.waves) == 1:
                return total.whole(rows, wave.units, level)
            if own.stop > own.start:
                total.push(rows, wave.units, level)
        return total.finish() if self.links is None else self._exchanges[key].run(plan.ranges)

    def _sum(self, key: tuple[int, int, Any]) -> Sum:
        """Of our units: kept, one for every width and number of levels."""
        width, levels, dtype = key
        most = (1 << levels) - 1
        if self.links is None:
            if key not in self._sums:
                self._sums[key] = self.device.tree_sum(width, most, dtype)
            return self._sums[key]
        if key not in self._exchanges:
            self._exchanges[key] = Exchange(self.device, self.links, width, most, dtype)
        return self._exchanges[key].mine

    def gather_losses(self, losses: Vector, plan: Plan, said: float = 0.0) -> float:
        """Everybody's losses, so that all have the same mean; and the largest of what everybody said beside them."""
        if self.links is None:
            return said
        most = max(last - first for first, last in plan.ranges)
        mine, everybody = np.zeros(most + 1), np.zeros((self.links.size, most + 1))
        own, here = plan.own(self.links), self.device.download(losses)
        mine[: own.stop - own.start], mine[-1] = here[own, 0], said
        self.links.all_gather(mine, everybody.reshape(-1))
        for found, (first, last) in zip(everybody, plan.ranges, strict=True):
            here[first:last, 0] = found[: last - first]
        losses[:] = here
        return float(everybody[:, -1].max())
