"""Waves: how many groups are in flight at once. Groups and units are fixed by the family; a wave cuts only between
groups, so its size changes the memory in use and nothing else."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.errors import SamebitsError
from samebits.training.contract import Wave

MEGABYTE = 1 << 20


def plan_waves(
    units_per_group: Array, unit_bytes: int, group_bytes: int, slot_memory: int, micro_batches: int = 1
) -> list[Wave]:
    """Cut the groups of a step into `micro_batches` near-equal parts, and those into waves that fit `slot_memory`."""
    units = np.asarray(units_per_group, np.int64)
    costs = units * unit_bytes + group_bytes
    budget = slot_memory * MEGABYTE
    if costs.max() > budget:
        need = -(-int(costs.max()) // MEGABYTE)
        raise SamebitsError(
            f"slot_memory is {slot_memory} MB; one group of samples alone needs {need} MB; "
            f"set slot_memory to at least {need} (--set slot_memory={need})"
        )
    first_units = np.concatenate([[0], np.cumsum(units)])
    waves: list[Wave] = []
    for start, part_end in pairwise(near_equal(len(units), min(micro_batches, len(units))).tolist()):
        while start < part_end:
            fits = int(np.searchsorted(np.cumsum(costs[start:part_end]), budget, side="right"))
            end = start + fits
            waves.append(Wave(start, end, int(first_units[start]), int(first_units[end])))
            start = end
    return waves


def near_equal(total: int, parts: int) -> Array:
    """Cut `total` things into `parts` pieces that differ by at most one: the starts, and the end."""
    return (np.arange(parts + 1, dtype=np.int64) * total) // parts
