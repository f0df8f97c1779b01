"""AdamW and clipping, fused over the flat vector in slices of fixed length."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array, aligned
from samebits.arithmetic.simd import fused, wide_squares
from samebits.arithmetic.tree import sum_tree
from samebits.compiler.jit import kernel
from samebits.config import TrainConfig
from samebits.devices.cpu.sync import PAD, fetch_add, finish, wait_for
from samebits.devices.cpu.tree import SLICE
from samebits.devices.optimizer import StepInfo, hyper_of

if TYPE_CHECKING:
    from samebits.devices.cpu.workers import Workers

# Smaller gradients are 0. CPUs do not agree which results are too small for float32 (modes.py): x86 rounds first,
# ARM does not. What is left of a number that one of them kept is far below this, and so reaches no parameter.
TINY = 2.0**-64
LITTLE = 1 << 13  # parameters, some 15 µs of work: waking others and waiting between the passes takes longer


@kernel
def clip_slice(gradient: Array, norms: Array, hyper: Array) -> None:
    """Divide by the step's count and clip each element; norms[0] is the raw Σg² of the slice, norms[1] the clipped."""
    scale, limit = hyper[0], hyper[1]
    zero, tiny = gradient.dtype.type(0), gradient.dtype.type(TINY)
    for j in range(gradient.size):
        g = gradient[j] * scale
        gradient[j] = zero if abs(g) < tiny else g
    norms[0] = norms[1] = wide_squares(gradient)
    if limit < np.inf:
        for j in range(gradient.size):
            g = gradient[j]
            # Comparisons, not min and max: a NaN must stay a NaN.
            if g > limit:
                g = limit
            elif g < -limit:
                g = -limit
            gradient[j] = g
        norms[1] = wide_squares(gradient)


@kernel
def adamw_slice(params: Array, first: Array, second: Array, gradient: Array, hyper: Array, scale: float) -> float:
    """Decoupled weight decay (Loshchilov & Hutter 2019); hyper holds the step's numbers. Returns Σp²."""
    b1, one_b1, b2, one_b2, unbias1, unbias2 = hyper[2], hyper[3], hyper[4], hyper[5], hyper[6], hyper[7]
    eps, lr, decay = hyper[8], hyper[9], hyper[10]
    for j in range(params.size):
        g = gradient[j] * scale
        m = fused(b1, first[j], one_b1 * g)
        v = fused(b2, second[j], one_b2 * g * g)
        first[j] = m
        second[j] = v
        p = params[j]
        params[j] = fused(-lr, fused(decay, p, m * unbias1 / (np.sqrt(v * unbias2) + eps)), p)
    return wide_squares(params)  # not finite when one of them is not


CLIP, CLIPPED, UPDATE = 0, 1, 2  # tickets of the first pass, its slices done, tickets of the second
INFINITE, COUNTERS = 3, 4  # slices with parameters that are not finite any more


class State(NamedTuple):
    """What an update changes: the parameters and their two moments."""

    params: Array
    first: Array
    second: Array


@kernel
def optimise_worker(
    worker: int, counters: Array, state: State, gradient: Array, norms: Array, totals: Array, hyper: Array
) -> None:
    """Both passes over the vector; between them all slices are waited for. totals is raw Σg² out, clip_norm in."""
    params, first, second = state.params, state.first, state.second
    slices = norms.shape[0]
    while True:
        index = fetch_add(counters, CLIP * PAD, 1)
        if index >= slices:
            break
        clip_slice(gradient[index * SLICE : (index + 1) * SLICE], norms[index], hyper)
        finish(counters, CLIPPED)
    wait_for(counters, CLIPPED, slices)
    # Every worker adds up the same few numbers in the same order: all agree, and write the same, without waiting.
    raw, norm = sum_tree(norms[:, 0].copy()), np.sqrt(sum_tree(norms[:, 1].copy()))
    totals[0] = raw
    if not np.isfinite(raw):
        return
    most = totals[1]
    scale = params.dtype.type(most / norm if 0 < most < norm else 1.0)
    while True:
        index = fetch_add(counters, UPDATE * PAD, 1)
        if index >= slices:
            break
        a, b = index * SLICE, (index + 1) * SLICE
        size = adamw_slice(params[a:b], first[a:b], second[a:b], gradient[a:b], hyper, scale)
        if not np.isfinite(size):
            finish(counters, INFINITE)


class AdamW:
    """The optimiser's two moments and its buffers."""

    def __init__(self, workers: Workers, params: Array) -> None:
        self._workers, self.params = workers, params
        self.first = aligned(params.shape, params.dtype)
        self.second = aligned(params.shape, params.dtype)
        self._norms = aligned((-(-params.size // SLICE), 2), np.float64)
        self._totals = np.zeros(2, np.float64)
        self._hyper = np.zeros(11, params.dtype)
        self._counters = np.zeros(COUNTERS * PAD, np.int64)

    def step(self, config: TrainConfig, gradient: Array, count: float, step: int, lr: float) -> None:
        """Post one update from summed gradients; there is no update when they are not finite."""
        self._hyper[:] = hyper_of(config, count, step, lr)
        self._totals[1] = config.clip_norm
        self._counters = self._workers.counters(COUNTERS)
        self._workers.post(
            optimise_worker, self._counters, State(self.params, self.first, self.second), gradient, self._norms,
            self._totals, self._hyper, alone=self.params.size < LITTLE,
        )  # fmt: skip

    def outcome(self) -> StepInfo:
        """Of the last step, once the workers have joined."""
        raw = float(self._totals[0])
        return StepInfo(math.sqrt(raw), math.isfinite(raw) and not self._counters[INFINITE * PAD])
