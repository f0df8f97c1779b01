"""Starts and targets. Every start is a function of (seed, purpose, step, sample)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.engine import rng
from weft.engine.arrays import Array
from weft.engine.family import Batch
from weft.engine.rng import Purpose
from weft.families.logic_ca.config import LogicConfig

LIFE_PATTERNS = 512  # of a 3×3 grid


class Boards(NamedTuple):
    """grids (B, H, W, C) and targets (B, H, W, k), float32, values 0 and 1."""

    grids: Array
    targets: Array


class LogicData(NamedTuple):
    patterns: Boards | None  # Life on 3×3: all 512 starts, and what becomes of them
    target: Array | None  # checkerboard: (H, W, 1)


def checkerboard(height: int, width: int, square: int) -> Array:
    """(H, W, 1): squares of 0 and 1; the upper left one is 0."""
    rows, columns = np.arange(height)[:, None] // square, np.arange(width)[None, :] // square
    return ((rows + columns) % 2).astype(np.float32)[..., None]


def life_patterns() -> Array:
    """(512, 3, 3, 1): the bits of the board's number, most significant first, row-major."""
    numbers = np.arange(LIFE_PATTERNS)[:, None] >> np.arange(8, -1, -1)
    return (numbers & 1).astype(np.float32).reshape(-1, 3, 3, 1)


def life_step(grids: Array) -> Array:
    """Conway's rule on periodic grids (B, H, W, 1)."""
    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    neighbours = sum(np.roll(grids, shift, axis=(1, 2)) for shift in shifts)
    return ((neighbours == 3) | ((neighbours == 2) & (grids == 1))).astype(grids.dtype)


def life_rollout(grids: Array, steps: int) -> Array:
    for _ in range(steps):
        grids = life_step(grids)
    return grids


def load(config: LogicConfig) -> LogicData:
    if config.rule == "life":
        if (config.height, config.width) != (3, 3):
            return LogicData(None, None)
        starts = life_patterns()
        return LogicData(Boards(starts, life_rollout(starts, config.ca_steps)), None)
    return LogicData(None, checkerboard(config.height, config.width, config.square))


def random_grids(
    config: LogicConfig, count: int, purpose: Purpose, step: int, size: tuple[int, int] | None = None
) -> Array:
    """`count` grids of random bits; sample i depends on i, not on how many are drawn."""
    height, width = size or (config.height, config.width)
    drawn = rng.bits((count, height * width * config.channels), config.seed, purpose, step)
    return drawn.astype(np.float32).reshape(count, height, width, config.channels)


def as_batch(grids: Array, targets: Array) -> Batch:
    """The loss is a sum over samples, as published: nothing to divide by."""
    return Batch(Boards(grids, targets), len(grids), 1.0)


def with_targets(config: LogicConfig, data: LogicData, grids: Array) -> Batch:
    if data.target is None:
        targets = life_rollout(grids, config.ca_steps)
    else:
        targets = np.broadcast_to(data.target, (len(grids), *data.target.shape))
    return as_batch(grids, targets)


def batch(config: LogicConfig, data: LogicData, step: int) -> Batch:
    """The starts of one training step."""
    if data.patterns is not None:
        chosen = rng.integers((1, config.batch_size), LIFE_PATTERNS, config.seed, Purpose.BATCH, step)[0]
        return as_batch(data.patterns.grids[chosen], data.patterns.targets[chosen])
    return with_targets(config, data, random_grids(config, config.batch_size, Purpose.BATCH, step))


def evaluation(config: LogicConfig, data: LogicData, full: bool) -> Batch:
    """All 512 patterns for Life; otherwise random starts that training does not draw."""
    if data.patterns is not None:
        return as_batch(*data.patterns)
    count = max(64, config.eval_samples) if full else config.eval_samples
    return with_targets(config, data, random_grids(config, count, Purpose.EVALUATION, 0))
