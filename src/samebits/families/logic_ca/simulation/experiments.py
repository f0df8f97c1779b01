"""The paper's experiments with a trained automaton: larger grids, longer times, damage, asynchronous cells.

All of them run the learned circuit, bit-packed (packed.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array
from samebits.arithmetic.rng import Purpose
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families.logic_ca import data, rules
from samebits.families.logic_ca.config import LogicConfig
from samebits.families.logic_ca.model import LogicModel
from samebits.families.logic_ca.pictures import LETTER, LIZARD, split, to_bits
from samebits.families.logic_ca.simulation.packed import simulate
from samebits.printing import shown

ASYNC_RATE = 0.6  # of the paper
BOARDS = ((16, 16, 2), (14, 14, 2))  # its checkerboards: height, width, squares
SCALE = 4  # "four times larger, for four times the steps"
DAMAGE_SIDE, DAMAGE_GRID = 10, 64
ROBUST_STEPS, ROBUST_SETTLE = 4000, 200
SOUPS, SOUP_SIDE, SOUP_STEPS = 4, 64, 100
LARGE_LIFE, LARGE_LIFE_STEPS = 128, 300
STAY_STEPS, HURTS = 1000, 100
HURT_SIDE = 4  # of what should heal from anything


@dataclass(frozen=True)
class Damage:
    """A block in the middle of the grid, kept at zero from step `first` to step `last`."""

    height: int
    width: int
    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Damage:
        found = re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})@([0-9]{1,9})-([0-9]{1,9})", text.strip().lower())
        if not found:
            raise SamebitsError(
                f"damage is {shown(text)}; it must be HEIGHTxWIDTH@FIRST-LAST; for example --damage 20x20@20-60"
            )
        return cls(*(int(part) for part in found.groups()))

    def rectangles(self, steps: int, size: tuple[int, int]) -> Array:
        """(steps, 4): y, x, height, width to clear after each CA step; height 0 where nothing happens."""
        if not (1 <= self.height <= size[0] and 1 <= self.width <= size[1]):
            raise SamebitsError(
                f"damage is {self.height}x{self.width} cells; the grid is {size[0]}x{size[1]}; choose a block that fits"
            )
        if not 1 <= self.first <= self.last <= steps:
            raise SamebitsError(
                f"damage lasts from step {self.first} to {self.last}; it must lie within steps 1 to {steps}; fix it"
            )
        found = np.zeros((steps, 4), np.int64)
        middle = ((size[0] - self.height) // 2, (size[1] - self.width) // 2, self.height, self.width)
        found[self.first - 1 : self.last] = middle
        return found


def random_rectangles(steps: int, size: tuple[int, int], side: int, seed: int) -> Array:
    """(steps, 4): a square of `side` cells at another random place after every step."""
    drawn = rng.words((steps, 2), seed, Purpose.EVALUATION, 0, extra=2)
    places = ((drawn >> np.uint64(32)) * (np.array(size, np.uint64) - np.uint64(side) + np.uint64(1))) >> np.uint64(32)
    return np.column_stack([places.astype(np.int64), np.full((steps, 2), side, np.int64)])


def fire_grid(
    config: LogicConfig, rate: float, steps: int, size: tuple[int, int], purpose: Purpose, step: int = 0
) -> Any:
    """(steps, H, W) masks for packed.simulate, or None when every cell fires."""
    masks = data.fire_masks(config, purpose, step, steps, size[0] * size[1], rate)
    return masks.reshape(steps, *size).astype(bool) if masks.size else None


def wanted_picture(config: LogicConfig, size: tuple[int, int], number: int = 0) -> Array:
    """What the visible channels should show on a grid of this size, (H, W, k); of several pictures this one."""
    if config.rule == "checkerboard":
        return data.checkerboard(*size, config.square)
    picture = to_bits(split(config.target)[number])
    found = np.zeros((*size, picture.shape[-1]), np.float32)
    y, x = size[0] // 2 - config.height // 2, size[1] // 2 - config.width // 2
    found[y : y + config.height, x : x + config.width] = picture
    return found


def settled_mean(curve: Array) -> int:
    """Mean wrong cells once the first steps, from noise, are over."""
    return round(float(curve[ROBUST_SETTLE:].mean()))


class Experiments:
    """Runs one model's experiments and collects the rows of `samebits eval`."""

    def __init__(self, model: LogicModel, workers: Workers) -> None:
        self.model, self.workers, self.rows = model, workers, list[dict[str, Any]]()
        config = model.config
        self.size = (config.height, config.width)
        self.rate = config.fire_rate
        # Of a board of other squares, or a picture of one's own, nothing was published.
        board = config.rule == "checkerboard" and (config.height, config.width, config.square) in BOARDS
        self.published = board or config.rule == "life" or config.target in (LIZARD, LETTER)

    def final(self, grids: Array, steps: int, rate: float | None = None, damage: Array | None = None) -> Array:
        """The visible channels after `steps` steps of the learned circuit."""
        size = (grids.shape[1], grids.shape[2])
        fire = fire_grid(self.model.config, self.rate if rate is None else rate, steps, size, Purpose.EVALUATION)
        periodic = self.model.config.boundary == "periodic"
        after = simulate(self.model.circuit, grids, steps, periodic, self.workers, fire=fire, damage=damage)
        return np.asarray(after)[..., : self.model.config.target_channels]

    def judge(self, test: str, found: Array, wanted: Array, published: str) -> None:
        wrong = int((found != wanted).sum())
        total = int(np.broadcast(found, wanted).size)
        self.note(test, wrong, total, published)

    def note(self, test: str, wrong: int, total: int, published: str) -> None:
        told = published if self.published else ""
        self.rows.append({"test": test, "wrong cells": wrong, "of": total, "published": told})

    def starts(self, count: int, size: tuple[int, int]) -> Array:
        return data.start_grids(self.model.config, count, Purpose.EVALUATION, 0, size)

    def checkerboard(self) -> dict[str, Array]:
        """The robustness curve of this model, after its rows."""
        config = self.model.config
        steps, size = config.ca_steps, self.size
        self.judge(
            f"64 unseen starts, {steps} steps",
            self.final(self.starts(64, size), steps),
            wanted_picture(self.model.config, size),
            "0",
        )
        large, long = (SCALE * 16, SCALE * 16), SCALE * steps
        goal, start = wanted_picture(self.model.config, large), self.starts(1, large)
        self.judge(f"64×64 grid, {long} steps", self.final(start, long), goal, "0")
        for side in (10, 20):
            damage = Damage(side, side, long // 4, long // 4 * 3)
            healed = self.final(start, 2 * long, damage=damage.rectangles(2 * long, large))
            self.judge(f"64×64, {side}×{side} block cleared for {long // 2} steps, then healing", healed, goal, "0")
        damage = Damage(20, 20, long // 4, long)
        outside = self.final(start, long, damage=damage.rectangles(long, large))
        middle = slice(22, 42)
        outside[:, middle, middle] = goal[middle, middle]
        published = "0" if self.rate < 1 else "18"
        self.judge("64×64, 20×20 block cleared all along: errors outside it", outside, goal, published)
        other, name = (ASYNC_RATE, "asynchronously (0.6)") if self.rate >= 1 else (1.0, "synchronously")
        self.judge(f"64×64 run {name}, {2 * long} steps", self.final(start, 2 * long, rate=other), goal, "works")
        curve = self.robustness(self.rate)
        self.judge_damaged(self.rate, curve, "666" if self.rate < 1 else "1,164")
        # The other way too: cells that update less often heal more slowly, so compare automata that are run alike.
        self.judge_damaged(other, self.robustness(other), "")
        way = "asynchronous" if self.rate < 1 else "synchronous"
        return {f"{way}, mean {settled_mean(curve):,} from step {ROBUST_SETTLE} on": curve}

    def judge_damaged(self, rate: float, curve: Array, published: str) -> None:
        test = (
            f"64×64, a random 10×10 square cleared every step, run {'a' if rate < 1 else ''}synchronously: mean errors"
        )
        self.note(test, settled_mean(curve), DAMAGE_GRID**2, published)

    def robustness(self, rate: float) -> Array:
        """Wrong cells after each of 4,000 steps while a random 10×10 square is cleared at every step."""
        size = (DAMAGE_GRID, DAMAGE_GRID)
        damage = random_rectangles(ROBUST_STEPS, size, DAMAGE_SIDE, self.model.config.seed)
        fire = fire_grid(self.model.config, rate, ROBUST_STEPS, size, Purpose.EVALUATION, 1)
        periodic = self.model.config.boundary == "periodic"
        _, frames = simulate(
            self.model.circuit,
            self.starts(1, size),
            ROBUST_STEPS,
            periodic,
            self.workers,
            fire=fire,
            damage=damage,
            every=1,
        )
        return (frames[1:, 0] != wanted_picture(self.model.config, size)).sum(axis=(1, 2, 3)).astype(np.float64)

    def life(self) -> None:
        rule, patterns = self.model.config.rule, data.life_patterns()
        published = "0" if rule == "life" else "–"
        self.judge("all 512 patterns, 1 step", self.final(patterns, 1), rules.rollout(rule, patterns, 1), published)
        for count, side, steps in ((SOUPS, SOUP_SIDE, SOUP_STEPS), (1, LARGE_LIFE, LARGE_LIFE_STEPS)):
            soups = data.random_grids(self.model.config, count, Purpose.EVALUATION, 1, (side, side))
            plural = "s" if count > 1 else ""
            title = f"{count} random {side}×{side} soup{plural}, {steps} steps"
            self.judge(title, self.final(soups, steps), rules.rollout(rule, soups, steps), published)

    def grow(self) -> None:
        config = self.model.config
        numbers = range(config.pictures)
        sizes = [self.size]
        if not (config.start == "zeros" or config.draws_starts):  # which find their place from the border
            sizes.append((2 * config.height, 2 * config.width))
        for size in sizes:
            starts, wanted = self.starts(config.pictures, size), [wanted_picture(config, size, i) for i in numbers]
            published = {"centre": "0", "zeros": "4-7 wrong bits in re-runs"}.get(str(config.start), "–")
            title = f"grown on {size[0]}×{size[1]}, {config.ca_steps} steps"
            self.judge(title, self.final(starts, config.ca_steps), np.stack(wanted), published)
            if config.loss_steps:
                found = self.final(starts, STAY_STEPS)
                self.judge(f"… and still there after {STAY_STEPS:,} steps", found, np.stack(wanted), "–")
        if config.draws_starts:
            found = self.final(self.starts(64, self.size), config.ca_steps)
            title = f"64 unseen starts, {config.ca_steps} steps"
            self.judge(title, found, wanted_picture(config, self.size), "–")
        if config.damage:
            self.healing(config.damage, config.damage_after, config.ca_steps)
        if config.start == "any":  # which is trained by what is worse than any damage
            side = min(HURT_SIDE, *self.size)
            self.healing(side, config.ca_steps, 2 * config.ca_steps)

    def healing(self, side: int, after: int, judged: int) -> None:
        """Hurt at many places, once, after a step; and then left alone until the step `judged`, and for long."""
        config, goal = self.model.config, wanted_picture(self.model.config, self.size)
        start = self.starts(1, self.size)
        for steps in (judged, after + STAY_STEPS):
            found = []
            for place in random_rectangles(HURTS, self.size, side, config.seed):
                damage = np.zeros((steps, 4), np.int64)
                damage[after - 1] = place
                found.append(self.final(start, steps, damage=damage)[0])
            title = f"{HURTS} times a {side}×{side} square cleared after step {after}"
            self.judge(f"{title}, {steps:,} steps", np.stack(found), goal, "–")
