"""What the optimizers of all devices share: the numbers of a step, and what a step reports."""

from __future__ import annotations

import math
from typing import NamedTuple

from samebits.arithmetic.elementary import power
from samebits.config import TrainConfig


class StepInfo(NamedTuple):
    norm: float  # of the gradient as it came, before any clipping
    finite: bool  # the gradient, and the parameters after the update


def hyper_of(config: TrainConfig, count: float, step: int, lr: float) -> tuple[float, ...]:
    """The numbers of a step, in the order in which clip_slice and adamw_slice look them up."""
    b1, b2 = config.beta1, config.beta2
    return (
        1 / count, config.clip_element or math.inf, b1, 1 - b1, b2, 1 - b2,
        1 / (1 - power(b1, step + 1)), 1 / (1 - power(b2, step + 1)), config.eps, lr, config.weight_decay,
    )  # fmt: skip
