"""Rollouts and gradients of whole batches: lays out the memory, hands the tiles to the workers."""

from __future__ import annotations

import numpy as np

from samebits.engine.arrays import Array
from samebits.engine.family import Constants
from samebits.engine.workers import Workers
from samebits.families.logic_ca.config import POSITIONS, LogicConfig
from samebits.families.logic_ca.gates import training_coefficients
from samebits.families.logic_ca.kernels import forward_worker, gradient_worker
from samebits.families.logic_ca.program import compile_program
from samebits.families.logic_ca.tiling import Tiling, column_count, neighbour_columns, seats, waits


def to_planes(grids: Array, out: Array) -> None:
    """(S, H, W, k) → (k, S·N) in the columns of `out`; the columns after it stay zero."""
    k = grids.shape[-1]
    out[:, : grids.size // k] = grids.reshape(-1, k).T


def from_planes(planes: Array, shape: tuple[int, ...]) -> Array:
    """The reverse, for a grid shape (S, H, W, C)."""
    samples, height, width, _ = shape
    return np.array(planes[:, : samples * height * width].T, order="C").reshape(shape)


def rollout(
    config: LogicConfig, wires: Constants, coef: Array, grids: Array, fire: Array, plan: Tiling, steps: int,
    workers: Workers, depth: int = 2,
) -> Array:  # fmt: skip
    """Run `steps` CA steps; the states buffer (depth, C, columns), step t at t mod depth."""
    samples, height, width, channels = grids.shape
    program, periodic = compile_program(config, wires), config.boundary == "periodic"
    cells = samples * height * width
    states = workers.buffer("states", (depth, channels, column_count(samples, height * width)), coef.dtype)
    states[:, :, cells:] = 0
    to_planes(grids, states[0])
    workers.run(
        forward_worker, workers.counters(plan.units), workers.counters(plan.units), workers.ticks,
        states, workers.per_worker("values", program.live_size, coef.dtype),
        neighbour_columns(samples, height, width, periodic),
        coef, fire, program.full, program.live, program.live_outputs, program.wide,
        plan.tiles, plan.across, len(plan.group_tiles), *waits(plan, samples, height, width, periodic),
        steps, config.lanes,
    )  # fmt: skip
    return states


def gradient(
    config: LogicConfig, wires: Constants, logits: Array, grids: Array, targets: Array, fire: Array, hard: Array,
    plan: Tiling, sums: Array, losses: Array, workers: Workers,
) -> None:  # fmt: skip
    """Post it: fill sums (units, G, 4) and losses (units, 1) for these samples, in the units of the plan."""
    samples, height, width, channels = grids.shape
    cells, columns = samples * height * width, column_count(samples, height * width)
    program, periodic = compile_program(config, wires), config.boundary == "periodic"
    dtype = logits.dtype
    states = workers.buffer("states", (config.ca_steps, channels, columns), dtype)
    units = plan.units
    patches = workers.buffer("patches", (2, units + 1, POSITIONS * channels, config.lanes), dtype)
    kept = workers.buffer("kept", (2, channels, columns), dtype)
    wanted = workers.buffer("targets", (targets.shape[-1], columns), dtype)
    states[:, :, cells:] = 0
    patches[:, units] = 0
    to_planes(grids, states[0])
    to_planes(targets, wanted)
    workers.post(
        gradient_worker, workers.counters(units), workers.counters(units), workers.ticks,
        sums, losses, patches, kept, states, wanted,
        workers.per_worker("values", program.full_size, dtype),
        workers.per_worker("adjoint", program.adjoint_size, dtype),
        neighbour_columns(samples, height, width, periodic),
        seats(plan, samples, height, width, periodic, channels, config.lanes),
        training_coefficients(logits, hard, workers), fire, program.full, program.live, program.adjoint, program.unread,
        program.full_outputs, program.live_outputs, program.adjoint_outputs, program.wide,
        plan.tiles, plan.across, len(plan.group_tiles), *waits(plan, samples, height, width, periodic),
        config.ca_steps, config.lanes,
    )  # fmt: skip
