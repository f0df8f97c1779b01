"""Who computes which groups of a step, where several processes share one: a function of the step and their number.

Ranges are contiguous and end between groups. A range of units is a few nodes of the tree (merge.py), and nodes are what
travels, so a range ends where large nodes end if that costs hardly any balance.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from samebits.arithmetic.arrays import Array

SLACK = 16  # an end may lie this part of a share away from where equal shares would end


def shares(units_per_group: Array, ranks: int) -> list[tuple[int, int]]:
    """(first, last) group of every rank, last exclusive; where there are more ranks than groups, some have none."""
    ends = np.concatenate([[0], np.cumsum(units_per_group, dtype=np.int64)])
    cuts = [0, *(_cut(ends, rank, ranks) for rank in range(1, ranks)), len(ends) - 1]
    return list(pairwise(np.maximum.accumulate(cuts).tolist()))


def _cut(ends: Array, rank: int, ranks: int) -> int:
    """How many groups come before this rank: of the ends near enough, the one where the largest node ends."""
    share = int(ends[-1]) / ranks
    distance = np.abs(ends - rank * share)
    near = np.flatnonzero(distance <= share / SLACK)
    if not near.size:
        return int(np.argmin(distance))
    sizes = ends[near] & -ends[near]  # of the largest node that ends there
    best = near[sizes == sizes.max()]
    return int(best[np.argmin(distance[best])])
