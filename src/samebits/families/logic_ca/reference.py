"""The model in plain NumPy, float64, as the paper writes it: sixteen operations a gate, one cell patch at a time.

Slow on purpose, and read beside the paper. The kernels are held to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.families.logic_ca.config import LogicConfig


def sixteen_operations(a: Array, b: Array) -> Array:
    """All binary operations on soft bits, stacked on a last axis."""
    one = np.ones_like(a)
    ab = a * b
    return np.stack(
        [
            0 * one,  # FALSE
            ab,  # a and b
            a - ab,  # a and not b
            a,
            b - ab,  # b and not a
            b,
            a + b - 2 * ab,  # xor
            a + b - ab,  # or
            1 - (a + b - ab),  # nor
            1 - (a + b - 2 * ab),  # xnor
            1 - b,
            1 - b + ab,  # b implies a
            1 - a,
            1 - a + ab,  # a implies b
            1 - ab,  # nand
            one,  # TRUE
        ],
        axis=-1,
    )


def gate_weights(logits: Array, soft: bool) -> Array:
    """Softmax over the sixteen, or all weight on the first largest."""
    if not soft:
        return np.eye(16)[np.argmax(logits, axis=-1)]
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gate_layer(x: Array, wires: Array, logits: Array, soft: bool) -> Array:
    """x (..., inputs), wires (2, gates), logits (gates, 16) → (..., gates)."""
    a, b = x[..., wires[0]], x[..., wires[1]]
    return (sixteen_operations(a, b) * gate_weights(logits, soft)).sum(axis=-1)


def patches(grids: Array, periodic: bool) -> Array:
    """grids (B, H, W, C) → (B, H, W, 9, C): the 3×3 neighbourhood, row-major."""
    padding = ((0, 0), (1, 1), (1, 1), (0, 0))
    padded = np.pad(grids, padding, mode="wrap" if periodic else "constant")
    H, W = grids.shape[1:3]
    return np.stack([padded[:, i : i + H, j : j + W] for i in range(3) for j in range(3)], axis=3)


def perceive(config: LogicConfig, params: Mapping[str, Array], grids: Array, soft: bool) -> Array:
    """(B, H, W, C) → (B, H, W, C + C·outputs·K): the cell itself, then (channel, output, kernel), kernel fastest."""
    by_channel = np.swapaxes(patches(grids, config.boundary == "periodic"), -1, -2)  # (B, H, W, C, 9)
    seen = []
    for k in range(config.kernels):
        x = by_channel
        for i in range(len(config.perceive)):
            x = gate_layer(x, params[f"perceive.{i}.wires"], params[f"perceive.{i}.logits"][k], soft)
        seen.append(x)
    features = np.stack(seen, axis=-1)  # (B, H, W, C, outputs, K)
    return np.concatenate([grids, features.reshape(*grids.shape[:3], -1)], axis=-1)


def step(config: LogicConfig, params: Mapping[str, Array], grids: Array, soft: bool = True) -> Array:
    """One step of every cell: the update network's output is the new state."""
    x = perceive(config, params, grids, soft)
    for i in range(len(config.update)):
        x = gate_layer(x, params[f"update.{i}.wires"], params[f"update.{i}.logits"], soft)
    return x


def rollout(
    config: LogicConfig,
    params: Mapping[str, Array],
    grids: Array,
    steps: int,
    soft: bool = True,
    fire: Array | None = None,
) -> Array:
    """The state after `steps` steps. fire (steps, H·W): a cell keeps its state where it is 0, dies where it is 2."""
    return states(config, params, grids, steps, soft, fire)[-1]


def states(
    config: LogicConfig, params: Mapping[str, Array], grids: Array, steps: int, soft: bool, fire: Array | None
) -> list[Array]:
    """The same with all states on the way, the start included."""
    found = [grids]
    for t in range(steps):
        after = step(config, params, found[-1], soft)
        if fire is not None and fire.size:
            fired = fire[t].reshape(1, *grids.shape[1:3], 1)
            after = np.where(fired == 1, after, np.where(fired == 0, found[-1], 0.0))
        found.append(after)
    return found


def loss(
    config: LogicConfig,
    params: Mapping[str, Array],
    grids: Array,
    targets: Array,
    fire: Array | None = None,
    soft: bool = True,
) -> float:
    """Σ (the first k channels of the state − target)², over cells and batch, after the last step or all of loss_steps;
    targets (B, H, W, k)."""
    found = states(config, params, np.asarray(grids, np.float64), config.ca_steps, soft, fire)
    judged = config.loss_steps or (config.ca_steps,)
    return float(sum(((found[t][..., : targets.shape[-1]] - targets) ** 2).sum() for t in judged))
