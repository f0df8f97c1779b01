"""AdamW, clipping and learning-rate schedules, fused over the flat vector in slices of fixed length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weft.config import TrainConfig
from weft.engine.arrays import Array, aligned
from weft.engine.jit import kernel
from weft.engine.merge import INLINE_ELEMENTS, SLICE, sum_tree
from weft.engine.sync import claim
from weft.engine.workers import Workers


@kernel
def clip_slice(gradient: Array, norms: Array, hyper: Array) -> None:
    """Divide by the step's count and clip each element; norms[0] is the raw Σg² of the slice, norms[1] the clipped."""
    scale, limit = hyper[0], hyper[1]
    raw, clipped = 0.0, 0.0
    for j in range(gradient.size):
        g = gradient[j] * scale
        wide = np.float64(g)
        raw += wide * wide
        # Comparisons, not min and max: a NaN must stay a NaN.
        if g > limit:
            g = limit
        elif g < -limit:
            g = -limit
        wide = np.float64(g)
        clipped += wide * wide
        gradient[j] = g
    norms[0] = raw
    norms[1] = clipped


@kernel
def adamw_slice(params: Array, first: Array, second: Array, gradient: Array, norms: Array, hyper: Array) -> None:
    """Decoupled weight decay (Loshchilov & Hutter 2019); hyper holds the step's numbers."""
    scale, b1, one_b1, b2, one_b2 = hyper[2], hyper[3], hyper[4], hyper[5], hyper[6]
    unbias1, unbias2, eps, lr, decay = hyper[7], hyper[8], hyper[9], hyper[10], hyper[11]
    size = 0.0
    for j in range(params.size):
        g = gradient[j] * scale
        m = b1 * first[j] + one_b1 * g
        v = b2 * second[j] + one_b2 * g * g
        first[j] = m
        second[j] = v
        p = params[j]
        p -= lr * (m * unbias1 / (np.sqrt(v * unbias2) + eps) + decay * p)
        params[j] = p
        size += np.float64(abs(p))
    norms[0] = size  # not finite when one of them is not


@kernel
def clip_worker(worker: int, tickets: Array, gradient: Array, norms: Array, hyper: Array) -> None:
    while True:
        index = claim(tickets)
        start = index * SLICE
        if start >= gradient.size:
            break
        clip_slice(gradient[start : start + SLICE], norms[index], hyper)


@kernel
def adamw_worker(
    worker: int, tickets: Array, params: Array, first: Array, second: Array, gradient: Array, norms: Array, hyper: Array
) -> None:
    while True:
        index = claim(tickets)
        start = index * SLICE
        if start >= params.size:
            break
        end = start + SLICE
        adamw_slice(params[start:end], first[start:end], second[start:end], gradient[start:end], norms[index], hyper)


class StepInfo(NamedTuple):
    norm: float  # of the gradient as it came, before any clipping
    finite: bool  # the gradient, and the parameters after the update


class AdamW:
    """The optimiser's two moments and its buffers."""

    def __init__(self, params: Array) -> None:
        self.params = params
        self.first = aligned(params.shape, params.dtype)
        self.second = aligned(params.shape, params.dtype)
        self._norms = aligned((-(-params.size // SLICE), 2), np.float64)
        self._hyper = np.zeros(12, params.dtype)

    def step(
        self, config: TrainConfig, gradient: Array, count: float, step: int, lr: float, workers: Workers
    ) -> StepInfo:
        """One update from summed gradients; no update when they are not finite."""
        hyper = self._hyper
        hyper[0] = 1.0 / count
        hyper[1] = config.clip_element or math.inf
        self._run(workers, clip_worker, gradient, self._norms, hyper)
        raw = sum_tree(self._norms[:, 0].copy())
        clipped = sum_tree(self._norms[:, 1].copy())
        if not math.isfinite(raw):
            return StepInfo(raw, False)
        norm = math.sqrt(clipped)
        hyper[2] = config.clip_norm / norm if config.clip_norm and norm > config.clip_norm else 1.0
        hyper[3:7] = config.beta1, 1 - config.beta1, config.beta2, 1 - config.beta2
        hyper[7:9] = 1 / (1 - config.beta1 ** (step + 1)), 1 / (1 - config.beta2 ** (step + 1))
        hyper[9:12] = config.eps, lr, config.weight_decay
        self._run(workers, adamw_worker, self.params, self.first, self.second, gradient, self._norms, hyper)
        return StepInfo(math.sqrt(raw), math.isfinite(self._norms[:, 0].sum()))

    def _run(self, workers: Workers, body: object, *args: Array) -> None:
        assert callable(body)
        if self.params.size < INLINE_ELEMENTS:
            body(0, workers.tickets(), *args)
        else:
            workers.run(body, workers.tickets(), *args)


@dataclass
class Plateau:
    """The one schedule with a memory: halve (say) the rate when the evaluation stops improving."""

    best: float | None = None
    waited: int = 0
    cuts: int = 0

    def observe(self, config: TrainConfig, value: float) -> None:
        if self.best is None or value < self.best:
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
        return max(config.min_lr, config.lr * config.plateau_factor**plateau.cuts)
    assert config.schedule_steps is not None, "schedule_steps is resolved when training starts"
    total = config.schedule_steps
    start = config.warmup_steps if config.schedule == "cosine" else max(config.warmup_steps, int(config.hold * total))
    if step < start or start >= total:
        return config.lr
    progress = (min(step, total - 1) - start) / (total - start)
    return config.min_lr + (config.lr - config.min_lr) * 0.5 * (1 + math.cos(math.pi * progress))
