"""Starts and targets. Every start is a function of (seed, purpose, step, sample)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array
from samebits.arithmetic.rng import Purpose
from samebits.families.logic_ca import rules
from samebits.families.logic_ca.config import LogicConfig, gate_count
from samebits.families.logic_ca.pictures import split, to_bits
from samebits.families.logic_ca.reach import start_picture
from samebits.training.contract import Batch

LIFE_PATTERNS = 512  # of a 3×3 grid
FIRE, HARDEN, REPAIR, DAMAGE = 4, 6, 7, 8  # purposes of our own draws, beside the engine's


KEEPS, TAKES, DIES = 0, 1, 2  # what a cell does at a CA step: it keeps its state, takes the new one, or is cleared


@dataclass(frozen=True)
class Drawn:
    """What cells do when, by all that it is drawn by: whoever computes a batch draws it, a GPU by itself."""

    seed: int
    purpose: int
    step: int
    ca_steps: int
    height: int
    width: int
    fire_rate: float
    damage: int
    damage_after: int

    @cached_property
    def table(self) -> Array:
        """(ca_steps, cells), damage included."""
        shape, origin = (self.ca_steps, self.height * self.width), (self.seed, self.purpose, self.step)
        found = fire_table(shape, self.fire_rate, *origin) if self.fire_rate < 1 else np.full(shape, TAKES, np.uint8)
        if self.damage:
            y, x = (self._struck_from(axis, size) for axis, size in enumerate((self.height, self.width)))
            struck = found[self.damage_after - 1].reshape(self.height, self.width)
            struck[y : y + self.damage, x : x + self.damage] = DIES
        return found

    def _struck_from(self, axis: int, size: int) -> int:
        """Where damage begins in rows (axis 0) or columns."""
        places = size - self.damage + 1
        return int(rng.integers((1, 1), places, self.seed, DAMAGE, self.step, axis, self.purpose)[0, 0])


class Boards(NamedTuple):
    """grids (B, H, W, C) and targets (B, H, W, k), float32, 0 and 1."""

    grids: Array
    targets: Array
    acts: Array | Drawn
    hard: Array  # (G,) gates that compute hard in this training step, or empty

    @property
    def fire(self) -> Array:
        """(T, N) uint8: what every cell does at each CA step; empty if all take."""
        return table_of(self.acts)


ALWAYS = np.zeros((0, 0), np.uint8)  # no mask: every cell fires
ALL_SOFT = np.zeros(0, bool)  # no gate is hardened


class LogicData(NamedTuple):
    patterns: Boards | None  # Life on 3×3: all 512 starts, and what becomes of them
    target: Array | None  # (n, H, W, k) pictures; None for rules like Life, where it follows from the start


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
    if config.follows_cells:
        if (config.height, config.width) != (3, 3):
            return LogicData(None, None)
        starts = life_patterns()
        return LogicData(Boards(starts, rules.rollout(config.rule, starts, config.ca_steps), ALWAYS, ALL_SOFT), None)
    if config.rule == "grow":
        return LogicData(None, np.stack([to_bits(picture) for picture in split(config.target)]))
    return LogicData(None, checkerboard(config.height, config.width, config.square)[None])


def random_grids(
    config: LogicConfig, count: int, purpose: int, step: int, size: tuple[int, int] | None = None
) -> Array:
    """`count` grids of random bits; sample i depends on i, not on how many are drawn."""
    height, width = size or (config.height, config.width)
    drawn = rng.bits((count, height * width * config.channels), config.seed, purpose, step)
    return drawn.astype(np.float32).reshape(count, height, width, config.channels)


def start_grids(config: LogicConfig, count: int, purpose: int, step: int, size: tuple[int, int] | None = None) -> Array:
    """Where the cells begin: random bits, or what the config says; with `any` one sample so, the others random."""
    if not config.draws_starts:
        return told_grids(config, count, purpose, step, size)
    grids = random_grids(config, count, purpose, step, size)
    if config.start == "any":
        grids[:1] = told_grids(config, 1, purpose, step, size)
    return grids


def told_grids(config: LogicConfig, count: int, purpose: int, step: int, size: tuple[int, int] | None = None) -> Array:
    """Starts that the config says, in the middle of a larger grid."""
    height, width = size or (config.height, config.width)
    grids = np.zeros((count, height, width, config.channels), np.float32)
    y, x = height // 2 - config.height // 2, width // 2 - config.width // 2
    for grid, number in zip(grids, picture_numbers(config, count, purpose, step), strict=True):
        # A grid that is smaller than the picture has the middle of its start.
        start = start_picture(config, int(number))[max(0, -y) : max(0, -y) + height, max(0, -x) : max(0, -x) + width]
        grid[max(0, y) : max(0, y) + start.shape[0], max(0, x) : max(0, x) + start.shape[1]] = start
    return grids


def picture_numbers(config: LogicConfig, count: int, purpose: int, step: int) -> Array:
    """(count,) which of several pictures these samples are: in turn over the steps of training; for a look, by seed."""
    first = {int(Purpose.BATCH): step * config.batch_size, int(Purpose.RENDER): config.seed}.get(int(purpose), 0)
    return (first + np.arange(count)) % config.pictures


def fire_masks(
    config: LogicConfig, purpose: int, step: int, ca_steps: int, cells: int, rate: float | None = None
) -> Array:
    """(ca_steps, cells) uint8: who updates when. One mask for all channels and samples, soft and hard alike."""
    chance = config.fire_rate if rate is None else rate
    return ALWAYS if chance >= 1 else fire_table((ca_steps, cells), chance, config.seed, int(purpose), step)


def fire_table(shape: tuple[int, int], chance: float, seed: int, purpose: int, step: int) -> Array:
    return (rng.words(shape, seed, FIRE, step, extra=purpose) < fire_limit(chance)).astype(np.uint8)


def fire_limit(chance: float) -> np.uint64:
    """Words below it fire."""
    return np.uint64(chance * 2.0**64)


def actions(config: LogicConfig, purpose: int, step: int) -> Drawn | Array:
    """What every cell does when; empty where all cells update all the time."""
    if config.fire_rate >= 1 and not config.damage:
        return ALWAYS
    origin = config.seed, int(purpose), step, config.ca_steps, config.height, config.width
    return Drawn(*origin, config.fire_rate, config.damage, config.damage_after)


def table_of(acts: Drawn | Array) -> Array:
    return acts.table if isinstance(acts, Drawn) else acts


def judged(config: LogicConfig) -> Array:
    """(ca_steps,) uint8: after which CA steps the picture counts."""
    found = np.zeros(config.ca_steps, np.uint8)
    found[[step - 1 for step in config.loss_steps or (config.ca_steps,)]] = 1
    return found


def hardened(config: LogicConfig, step: int) -> Array:
    """(G,) gates that compute hard in this step: each with a chance that rises from 0 to 1 late in training.

    A soft circuit can be right without its gates being decided. Training through more and more decided gates, with the
    soft gradient (straight-through), closes the gap while there is still time to repair what it breaks.
    """
    if config.harden_from >= 1 or config.schedule_steps is None:
        return ALL_SOFT
    share = (step / config.schedule_steps - config.harden_from) / max(1e-9, config.harden_full - config.harden_from)
    if share <= 0:
        return ALL_SOFT
    drawn = rng.words((1, gate_count(config)), config.seed, HARDEN, step)[0] >> np.uint64(11)
    return (drawn.astype(np.float64) + 0.5) * 2.0**-53 < share


def as_batch(config: LogicConfig, grids: Array, targets: Array, purpose: Purpose, step: int) -> Batch:
    """The loss is a sum over samples, as published: nothing to divide by."""
    hard = hardened(config, step) if purpose == Purpose.BATCH else ALL_SOFT
    return Batch(Boards(grids, targets, actions(config, purpose, step), hard), len(grids), 1.0)


def draw_acts(batch: Batch) -> None:
    """Ahead of time, for a device that does not draw itself."""
    _ = batch.arrays.fire


def targets_of(config: LogicConfig, data: LogicData, grids: Array, purpose: int, step: int) -> Array:
    """What should become of these starts."""
    if data.target is None:
        return rules.rollout(config.rule, grids, config.ca_steps)
    return data.target[picture_numbers(config, len(grids), purpose, step)]


def with_targets(config: LogicConfig, data: LogicData, grids: Array, purpose: Purpose, step: int) -> Batch:
    return as_batch(config, grids, targets_of(config, data, grids, purpose, step), purpose, step)


def batch(config: LogicConfig, data: LogicData, step: int) -> Batch:
    """The starts of one training step."""
    if data.patterns is not None:
        chosen = rng.integers((1, config.batch_size), LIFE_PATTERNS, config.seed, Purpose.BATCH, step)[0]
        return as_batch(config, data.patterns.grids[chosen], data.patterns.targets[chosen], Purpose.BATCH, step)
    grids = start_grids(config, config.batch_size, Purpose.BATCH, step)
    return with_targets(config, data, grids, Purpose.BATCH, step)


def evaluation_count(config: LogicConfig, full: bool) -> int:
    """How many starts an evaluation has."""
    if config.rule == "life" and (config.height, config.width) == (3, 3):
        return LIFE_PATTERNS
    if not config.draws_starts:
        return config.pictures
    return max(64, config.eval_samples) if full else config.eval_samples


def cells_judged(config: LogicConfig) -> dict[str, float]:
    """Over how many cells, of how many channels, each loss of metrics.csv is a sum."""
    cells = config.height * config.width * config.target_channels
    batch, judged = float(config.batch_size * cells), float(evaluation_count(config, False) * cells)
    return {"soft_loss": batch, "hard_loss": batch, "eval_soft_loss": judged, "eval_hard_loss": judged}


def evaluation(config: LogicConfig, data: LogicData, full: bool) -> Batch:
    """All 512 patterns for Life, the one start of a picture; otherwise random starts that training does not draw."""
    if data.patterns is not None:
        return as_batch(config, data.patterns.grids, data.patterns.targets, Purpose.EVALUATION, 0)
    grids = start_grids(config, evaluation_count(config, full), Purpose.EVALUATION, 0)
    return with_targets(config, data, grids, Purpose.EVALUATION, 0)


def repair_boards(config: LogicConfig, data: LogicData, count: int) -> tuple[Array, Array]:
    """Starts and targets that the repaired circuit is judged by: `count` random ones, or all there are."""
    if data.patterns is not None:
        return data.patterns.grids, data.patterns.targets
    grids = start_grids(config, count if config.draws_starts else config.pictures, REPAIR, 0)
    return grids, targets_of(config, data, grids, REPAIR, 0)
