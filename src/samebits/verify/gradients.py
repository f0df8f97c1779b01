"""Hold the compiled gradients to the plain reference: central differences in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.config import TrainConfig
from samebits.devices.cpu.workers import Workers
from samebits.training.contract import Batch, Constants, Family
from samebits.training.params import spans
from samebits.training.trainer import Trainer

# Rounding spoils a small step where the loss is large and its slope small, curvature a large one: the better of both
# counts. A wrong gradient agrees with neither.
STEPS = (1e-3, 1e-4)
TOLERANCE = 1e-6  # relative; a larger error is a wrong gradient
GOOD = 1e-7  # good enough not to try the next step


def spread_params(family: Family, config: TrainConfig, seed: int = 0) -> Array:
    """Initial parameters with noise on them, so that no gradient is zero by symmetry or saturation."""
    start = family.init(config, np.float64)
    return start * 0.2 + np.random.default_rng(seed).normal(0, 0.5, start.size)


def compiled_gradient(
    family: Family, config: TrainConfig, params: Array, workers: int = 1
) -> tuple[float, Array, Batch, Constants]:
    """Loss and gradient of the first training batch, in the precision of params."""
    with Workers(workers) as team:
        trainer = Trainer(family, config, team, params.dtype)
        trainer.params[:] = params
        batch = family.batch(config, trainer.data, 0)
        loss, gradient = trainer.loss_and_gradient(batch)
        return loss, gradient / batch.divisor, batch, trainer.constants


def _slope(function: Callable[[float], float], x: float, step: float) -> float:
    """Central difference of fourth order: its error falls with step⁴, so the step can stay far above rounding."""
    near = function(x + step) - function(x - step)
    far = function(x + 2 * step) - function(x - 2 * step)
    return (8 * near - far) / (12 * step)


def finite_difference_error(family: Family, config: TrainConfig, per_tensor: int = 4, seed: int = 0) -> float:
    """The largest error, relative to the largest slope of the tensor, over a few elements of every tensor."""
    params = spread_params(family, config, seed)
    _, gradient, batch, constants = compiled_gradient(family, config, params)
    draw = np.random.default_rng(seed)
    worst = 0.0
    for _, start, end, _ in spans(family.layout(config)):
        largest = float(np.abs(gradient[start:end]).max())
        likely = start + np.argsort(np.abs(gradient[start:end]))[-4 * per_tensor :]
        for index in draw.choice(likely, min(per_tensor, likely.size), replace=False):

            def loss_at(value: float, index: int = index) -> float:
                moved = params.copy()
                moved[index] = value
                return family.reference(config, constants, moved, batch)

            error = np.inf
            for step in STEPS:
                slope = _slope(loss_at, float(params[index]), step)
                error = min(error, abs(slope - gradient[index]) / (largest + 1e-12))
                if error < GOOD:
                    break
            worst = max(worst, error)
    return worst
