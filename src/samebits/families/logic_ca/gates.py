"""The sixteen operations as four numbers each. Every one is c₀ + c₁a + c₂b + c₃ab, so a soft gate is a 4×16 matrix
times its softmax, computed once a step per gate instead of once per cell."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import DTypeLike

from samebits.engine.arrays import Array, aligned
from samebits.engine.jit import kernel
from samebits.engine.softmax import softmax
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


if numba.config.DISABLE_JIT:

    def mix_row(coef: Any, at: int, weights: Any, start: int, matrix: Any) -> None:
        coef.reshape(-1)[at : at + 4] = matrix @ weights.reshape(-1)[start : start + 16]

    def pull_back_row(gradient: Any, at: int, weights: Any, sums: Any, start: int, matrix: Any) -> None:
        p, slope = weights.reshape(-1)[at : at + 16], sums.reshape(-1)[start : start + 4] @ matrix
        gradient.reshape(-1)[at : at + 16] = p * (slope - (p * slope).sum())

else:
    from samebits.engine.simd import Emitter

    size = types.int64

    @intrinsic
    def mix_row(typing: Any, coef: Any, at: Any, weights: Any, start: Any, matrix: Any) -> Any:
        """coef[at : at + 4] = matrix (4, 16) · weights[start : start + 16]; a row is one vector."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = Emitter(context, builder, weights.dtype)
            p = emit.load(emit.start(weights, args[2], args[3]))
            rows = [emit.load(emit.start(matrix, args[4], size_of(16 * k))) for k in range(4)]
            emit.store(emit.fold_four([builder.fmul(p, row) for row in rows]), emit.start(coef, args[0], args[1]))
            return context.get_dummy_value()

        return types.void(coef, size, weights, size, matrix), codegen

    @intrinsic
    def pull_back_row(typing: Any, gradient: Any, at: Any, weights: Any, sums: Any, start: Any, matrix: Any) -> Any:
        """gradient[at : at + 16] from sums[start : start + 4], through the coefficients and the softmax."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = Emitter(context, builder, weights.dtype)
            p, source = emit.load(emit.start(weights, args[2], args[1])), emit.start(sums, args[3], args[4])
            slope = emit.every(0.0)
            for k in range(4):
                row = emit.load(emit.start(matrix, args[5], size_of(16 * k)))
                slope = emit.multiply_add(emit.spread(builder.load(builder.gep(source, [size_of(k)]))), row, slope)
            mean = emit.spread(emit.fold(builder.fmul(p, slope), builder.fadd))
            emit.store(builder.fmul(p, builder.fsub(slope, mean)), emit.start(gradient, args[0], args[1]))
            return context.get_dummy_value()

        return types.void(gradient, size, weights, sums, size, matrix), codegen

    def size_of(count: int) -> Any:
        return ir.IntType(64)(count)


@kernel
def weigh(weights: Array, logits: Array) -> None:
    """weights (G, 16) = softmax of logits, row by row. A NaN stays one: in its own place at least."""
    for g in range(logits.shape[0]):
        for i in range(16):
            weights[g, i] = logits[g, i]
        softmax(weights, 16 * g, 16, 16)


@kernel
def mix(coef: Array, weights: Array, matrix: Array) -> None:
    """coef (G, 4) = weights (G, 16) · matrixᵀ."""
    for g in range(weights.shape[0]):
        mix_row(coef, 4 * g, weights, 16 * g, matrix)


@kernel
def pull_back_gates(gradient: Array, weights: Array, sums: Array, matrix: Array) -> None:
    """From Σd, Σd·a, Σd·b, Σd·ab per gate to its 16 logits, through the coefficients and the softmax."""
    for g in range(sums.shape[0]):
        pull_back_row(gradient, 16 * g, weights, sums, 4 * g, matrix)


@kernel
def mix_worker(worker: int, tickets: Array, coef: Array, weights: Array, logits: Array, matrix: Array) -> None:
    while True:
        start = claim(tickets) * SHARE
        if start >= weights.shape[0]:
            break
        weigh(weights[start : start + SHARE], logits[start : start + SHARE])
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
    weigh(weights, logits)
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
    workers.post(mix_worker, workers.tickets(), coef, weights, logits, matrix(logits.dtype))
    if hard.size:
        workers.join()
        coef[hard] = hard_coefficients(logits[hard])
    return coef


def pull_back(gradient: Array, logits: Array, sums: Array, workers: Workers) -> None:
    """Post d loss / d logits (G, 16) from the merged sums (G, 4), after training_coefficients of the same logits."""
    weights = shared_weights(logits, workers)
    workers.post(pull_back_worker, workers.tickets(), gradient, weights, sums, matrix(logits.dtype))
