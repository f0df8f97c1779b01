"""The sixteen operations as four numbers each. Every one is c₀ + c₁a + c₂b + c₃ab, so a soft gate is a 4×16 matrix times
its softmax, computed once a step per gate instead of once per cell."""

from __future__ import annotations

import numpy as np

from weft.engine.arrays import Array

NAMES = (
    "false", "a and b", "a and not b", "a", "b and not a", "b", "a xor b", "a or b",
    "a nor b", "a xnor b", "not b", "b implies a", "not a", "a implies b", "a nand b", "true",
)  # fmt: skip
PASS_A = 3

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


def gate_weights(logits: Array) -> Array:
    """Softmax of (G, 16) logits."""
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    e /= e.sum(axis=1, keepdims=True)
    return e


def soft_coefficients(logits: Array) -> Array:
    """(G, 4) of the soft gates."""
    return gate_weights(logits) @ MATRIX.T.astype(logits.dtype)


def hard_coefficients(logits: Array) -> Array:
    """(G, 4) of the operation with the largest logit, the first among equals."""
    return np.ascontiguousarray(MATRIX.T.astype(logits.dtype)[np.argmax(logits, axis=1)])
