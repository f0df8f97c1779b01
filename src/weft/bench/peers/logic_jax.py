"""The logic automata in JAX, in the published formulation: all sixteen operations of every gate, weighted by a softmax.

Written anew from the paper (Miotti et al. 2025), as a JAX user would: one jitted function for the whole training step,
lax.scan over the CA steps, softmax once a step, buffers donated.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from weft.bench.peers import Problem, Stepper
from weft.engine.arrays import Array
from weft.engine.family import Batch


def sixteen(a: Any, b: Any) -> Any:
    ab, one = a * b, jnp.ones_like(a)
    either, differ = a + b - ab, a + b - 2 * ab
    return jnp.stack(
        [0 * one, ab, a - ab, a, b - ab, b, differ, either,
         1 - either, 1 - differ, 1 - b, 1 - b + ab, 1 - a, 1 - a + ab, 1 - ab, one],
        axis=-1,
    )  # fmt: skip


def layer(x: Any, wires: Array, chances: Any) -> Any:
    """x (..., inputs), wires (2, gates), chances (..., gates, 16) → (..., gates)."""
    return (sixteen(x[..., wires[0]], x[..., wires[1]]) * chances).sum(axis=-1)


def build(problem: Problem) -> Stepper:
    config, wires = problem.config, {name: np.asarray(value) for name, value in problem.constants.items()}
    periodic, perceive, update = config.boundary == "periodic", len(config.perceive), len(config.update)

    def ca_step(chances: Any, grids: Any) -> Any:
        """grids (B, H, W, C)."""
        B, H, W, C = grids.shape
        padded = jnp.pad(grids, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="wrap" if periodic else "constant")
        patch = jnp.stack([padded[:, i : i + H, j : j + W] for i in range(3) for j in range(3)], axis=-1)
        x = jnp.broadcast_to(patch[..., None, :], (B, H, W, C, config.kernels, 9))
        for i in range(perceive):
            x = layer(x, wires[f"perceive.{i}.wires"], chances[f"perceive.{i}.logits"])
        seen = jnp.swapaxes(x, -1, -2).reshape(B, H, W, -1)  # channel, output, kernel
        x = jnp.concatenate([grids, seen], axis=-1)
        for i in range(update):
            x = layer(x, wires[f"update.{i}.wires"], chances[f"update.{i}.logits"])
        return x

    def loss(params: Any, grids: Any, targets: Any, fire: Any) -> Any:
        chances = {name: jax.nn.softmax(value, axis=-1) for name, value in params.items()}

        def advance(state: Any, fired: Any) -> Any:
            after = ca_step(chances, state)
            return after if fired is None else jnp.where(fired, after, state), None

        final, _ = lax.scan(advance, grids, fire, length=config.ca_steps)
        return ((final[..., : targets.shape[-1]] - targets) ** 2).sum()

    def train_step(state: Any, number: Any, lr: Any, grids: Any, targets: Any, fire: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(state[0], grids, targets, fire)

        def adamw(p: Any, m: Any, v: Any, g: Any) -> Any:
            g = jnp.clip(g, -config.clip_element, config.clip_element) if config.clip_element else g
            m = config.beta1 * m + (1 - config.beta1) * g
            v = config.beta2 * v + (1 - config.beta2) * g * g
            unbiased = m / (1 - config.beta1**number), v / (1 - config.beta2**number)
            return p - lr * (unbiased[0] / (jnp.sqrt(unbiased[1]) + config.eps) + config.weight_decay * p), m, v

        params, first, second = state
        moved = {name: adamw(params[name], first[name], second[name], g) for name, g in gradient.items()}
        return tuple({name: value[i] for name, value in moved.items()} for i in range(3)), value

    compiled = jax.jit(train_step, donate_argnums=0)
    first = {name: jnp.array(value) for name, value in problem.params.items()}
    zeros = [{name: jnp.zeros_like(value) for name, value in first.items()} for _ in range(2)]
    state: list[Any] = [(first, *zeros)]

    def step(number: int, batch: Batch) -> float:
        boards = batch.arrays
        fire = boards.fire.reshape(-1, 1, *boards.grids.shape[1:3], 1) > 0 if boards.fire.size else None
        state[0], value = compiled(
            state[0], jnp.float32(number + 1), jnp.float32(problem.lr(number)), boards.grids, boards.targets, fire
        )
        jax.block_until_ready(state[0])
        return float(value)

    def weights() -> Array:
        return np.concatenate([np.asarray(state[0][0][name]).ravel() for name in problem.params])

    return Stepper(step, weights)
