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

from samebits.arithmetic.arrays import Array, aligned
from samebits.arithmetic.softmax import softmax
from samebits.compiler.jit import kernel
from samebits.devices.cpu.sync import claim
from samebits.devices.cpu.workers import Workers

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

    def mix_row(coef: Any, at: int, chances: Any, start: int, matrix: Any) -> None:
        coef.reshape(-1)[at : at + 4] = matrix @ chances.reshape(-1)[start : start + 16]

    def pull_back_row(gradient: Any, at: int, chances: Any, sums: Any, start: int, matrix: Any) -> None:
        p, slope = chances.reshape(-1)[at : at + 16], sums.reshape(-1)[start : start + 4] @ matrix
        gradient.reshape(-1)[at : at + 16] = p * (slope - (p * slope).sum())

else:
    from samebits.arithmetic.simd import Emitter

    size = types.int64

    @intrinsic
    def mix_row(typing: Any, coef: Any, at: Any, chances: Any, start: Any, matrix: Any) -> Any:
        """coef[at : at + 4] = matrix (4, 16) · chances[start : start + 16]; a row is one vector."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = Emitter(context, builder, chances.dtype)
            p = emit.load(emit.start(chances, args[2], args[3]))
            rows = [emit.load(emit.start(matrix, args[4], size_of(16 * k))) for k in range(4)]
            emit.store(emit.fold_four([builder.fmul(p, row) for row in rows]), emit.start(coef, args[0], args[1]))
            return context.get_dummy_value()

        return types.void(coef, size, chances, size, matrix), codegen

    @intrinsic
    def pull_back_row(typing: Any, gradient: Any, at: Any, chances: Any, sums: Any, start: Any, matrix: Any) -> Any:
        """gradient[at : at + 16] from sums[start : start + 4], through the coefficients and the softmax."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = Emitter(context, builder, chances.dtype)
            p, source = emit.load(emit.start(chances, args[2], args[1])), emit.start(sums, args[3], args[4])
            slope = emit.every(0.0)
            for k in range(4):
                row = emit.load(emit.start(matrix, args[5], size_of(16 * k)))
                slope = emit.multiply_add(emit.spread(builder.load(builder.gep(source, [size_of(k)]))), row, slope)
            mean = emit.spread(emit.fold(builder.fmul(p, slope), builder.fadd))
            emit.store(builder.fmul(p, builder.fsub(slope, mean)), emit.start(gradient, args[0], args[1]))
            return context.get_dummy_value()

        return types.void(gradient, size, chances, sums, size, matrix), codegen

    def size_of(count: int) -> Any:
        return ir.IntType(64)(count)


@kernel
def weigh(chances: Array, logits: Array) -> None:
    """chances (G, 16) = softmax of logits, row by row. A NaN stays one: in its own place at least."""
    for g in range(logits.shape[0]):
        for i in range(16):
            chances[g, i] = logits[g, i]
        softmax(chances, 16 * g, 16, 16)


@kernel
def mix(coef: Array, chances: Array, matrix: Array) -> None:
    """coef (G, 4) = chances (G, 16) · matrixᵀ."""
    for g in range(chances.shape[0]):
        mix_row(coef, 4 * g, chances, 16 * g, matrix)


@kernel
def pull_back_gates(gradient: Array, chances: Array, sums: Array, matrix: Array) -> None:
    """From Σd, Σd·a, Σd·b, Σd·ab per gate to its 16 logits, through the coefficients and the softmax."""
    for g in range(sums.shape[0]):
        pull_back_row(gradient, 16 * g, chances, sums, 4 * g, matrix)


@kernel
def mix_worker(worker: int, tickets: Array, coef: Array, chances: Array, logits: Array, matrix: Array) -> None:
    while True:
        start = claim(tickets) * SHARE
        if start >= chances.shape[0]:
            break
        weigh(chances[start : start + SHARE], logits[start : start + SHARE])
        mix(coef[start : start + SHARE], chances[start : start + SHARE], matrix)


@kernel
def pull_back_worker(worker: int, tickets: Array, gradient: Array, chances: Array, sums: Array, matrix: Array) -> None:
    while True:
        start = claim(tickets) * SHARE
        if start >= chances.shape[0]:
            break
        end = start + SHARE
        pull_back_gates(gradient[start:end], chances[start:end], sums[start:end], matrix)


@lru_cache(maxsize=2)
def matrix(dtype: DTypeLike) -> Array:
    """MATRIX in the type of the logits."""
    return MATRIX.astype(dtype)


def gate_chances(logits: Array) -> Array:
    """Softmax of (G, 16) logits."""
    chances = np.empty_like(logits)
    weigh(chances, logits)
    return chances


def soft_coefficients(logits: Array) -> Array:
    """(G, 4) of the soft gates."""
    coef = aligned((len(logits), 4), logits.dtype)
    mix(coef, gate_chances(logits), matrix(logits.dtype))
    return coef


def hard_coefficients(logits: Array) -> Array:
    """(G, 4) of the operation with the largest logit, the first among equals."""
    return np.ascontiguousarray(matrix(logits.dtype).T[np.argmax(logits, axis=1)])


def training_coefficients(logits: Array, hard: Array, workers: Workers) -> tuple[Array, Array]:
    """Post it: (G, 4), soft, but hard for the gates marked in `hard` (G,), if any; and the chances (G, 16) that
    pull_back needs, soft for every gate (straight-through).

    The soft ones are soft_coefficients, shared among the workers.
    """
    scratch = workers.scratch("logic_ca.gates")
    coef = scratch.buffer("coefficients", (len(logits), 4), logits.dtype)
    chances = scratch.buffer("chances", logits.shape, logits.dtype)
    workers.post(mix_worker, workers.tickets(), coef, chances, logits, matrix(logits.dtype))
    if hard.size:
        workers.join()
        coef[hard] = hard_coefficients(logits[hard])
    return coef, chances


def pull_back(gradient: Array, chances: Array, sums: Array, workers: Workers) -> None:
    """Post d loss / d logits (G, 16) from the merged sums (G, 4) and what training_coefficients returned."""
    workers.post(pull_back_worker, workers.tickets(), gradient, chances, sums, matrix(gradient.dtype))
