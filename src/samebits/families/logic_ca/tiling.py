"""How the cells of a batch are cut into groups and units: a function of sizes and the config's lanes, nothing else."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.families.logic_ca.config import POSITIONS
from samebits.training.contract import Wave
from samebits.training.units import near_equal


class Tiling(NamedTuple):
    """Cells are numbered sample by sample. A group is a run of whole samples, a unit (tile) a run of its cells."""

    group_samples: Array  # (groups + 1,) first sample of each group
    group_tiles: Array  # (groups,)
    tiles: Array  # (units + 1,) first cell of each unit
    across: Array  # (units,) the units, first tiles of all groups first: the order for more workers than groups

    @property
    def units(self) -> int:
        return len(self.tiles) - 1


@lru_cache(maxsize=32)
def tiling(samples: int, cells: int, lanes: int) -> Tiling:
    """Near-equal tiles of at most `lanes` cells; samples smaller than a tile share one."""
    together = max(1, lanes // cells)
    groups = -(-samples // together)
    per_group = -(-cells // lanes)
    group_samples = near_equal(samples, groups)
    if together > 1:
        tiles = group_samples * cells
    else:
        cuts = near_equal(cells, per_group)[:-1]
        tiles = np.append((np.arange(samples)[:, None] * cells + cuts).ravel(), samples * cells)
    group_tiles = np.full(groups, per_group, np.int64)
    return Tiling(group_samples, group_tiles, tiles.astype(np.int64), _across(groups, per_group))


def _across(groups: int, per_group: int) -> Array:
    return np.arange(groups * per_group, dtype=np.int64).reshape(groups, per_group).T.ravel()


@lru_cache(maxsize=32)
def wave_tiling(samples: int, cells: int, lanes: int, wave: Wave) -> tuple[slice, Tiling]:
    """The samples of a wave, and its part of the step's plan."""
    plan = tiling(samples, cells, lanes)
    first, last = plan.group_samples[[wave.first_group, wave.last_group]]
    return slice(first, last), of_wave(plan, wave)


def of_wave(plan: Tiling, wave: Wave) -> Tiling:
    """The wave's part of the step's plan, numbered from 0: cut out of it, never planned anew, so no tile changes."""
    samples = plan.group_samples[wave.first_group : wave.last_group + 1]
    tiles = plan.tiles[wave.first_unit : wave.last_unit + 1]
    group_tiles = plan.group_tiles[wave.first_group : wave.last_group]
    across = _across(len(group_tiles), int(group_tiles[0]))
    return Tiling(samples - samples[0], group_tiles, tiles - tiles[0], across)


ROW = 16  # floats in a cache line: rows of cells start on one, so that tiles share as few lines as can be


def column_count(samples: int, cells: int) -> int:
    """The cells and at least one column that stays zero: the cell outside the grid."""
    return -(-(samples * cells + 1) // ROW) * ROW


@lru_cache(maxsize=32)
def _waits(samples: int, height: int, width: int, periodic: bool, tiles: bytes) -> tuple[Array, Array]:
    cuts = np.frombuffer(tiles, np.int64)
    units = len(cuts) - 1
    # The column outside the grid belongs to nobody: it is sent to the cell's own unit.
    owner = np.append(np.repeat(np.arange(units), np.diff(cuts)), 0)
    columns = neighbour_columns(samples, height, width, periodic).astype(np.int64)
    cells = np.arange(columns.shape[1])
    columns = np.where(columns == len(cells), cells, columns)
    pairs = np.unique(owner[cells] * units + owner[columns])
    starts = np.searchsorted(pairs // units, np.arange(units + 1))
    return starts.astype(np.int64), (pairs % units).astype(np.int64)


def waits(plan: Tiling, samples: int, height: int, width: int, periodic: bool) -> tuple[Array, Array]:
    """For every unit, the units that hold neighbours of its cells, itself too: (units + 1,) starts, and the list."""
    return _waits(samples, height, width, periodic, plan.tiles.tobytes())


@lru_cache(maxsize=8)
def neighbour_columns(samples: int, height: int, width: int, periodic: bool) -> Array:
    """(9, S·N) uint32: the column of every cell's nine neighbours; S·N, a zero, for those outside the grid."""
    rows = np.arange(height)[:, None] + np.zeros(width, np.int64)
    columns = np.zeros((height, 1), np.int64) + np.arange(width)
    found = np.empty((POSITIONS, samples, height * width), np.int64)
    first_cell = np.arange(samples)[:, None] * (height * width)
    for p in range(POSITIONS):
        y, x = rows + p // 3 - 1, columns + p % 3 - 1
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        cell = ((y % height) * width + x % width).ravel()
        found[p] = first_cell + cell
        if not periodic:
            found[p, :, ~inside.ravel()] = samples * height * width
    return found.reshape(POSITIONS, -1).astype(np.uint32)


@lru_cache(maxsize=8)
def _seats(samples: int, height: int, width: int, periodic: bool, channels: int, lanes: int, tiles: bytes) -> Array:
    cuts, tile = np.frombuffer(tiles, np.int64), POSITIONS * channels * lanes
    units = len(cuts) - 1
    sizes = np.diff(cuts)
    lane = np.arange(cuts[-1]) - np.repeat(cuts[:-1], sizes)
    of_column = np.append(np.repeat(np.arange(units), sizes) * tile + lane, units * tile)
    # I am neighbour p of my own neighbour 8 − p.
    return of_column[neighbour_columns(samples, height, width, periodic)[::-1]]


def seats(plan: Tiling, samples: int, height: int, width: int, periodic: bool, channels: int, lanes: int) -> Array:
    """(9, S·N) where in the gradients of patches, tile by tile, the row of the cell begins that sees me at p."""
    return _seats(samples, height, width, periodic, channels, lanes, plan.tiles.tobytes())
