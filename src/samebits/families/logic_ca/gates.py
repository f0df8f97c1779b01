"""The sixteen operations as four numbers each. Every one is c₀ + c₁a + c₂b + c₃ab, so a soft gate is a 4×16 matrix
times its softmax, computed once a step per gate instead of once per cell."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike

from samebits.engine.arrays import Array, aligned
from samebits.engine.jit import kernel
from samebits.engine.sync import claim
from samebits.engine.workers import Workers

# Columns are the operations; rows the coefficients of 1, a, b, ab.
MATRIX = np.array(
    [
        [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1],
        [0, 0, 1, 1, 0, 0, 1, 1, -1, -1, 0, 0, -1, -1, 0, 0],
        [0, 0, 0, 0, 1, 1, 1, 1, -1, -1, -1, -1, 0, 0, 0, 0],
        [0, 1, -1, 0, -1, 0, -2, -1, 1, 2, 0, 1, 0, 1, -1, 0],
    ],
    np.float64,
)


SHARE = 128  # gates a ticket


@kernel
def larger(a: float, b: float) -> float:
    return a if a > b else b


@kernel
def subtract_largest(out: Array, logits: Array) -> None:
    """A NaN stays one: in its own place at least."""
    for g in range(logits.shape[0]):
        row = logits[g]
        # Four at a time: one comparison after the other would be the slowest part of a softmax.
        a, b, c, d = row[0], row[1], row[2], row[3]
        for i in range(4, 16, 4):
            a, b = larger(a, row[i]), larger(b, row[i + 1])
            c, d = larger(c, row[i + 2]), larger(d, row[i + 3])
        largest = larger(larger(a, b), larger(c, d))
        for i in range(16):
            out[g, i] = row[i] - largest


@kernel
def normalise(weights: Array) -> None:
    zero, one = weights.dtype.type(0), weights.dtype.type(1)  # a bare 0 would make everything float64
    for g in range(weights.shape[0]):
        row = weights[g]
        total = zero
        for i in range(16):
            total += row[i]
        scale = one / total
        for i in range(16):
            row[i] *= scale


@kernel
def mix(coef: Array, weights: Array, matrix: Array) -> None:
    """coef (G, 4) = weights (G, 16) · matrixᵀ."""
    zero = weights.dtype.type(0)
    for g in range(weights.shape[0]):
        p = weights[g]
        c0 = c1 = c2 = c3 = zero
        for i in range(16):
            c0 += p[i] * matrix[0, i]
            c1 += p[i] * matrix[1, i]
            c2 += p[i] * matrix[2, i]
            c3 += p[i] * matrix[3, i]
        coef[g, 0], coef[g, 1], coef[g, 2], coef[g, 3] = c0, c1, c2, c3


@kernel
def pull_back_gates(gradient: Array, weights: Array, sums: Array, matrix: Array) -> None:
    """From Σd, Σd·a, Σd·b, Σd·ab per gate to its 16 logits, through the coefficients and the softmax."""
    zero = weights.dtype.type(0)
    for g in range(sums.shape[0]):
        row, p = gradient[g], weights[g]
        s0, s1, s2, s3 = sums[g, 0], sums[g, 1], sums[g, 2], sums[g, 3]
        mean = zero
        for i in range(16):
            slope = matrix[0, i] * s0 + matrix[1, i] * s1 + matrix[2, i] * s2 + matrix[3, i] * s3
            row[i] = slope
            mean += p[i] * slope
        for i in range(16):
            row[i] = p[i] * (row[i] - mean)


@kernel
def subtract_worker(worker: int, tickets: Array, out: Array, logits: Array) -> None:
    while True:
        start = claim(tickets) * SHARE
        if start >= logits.shape[0]:
            break
        subtract_largest(out[start : start + SHARE], logits[start : start + SHARE])


@kernel
def mix_worker(worker: int, tickets: Array, coef: Array, weights: Array, matrix: Array) -> None:
    while True:
        start = claim(tickets) * SHARE
        if start >= weights.shape[0]:
            break
        normalise(weights[start : start + SHARE])
        mix(coef[start : start + SHARE], weights[start : start + SHARE], matrix)


@kernel
def pull_back_worker(worker: int, tickets: Array, gradient: Array, weights: Array, sums: Array, matrix: Array) -> None:
    while True:
        start = claim(tickets) * SHARE
        if start >= weights.shape[0]:
            break
        end = start + SHARE
        pull_back_gates(gradient[start:end], weights[start:end], sums[start:end], matrix)


@lru_cache(maxsize=2)
def matrix(dtype: DTypeLike) -> Array:
    """MATRIX in the type of the logits."""
    return MATRIX.astype(dtype)


def gate_weights(logits: Array) -> Array:
    """Softmax of (G, 16) logits."""
    weights = np.empty_like(logits)
    subtract_largest(weights, logits)
    np.exp(weights, out=weights)  # SIMD already; the short rows are what NumPy is slow at
    normalise(weights)
    return weights


def soft_coefficients(logits: Array) -> Array:
    """(G, 4) of the soft gates."""
    coef = aligned((len(logits), 4), logits.dtype)
    mix(coef, gate_weights(logits), matrix(logits.dtype))
    return coef


def hard_coefficients(logits: Array) -> Array:
    """(G, 4) of the operation with the largest logit, the first among equals."""
    return np.ascontiguousarray(matrix(logits.dtype).T[np.argmax(logits, axis=1)])


def shared_weights(logits: Array, workers: Workers) -> Array:
    """Where training_coefficients leaves the softmax of the step's logits, for pull_back."""
    return workers.buffer("gate weights", logits.shape, logits.dtype)


def training_coefficients(logits: Array, hard: Array, workers: Workers) -> Array:
    """Post it: (G, 4), soft, but hard for the gates marked in `hard` (G,), if any; pull_back stays soft
    (straight-through).

    The soft ones are soft_coefficients, shared among the workers.
    """
    coef = workers.buffer("coefficients", (len(logits), 4), logits.dtype)
    weights = shared_weights(logits, workers)
    workers.run(subtract_worker, workers.tickets(), weights, logits)
    np.exp(weights, out=weights)
    workers.post(mix_worker, workers.tickets(), coef, weights, matrix(logits.dtype))
    if hard.size:
        workers.join()
        coef[hard] = hard_coefficients(logits[hard])
    return coef


def pull_back(gradient: Array, logits: Array, sums: Array, workers: Workers) -> None:
    """Post d loss / d logits (G, 16) from the merged sums (G, 4), after training_coefficients of the same logits."""
    weights = shared_weights(logits, workers)
    workers.post(pull_back_worker, workers.tickets(), gradient, weights, sums, matrix(logits.dtype))
