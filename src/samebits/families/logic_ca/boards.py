"""A wave's part of a batch: its samples, and its tiles of the step's plan."""

from __future__ import annotations

from samebits.families.logic_ca.config import LogicConfig
from samebits.families.logic_ca.data import Boards
from samebits.families.logic_ca.tiling import Tiling, wave_tiling
from samebits.training.contract import Batch, Wave


def sizes(config: LogicConfig, batch: Batch) -> tuple[int, int, int]:
    """Samples, cells of each, most cells of a tile."""
    _, height, width, _ = batch.arrays.grids.shape
    return batch.samples, height * width, config.lanes


def cut(config: LogicConfig, batch: Batch, wave: Wave) -> tuple[Boards, Tiling]:
    samples, plan = wave_tiling(*sizes(config, batch), wave)
    boards = batch.arrays
    return Boards(boards.grids[samples], boards.targets[samples], boards.acts, boards.hard), plan
