"""A trained automaton to use from Python: plain NumPy in and out, grids of any size."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from samebits.engine.arrays import Array
from samebits.engine.family import Constants, Wave
from samebits.engine.merge import sum_tree
from samebits.engine.params import views
from samebits.engine.reduction import Reduction
from samebits.engine.workers import Workers, workers_for
from samebits.errors import SamebitsError
from samebits.families.logic_ca import automaton
from samebits.families.logic_ca.circuit import Circuit, full_circuit
from samebits.families.logic_ca.config import LogicConfig, layout
from samebits.families.logic_ca.data import ALL_SOFT, ALWAYS, Boards
from samebits.families.logic_ca.gates import hard_coefficients, pull_back, soft_coefficients
from samebits.families.logic_ca.pruning import prune
from samebits.families.logic_ca.tiling import Tiling, tiling


@dataclass
class LogicModel:
    """`params` maps names to arrays, wires included; the arrays of logits are views into `weights`."""

    config: LogicConfig
    weights: Array  # the flat vector
    constants: Constants
    params: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        self.params = {**views(layout(self.config), self.weights), **self.constants}

    @cached_property
    def circuit(self) -> Circuit:
        """The learned circuit with everything superfluous removed; all channels kept."""
        return prune(full_circuit(self.config, self.weights.reshape(-1, 16), self.constants))

    def rollout(
        self,
        grids: Array,
        steps: int,
        soft: bool = False,
        trajectory: bool = False,
        fire: Array | None = None,
        workers: int | str | Workers = "auto",
    ) -> Array:
        """The grids (B, H, W, C) after `steps` CA steps, or with `trajectory` all of them, (steps + 1, B, H, W, C).

        fire (steps, H, W): cells where it is 0 keep their state at that step; by default every cell updates.
        """
        grids = self._check(grids)
        masks = self._masks(fire, grids, steps)
        if steps < 0:
            raise SamebitsError(f"steps is {steps}; it must be at least 0")
        logits = self.weights.reshape(-1, 16)
        plan = self._plan(grids)
        with workers_for(workers) as team:
            coef = soft_coefficients(logits) if soft else hard_coefficients(logits)
            depth = steps + 1 if trajectory else 2
            states = automaton.rollout(self.config, self.constants, coef, grids, masks, plan, steps, team, depth)
            if trajectory:
                return np.stack([automaton.from_planes(planes, grids.shape) for planes in states])
            return automaton.from_planes(states[steps % 2], grids.shape)

    def loss_and_gradient(
        self, grids: Array, targets: Array, fire: Array | None = None, workers: int | str | Workers = "auto"
    ) -> tuple[float, dict[str, Array]]:
        """Soft loss after config.ca_steps steps, and d loss / d logits by name. Targets (B, H, W) or (B, H, W, k)."""
        grids = self._check(grids)
        masks = self._masks(fire, grids, self.config.ca_steps)
        wanted = np.asarray(targets, self.weights.dtype)
        wanted = wanted[..., None] if wanted.ndim == 3 else wanted
        if wanted.shape[:3] != grids.shape[:3] or not 1 <= wanted.shape[-1] <= self.config.channels:
            raise SamebitsError(
                f"targets have shape {np.shape(targets)}; they must be (B, H, W) or (B, H, W, k) with the grids' "
                f"B, H, W = {grids.shape[:3]} and k at most {self.config.channels}"
            )
        plan, logits = self._plan(grids), self.weights.reshape(-1, 16)
        boards = Boards(grids, wanted, masks, ALL_SOFT)
        chances = logits  # until the gradient has made them

        with workers_for(workers) as team:
            reduction = Reduction(team, self.config.slot_memory, micro_batches=1, group_bytes=0)
            waves = [Wave(0, len(plan.group_tiles), 0, plan.units)]
            losses = reduction.losses(waves)

            def compute(wave: Wave, rows: Array) -> None:
                nonlocal chances
                sums = rows.reshape(len(rows), -1, 4)
                chances = automaton.gradient(self.config, self.constants, logits, boards, plan, sums, losses, team)

            merged = reduction.total(waves, 4 * len(logits), logits.dtype, compute).reshape(-1, 4)
            gradient = np.empty_like(logits)
            pull_back(gradient, chances, merged, team)
            team.join()
            return sum_tree(losses.reshape(-1).copy()), views(layout(self.config), gradient.reshape(-1))

    def _masks(self, fire: Array | None, grids: Array, steps: int) -> Array:
        if fire is None:
            return ALWAYS
        if np.shape(fire) != (steps, *grids.shape[1:3]):
            raise SamebitsError(
                f"fire has shape {np.shape(fire)}; it must be (steps, H, W) = {(steps, *grids.shape[1:3])}"
            )
        return np.asarray(fire).astype(np.uint8).reshape(steps, -1)

    def _plan(self, grids: Array) -> Tiling:
        return tiling(len(grids), grids[0, ..., 0].size, self.config.lanes)

    def _check(self, grids: Array) -> Array:
        found = np.asarray(grids, self.weights.dtype)
        if found.ndim != 4 or found.shape[3] != self.config.channels or 0 in found.shape:
            raise SamebitsError(
                f"grids have shape {np.shape(grids)}; they must be (B, H, W, C) with C = {self.config.channels}"
            )
        if not (inside := (found >= 0) & (found <= 1)).all():
            raise SamebitsError(f"grids hold {found[~inside][0]}; a cell is 0 or 1, or between for soft gates; fix it")
        return found
