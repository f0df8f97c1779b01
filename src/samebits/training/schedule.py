"""Learning-rate schedules: a function of the config, the step and, for `plateau`, of earlier evaluations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field, with_config

from samebits.arithmetic.elementary import cos_sin, power
from samebits.checks import MOST
from samebits.config import TrainConfig


@with_config(ConfigDict(extra="forbid", strict=True, allow_inf_nan=False))  # it is in state.json
@dataclass
class Plateau:
    """The one schedule with a memory: halve (say) the rate when the evaluation stops improving."""

    best: float | None = None
    waited: Annotated[int, Field(ge=0, le=MOST)] = 0
    cuts: Annotated[int, Field(ge=0, le=MOST)] = 0

    def observe(self, config: TrainConfig, value: float) -> None:
        if math.isfinite(value) and (self.best is None or value < self.best):
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= config.plateau_patience and self.cuts < config.plateau_cuts:
            self.waited, self.cuts = 0, self.cuts + 1


def learning_rate(config: TrainConfig, step: int, plateau: Plateau) -> float:
    """The rate of step `step` (from 0): linear warm-up, then the schedule; past schedule_steps the last rate holds."""
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.lr
    if config.schedule == "plateau":
        return max(config.min_lr, config.lr * power(config.plateau_factor, plateau.cuts))
    assert config.schedule_steps is not None, "schedule_steps is resolved when training starts"
    total = config.schedule_steps
    start = config.warmup_steps if config.schedule == "cosine" else max(config.warmup_steps, int(config.hold * total))
    if step < start or start >= total:
        return config.lr
    progress = (min(step, total - 1) - start) / (total - start)
    return config.min_lr + (config.lr - config.min_lr) * 0.5 * (1 + cos_sin(progress / 2)[0])
