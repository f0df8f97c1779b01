"""Sums over the units of a batch: the one loop of training, evaluation and models.

Waves are planned, a wave's rows computed, merged by the fixed tree, and the next wave takes their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from samebits.engine.arrays import Array
from samebits.engine.device import Device, Sum, Vector
from samebits.engine.family import Wave
from samebits.engine.units import plan_waves

OWNER = "reduction"


class Reduction:
    """Sums on one device; buffers and plans are kept, for nearly every step is cut like the one before."""

    def __init__(self, device: Device, slot_memory: int, micro_batches: int, group_bytes: int) -> None:
        self.device, self._limits, self._group_bytes = device, (slot_memory, micro_batches), group_bytes
        self._plan: tuple[tuple[int, bytes] | None, list[Wave]] = None, []
        self._sums: dict[tuple[int, int, Any], Sum] = {}

    def waves(self, groups: Array, unit_bytes: int) -> list[Wave]:
        """How these groups, so many units each, are cut."""
        key = unit_bytes, groups.tobytes()
        if self._plan[0] != key:
            self._plan = key, plan_waves(groups, unit_bytes, self._group_bytes, *self._limits)
        return self._plan[1]

    def losses(self, waves: list[Wave]) -> Vector:
        """A float64 for every unit."""
        return self.device.scratch(OWNER).buffer("losses", (waves[-1].last_unit, 1), np.float64)

    def total(
        self, waves: list[Wave], width: int, dtype: DTypeLike, compute: Callable[[Wave, Vector], None], folded: int = 0
    ) -> Vector:
        """Post it: compute(wave, rows) fills a row of `width` numbers for every unit; the root of their tree.

        With a single wave nothing here waits for the device. `folded`: levels of the tree that `compute` folds itself.
        """
        units = waves[-1].last_unit
        key = width, units.bit_length(), np.dtype(dtype)
        if key not in self._sums:
            self._sums[key] = self.device.tree_sum(width, units, dtype)
        total = self._sums[key]
        total.start(waves[0].first_unit)
        for wave in waves:
            self.device.join()  # what is filled before it is posted must not be in use
            shape = wave.last_unit - wave.first_unit, width
            rows = self.device.scratch(OWNER).buffer(f"rows of {np.dtype(dtype)}", shape, dtype)
            compute(wave, rows)
            total.push(rows, folded)
        return total.finish()
