"""The logic automata in JAX, in the published formulation: all sixteen operations of every gate, weighted by a softmax.

Written anew from the paper (Miotti et al. 2025), as a JAX user would: one jitted function for the whole training step,
lax.scan over the CA steps, softmax once a step, buffers donated. `rows` turns the arrays round: as published, the
circuit is written for one cell and mapped over all; with `rows` the cells lie along the last axis, where a gather
moves whole rows and XLA does better.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samebits.arithmetic.arrays import Array
from samebits.bench.peers import Problem, Stepper
from samebits.training.contract import Batch


def gate(a: Any, b: Any, chances: Any) -> Any:
    """Σ chance · operation; chances (..., 16). Added one after the other, which XLA makes one loop of."""
    ab, one = a * b, jnp.ones_like(a)
    either, differ = a + b - ab, a + b - 2 * ab
    operations = (
        0 * one, ab, a - ab, a, b - ab, b, differ, either,
        1 - either, 1 - differ, 1 - b, 1 - b + ab, 1 - a, 1 - a + ab, 1 - ab, one,
    )  # fmt: skip
    return sum(chances[..., i] * value for i, value in enumerate(operations))


def circuit(x: Any, wires: list[Array], chances: list[Any]) -> Any:
    """x (inputs, …), wires (2, gates) and chances (gates, …, 16) of each layer → (gates of the last layer, …)."""
    for (first, second), chance in zip(wires, chances, strict=True):
        x = gate(x[first], x[second], chance)
    return x


def neighbours(state: Any, periodic: bool) -> Any:
    """(C, B, H, W) → (9, C, B·H·W): the 3×3 neighbourhood, row-major."""
    C, _, H, W = state.shape
    padded = jnp.pad(state, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="wrap" if periodic else "constant")
    shifted = [padded[:, :, i : i + H, j : j + W] for i in range(3) for j in range(3)]
    return jnp.stack(shifted).reshape(9, C, -1)


def build(problem: Problem, rows: bool = False) -> Stepper:
    config = problem.config
    layers = {"perceive": len(config.perceive), "update": len(config.update)}
    wires = {part: [problem.constants[f"{part}.{i}.wires"] for i in range(n)] for part, n in layers.items()}

    def one_cell(patch: Any, perceive: list[Any], update: list[Any]) -> Any:
        """patch (9, C) → the cell's next state (C,)."""
        by_channel = jax.vmap(lambda kernel, x: circuit(x, wires["perceive"], kernel), (None, 1))
        seen = jax.vmap(by_channel, (0, None))(perceive, patch)  # (K, C, outputs)
        x = jnp.concatenate([patch[4], seen.transpose(1, 2, 0).ravel()])
        return circuit(x, wires["update"], update)

    def all_cells(patches: Any, perceive: list[Any], update: list[Any]) -> Any:
        """patches (9, C, cells) → (C, cells), every gate a row."""
        by_gate = [chances.swapaxes(0, 1)[:, :, None, None] for chances in perceive]  # (gates, K, 1, 1, 16)
        seen = circuit(patches[:, None], wires["perceive"], by_gate)  # (outputs, K, C, cells)
        x = jnp.concatenate([patches[4], seen.transpose(2, 0, 1, 3).reshape(-1, patches.shape[-1])])
        return circuit(x, wires["update"], [chances[:, None] for chances in update])

    def loss(params: Any, state: Any, targets: Any, fire: Any) -> Any:
        """state (C, B, H, W), targets (k, B, H, W), fire (steps, 1, 1, H, W) or None."""
        perceive, update = (
            [jax.nn.softmax(params[f"{part}.{i}.logits"], axis=-1) for i in range(n)] for part, n in layers.items()
        )
        mapped = all_cells if rows else jax.vmap(one_cell, (2, None, None), 1)

        def advance(state: Any, fired: Any) -> Any:
            after = mapped(neighbours(state, config.boundary == "periodic"), perceive, update).reshape(state.shape)
            return after if fired is None else jnp.where(fired, after, state), None

        final, _ = lax.scan(advance, state, fire, length=config.ca_steps)
        return ((final[: len(targets)] - targets) ** 2).sum()

    def adamw(p: Any, m: Any, v: Any, g: Any, number: Any, lr: Any) -> Any:
        g = jnp.clip(g, -config.clip_element, config.clip_element) if config.clip_element else g
        m = config.beta1 * m + (1 - config.beta1) * g
        v = config.beta2 * v + (1 - config.beta2) * g * g
        unbiased, spread = m / (1 - config.beta1**number), jnp.sqrt(v / (1 - config.beta2**number))
        return p - lr * (unbiased / (spread + config.eps) + config.weight_decay * p), m, v

    def train_step(training: Any, number: Any, lr: Any, *batch: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)({name: part[0] for name, part in training.items()}, *batch)
        moved = {name: adamw(p, m, v, gradient[name], number, lr) for name, (p, m, v) in training.items()}
        return moved, value

    compiled = jax.jit(train_step, donate_argnums=0)
    # Weights and both moments, each a buffer of its own: they are given away at every step.
    first = {name: (jnp.array(value), *jnp.zeros((2, *value.shape))) for name, value in problem.params.items()}
    current: list[Any] = [first]

    def step(number: int, batch: Batch) -> float:
        boards = batch.arrays
        grids, targets = (part.transpose(3, 0, 1, 2) for part in (boards.grids, boards.targets))
        fire = boards.fire.reshape(-1, 1, 1, *grids.shape[2:]) > 0 if boards.fire.size else None
        moment = np.float32(number + 1), np.float32(problem.lr(number))
        current[0], value = jax.block_until_ready(compiled(current[0], *moment, grids, targets, fire))
        return float(value)

    def weights() -> Array:
        return np.concatenate([np.asarray(current[0][name][0]).ravel() for name in problem.params])

    return Stepper(step, weights)
