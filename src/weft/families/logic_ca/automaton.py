"""Rollouts and gradients of whole batches: lays out the memory, hands the tiles to the workers."""

from __future__ import annotations

import numpy as np

from weft.engine.arrays import Array
from weft.engine.family import Constants
from weft.engine.workers import Workers
from weft.families.logic_ca.config import POSITIONS, LogicConfig
from weft.families.logic_ca.gates import training_coefficients
from weft.families.logic_ca.kernels import forward_worker, gradient_worker
from weft.families.logic_ca.program import compile_program
from weft.families.logic_ca.tiling import Tiling, neighbour_columns


def to_planes(grids: Array, out: Array) -> None:
    """(S, H, W, k) → (k, S·N) in the columns of `out`; a last, zero column is the cell outside the grid."""
    k = grids.shape[-1]
    out[:, : grids.size // k] = grids.reshape(-1, k).T


def from_planes(planes: Array, shape: tuple[int, ...]) -> Array:
    """The reverse, for a grid shape (S, H, W, C)."""
    return np.array(planes[:, :-1].T, order="C").reshape(shape)


def rollout(
    config: LogicConfig, wires: Constants, coef: Array, grids: Array, fire: Array, plan: Tiling, steps: int,
    workers: Workers, depth: int = 2,
) -> Array:  # fmt: skip
    """Run `steps` CA steps; the states buffer (depth, C, S·N + 1), step t at t mod depth."""
    samples, height, width, channels = grids.shape
    program = compile_program(config, wires)
    states = workers.buffer("states", (depth, channels, samples * height * width + 1), coef.dtype)
    states[:, :, -1] = 0
    to_planes(grids, states[0])
    workers.run(
        forward_worker, workers.counters(len(plan.tile_group)), workers.counters(len(plan.group_tiles)), workers.ticks,
        states, workers.per_worker("values", program.live_size, coef.dtype),
        neighbour_columns(samples, height, width, config.boundary == "periodic"),
        coef, fire, program.full, program.live, program.live_outputs, program.wide,
        plan.tiles, plan.tile_group, plan.group_tiles, steps, config.lanes,
    )  # fmt: skip
    return states


def gradient(
    config: LogicConfig, wires: Constants, logits: Array, grids: Array, targets: Array, fire: Array, hard: Array,
    plan: Tiling, sums: Array, losses: Array, workers: Workers,
) -> None:  # fmt: skip
    """Fill sums (units, G, 4) and losses (units, 1) for these samples, in the units of the plan."""
    samples, height, width, channels = grids.shape
    columns = samples * height * width + 1
    program = compile_program(config, wires)
    dtype = logits.dtype
    states = workers.buffer("states", (config.ca_steps, channels, columns), dtype)
    patches = workers.buffer("patches", (2, POSITIONS * channels, columns), dtype)
    kept = workers.buffer("kept", (2, channels, columns), dtype)
    wanted = workers.buffer("targets", (targets.shape[-1], columns), dtype)
    states[:, :, -1] = 0
    patches[:, :, -1] = 0
    to_planes(grids, states[0])
    to_planes(targets, wanted)
    workers.run(
        gradient_worker, workers.counters(len(plan.tile_group)), workers.counters(len(plan.group_tiles)), workers.ticks,
        sums, losses, patches, kept, states, wanted,
        workers.per_worker("values", program.full_size, dtype),
        workers.per_worker("adjoint", program.adjoint_size, dtype),
        neighbour_columns(samples, height, width, config.boundary == "periodic"),
        training_coefficients(logits, hard), fire, program.full, program.live, program.adjoint, program.unread,
        program.full_outputs, program.live_outputs, program.adjoint_outputs, program.wide,
        plan.tiles, plan.tile_group, plan.group_tiles, config.ca_steps, config.lanes,
    )  # fmt: skip
