"""The logic automata in PyTorch, with four numbers a gate instead of sixteen operations: the better formulation.

Every operation is c₀ + c₁a + c₂b + c₃ab, so a layer is two gathers and three multiply-adds. Cells lie along the last
axis: a gather copies whole rows. Compiled is the gate, on a GPU one CA step, which the rollout calls again and again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from samebits.arithmetic.arrays import Array
from samebits.bench.peers import Problem, Stepper
from samebits.bench.torch_gpu import Recipe, stepper
from samebits.bench.torch_peers import optimise
from samebits.training.contract import Batch


def coefficients() -> Tensor:
    """(4, 16): c₀, c₁, c₂, c₃ of c₀ + c₁a + c₂b + c₃ab, for every operation by its number: its bits, highest first, are
    the values for (a, b) = (0, 0), (0, 1), (1, 0), (1, 1)."""
    operations = torch.arange(16)
    none, b, a, both = (operations >> shift & 1 for shift in (3, 2, 1, 0))
    return torch.stack([none, a - none, b - none, both - a - b + none]).float()


def gate(a: Tensor, b: Tensor, numbers: Tensor) -> Tensor:
    c0, c1, c2, c3 = numbers.unbind(0)
    return (c0 + c1 * a) + b * (c2 + c3 * a)


def neighbours(state: Tensor, periodic: bool) -> Tensor:
    """(C, B, H, W) → (9, C, B·H·W): the 3×3 neighbourhood, row-major."""
    H, W = state.shape[2:]
    padded = functional.pad(state, (1, 1, 1, 1), mode="circular" if periodic else "constant")
    rows = [padded[:, :, i : i + H, j : j + W] for i in range(3) for j in range(3)]
    return torch.stack(rows).flatten(start_dim=2)


class Automaton:
    """The model on a device; `mix` is `gate`, or something compiled that does the same."""

    def __init__(self, problem: Problem, device: torch.device, mix: Any = gate) -> None:
        self.config, self.device, self.mix = problem.config, device, mix
        self.logits = {
            name: torch.tensor(value, device=device, requires_grad=True) for name, value in problem.params.items()
        }
        self.wires = {
            name: torch.from_numpy(value.astype(np.int64)).to(device) for name, value in problem.constants.items()
        }
        self.matrix = coefficients().to(device)

    def numbers(self) -> tuple[list[Tensor], list[Tensor]]:
        """Of every perceive layer (4, gates, K, 1, 1), of every update layer (4, gates, 1)."""
        config, found = self.config, []
        for part, count in (("perceive", len(config.perceive)), ("update", len(config.update))):
            mixed = [torch.softmax(self.logits[f"{part}.{i}.logits"], dim=-1) @ self.matrix.T for i in range(count)]
            found.append([m.permute(2, 1, 0)[..., None, None] if m.ndim == 3 else m.T[..., None] for m in mixed])
        return found[0], found[1]

    def layer(self, x: Tensor, name: str, numbers: Tensor) -> Tensor:
        """x (inputs, …, cells), numbers (4, gates, …, 1) → (gates, …, cells)."""
        first, second = self.wires[f"{name}.wires"]
        mixed: Tensor = self.mix(x.index_select(0, first), x.index_select(0, second), numbers)
        return mixed

    def ca_step(self, state: Tensor, seen_by: list[Tensor], updates: list[Tensor]) -> Tensor:
        x = neighbours(state, self.config.boundary == "periodic")[:, None]  # (9, 1, C, cells): every kernel sees all
        for i, coefficients in enumerate(seen_by):
            x = self.layer(x, f"perceive.{i}", coefficients)
        features = x.permute(2, 0, 1, 3).flatten(end_dim=2)  # (outputs, K, C, cells) → channel, output, kernel
        x = torch.cat([state.flatten(start_dim=1), features])
        for i, coefficients in enumerate(updates):
            x = self.layer(x, f"update.{i}", coefficients)
        return x.view(state.shape)

    def inputs(self, batch: Batch) -> list[Array]:
        """state (C, B, H, W), targets (k, B, H, W), fire (steps, 1, 1, H, W), which is empty where all cells fire."""
        boards = batch.arrays
        grids, targets = (part.transpose(3, 0, 1, 2) for part in (boards.grids, boards.targets))
        return [grids, targets, boards.fire.reshape(-1, 1, 1, *grids.shape[2:]) > 0]

    def loss(self, state: Tensor, wanted: Tensor, fire: Tensor, ca_step: Any, numbers: Any) -> Tensor:
        seen_by, updates = numbers()
        for t in range(self.config.ca_steps):
            after = ca_step(state, seen_by, updates)
            state = torch.where(fire[t], after, state) if len(fire) else after
        return (state[: len(wanted)] - wanted).square().sum()

    def weights(self) -> Array:
        return np.concatenate([value.detach().cpu().numpy().ravel() for value in self.logits.values()])


def build(problem: Problem, compiled: bool = False) -> Stepper:
    model = Automaton(problem, torch.device("cpu"), torch.compile(gate, dynamic=True) if compiled else gate)

    def loss(batch: Batch) -> Tensor:
        state, wanted, fire = (torch.from_numpy(np.ascontiguousarray(part)) for part in model.inputs(batch))
        return model.loss(state, wanted, fire, model.ca_step, model.numbers)

    return Stepper(optimise(problem, list(model.logits.values()), loss), model.weights)


def build_on(problem: Problem, device: str, compiled: bool = False, graph: bool = False) -> Stepper:
    """On a GPU, where a whole CA step is worth compiling; its backward comes with it."""

    def make(where: torch.device) -> Recipe:
        model = Automaton(problem, where)
        ca_step: Any = torch.compile(model.ca_step) if compiled else model.ca_step
        numbers: Any = torch.compile(model.numbers) if compiled else model.numbers

        def loss(state: Tensor, wanted: Tensor, fire: Tensor) -> Tensor:
            return model.loss(state, wanted, fire, ca_step, numbers)

        return Recipe(list(model.logits.values()), loss, model.inputs, model.weights)

    return stepper(problem, device, make, graph)
