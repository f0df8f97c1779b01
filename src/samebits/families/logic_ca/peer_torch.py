"""The logic automata in PyTorch, with four numbers a gate instead of sixteen operations: the better formulation.

Every operation is c₀ + c₁a + c₂b + c₃ab, so a layer is two gathers and three multiply-adds. Cells lie along the last
axis: a gather copies whole rows. The compiled variant compiles one CA step, which the rollout calls again and again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from samebits.bench.peers import Problem, Stepper
from samebits.bench.torch_peers import optimise
from samebits.engine.arrays import Array
from samebits.engine.family import Batch
from samebits.families.logic_ca.gates import MATRIX


def gate(a: Tensor, b: Tensor, numbers: Tensor) -> Tensor:
    c0, c1, c2, c3 = numbers.unbind(0)
    return (c0 + c1 * a) + b * (c2 + c3 * a)


def neighbours(state: Tensor, periodic: bool) -> Tensor:
    """(C, B, H, W) → (9, C, B·H·W): the 3×3 neighbourhood, row-major."""
    H, W = state.shape[2:]
    padded = functional.pad(state, (1, 1, 1, 1), mode="circular" if periodic else "constant")
    rows = [padded[:, :, i : i + H, j : j + W] for i in range(3) for j in range(3)]
    return torch.stack(rows).flatten(start_dim=2)


def build(problem: Problem, compiled: bool = False) -> Stepper:
    config = problem.config
    periodic = config.boundary == "periodic"
    logits = {name: torch.tensor(value, requires_grad=True) for name, value in problem.params.items()}
    wires = {name: torch.from_numpy(value.astype(np.int64)) for name, value in problem.constants.items()}
    matrix = torch.from_numpy(MATRIX.astype(np.float32))

    def numbers(name: str) -> Tensor:
        """(4, gates, K, 1, 1) for a perceive layer, (4, gates, 1) for an update layer."""
        mixed = torch.softmax(logits[f"{name}.logits"], dim=-1) @ matrix.T
        return mixed.permute(2, 1, 0)[..., None, None] if mixed.ndim == 3 else mixed.T[..., None]

    mix: Any = torch.compile(gate, dynamic=True) if compiled else gate

    def layer(x: Tensor, name: str, numbers: Tensor) -> Tensor:
        """x (inputs, …, cells), numbers (4, gates, …, 1) → (gates, …, cells)."""
        first, second = wires[f"{name}.wires"]
        return mix(x.index_select(0, first), x.index_select(0, second), numbers)

    def ca_step(state: Tensor, seen_by: list[Tensor], updates: list[Tensor]) -> Tensor:
        x = neighbours(state, periodic)[:, None]  # (9, 1, C, cells): every kernel sees every channel
        for i, coefficients in enumerate(seen_by):
            x = layer(x, f"perceive.{i}", coefficients)
        features = x.permute(2, 0, 1, 3).flatten(end_dim=2)  # (outputs, K, C, cells) → channel, output, kernel
        x = torch.cat([state.flatten(start_dim=1), features])
        for i, coefficients in enumerate(updates):
            x = layer(x, f"update.{i}", coefficients)
        return x.view(state.shape)

    def loss(batch: Batch) -> Tensor:
        boards = batch.arrays
        state, wanted = (torch.tensor(part.transpose(3, 0, 1, 2)) for part in (boards.grids, boards.targets))
        seen_by = [numbers(f"perceive.{i}") for i in range(len(config.perceive))]
        updates = [numbers(f"update.{i}") for i in range(len(config.update))]
        for t in range(config.ca_steps):
            after = ca_step(state, seen_by, updates)
            if boards.fire.size:
                fired = torch.from_numpy(boards.fire[t].reshape(1, 1, *state.shape[2:]) > 0)
                after = torch.where(fired, after, state)
            state = after
        return (state[: len(wanted)] - wanted).square().sum()

    def weights() -> Array:
        return np.concatenate([value.detach().numpy().ravel() for value in logits.values()])

    return Stepper(optimise(problem, list(logits.values()), loss), weights)
