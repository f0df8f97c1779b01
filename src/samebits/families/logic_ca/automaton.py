"""Rollouts and gradients of whole batches: lays out the memory, hands the tiles to the workers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.cpu.sync import Levels
from samebits.devices.cpu.workers import Workers
from samebits.families.logic_ca.config import POSITIONS, LogicConfig
from samebits.families.logic_ca.data import Boards, judged
from samebits.families.logic_ca.gates import hard_coefficients, soft_coefficients, training_coefficients
from samebits.families.logic_ca.kernels import (
    Automaton,
    Backward,
    Memory,
    Results,
    Tiles,
    forward_worker,
    gradient_worker,
)
from samebits.families.logic_ca.program import compile_program
from samebits.families.logic_ca.tiling import Tiling, column_count, neighbour_columns, seats, waits
from samebits.training.contract import Constants

OWNER = "logic_ca"  # of scratch memory


class Rollout(NamedTuple):
    """Where a rollout starts, what its cells do, how they are cut, and how many CA steps it has."""

    grids: Array  # (B, H, W, C)
    fire: Array
    plan: Tiling
    steps: int


def to_planes(grids: Array, out: Array) -> None:
    """(S, H, W, k) → (k, S·N) in the columns of `out`; the columns after it stay zero."""
    k = grids.shape[-1]
    out[:, : grids.size // k] = grids.reshape(-1, k).T


def from_planes(planes: Array, shape: tuple[int, ...]) -> Array:
    """The reverse, for a grid shape (S, H, W, C)."""
    samples, height, width, _ = shape
    return np.array(planes[:, : samples * height * width].T, order="C").reshape(shape)


def _tiles(plan: Tiling, samples: int, height: int, width: int, periodic: bool) -> Tiles:
    return Tiles(plan.tiles, plan.across, len(plan.group_tiles), *waits(plan, samples, height, width, periodic))


def _tasks(units: int, workers: Workers) -> Levels:
    return Levels(workers.counters(units), workers.counters(units), workers.schedule)


def rollout(
    config: LogicConfig, wires: Constants, coef: Array, run: Rollout, workers: Workers, depth: int = 2
) -> Array:
    """Run the CA steps; the states buffer (depth, C, columns), step t at t mod depth."""
    grids, fire, plan, steps = run
    samples, height, width, channels = grids.shape
    program, periodic, scratch = compile_program(config, wires), config.boundary == "periodic", workers.scratch(OWNER)
    cells = samples * height * width
    states = scratch.buffer("states", (depth, channels, column_count(samples, height * width)), coef.dtype)
    states[:, :, cells:] = 0
    to_planes(grids, states[0])
    neighbours = neighbour_columns(samples, height, width, periodic)
    workers.run(
        forward_worker, _tasks(plan.units, workers), states,
        scratch.per_worker("values", program.live_size, coef.dtype),
        Automaton(program, coef, neighbours, fire, steps, config.lanes),
        _tiles(plan, samples, height, width, periodic),
    )  # fmt: skip
    return states


def rolled_out(
    config: LogicConfig, wires: Constants, params: Array, run: Rollout, soft: bool, trajectory: bool, workers: Workers
) -> Array:
    """The grids (B, H, W, C) after the CA steps, or with `trajectory` all of them, (steps + 1, B, H, W, C)."""
    logits, steps, shape = params.reshape(-1, 16), run.steps, run.grids.shape
    coef, depth = soft_coefficients(logits) if soft else hard_coefficients(logits), steps + 1 if trajectory else 2
    states = rollout(config, wires, coef, run, workers, depth)
    if not trajectory:
        return from_planes(states[steps % 2], shape)
    return np.stack([from_planes(planes, shape) for planes in states])


def gradient(
    config: LogicConfig, wires: Constants, logits: Array, boards: Boards, plan: Tiling, sums: Array, losses: Array,
    workers: Workers,
) -> Array:  # fmt: skip
    """Post it: fill sums (units, G, 4) and losses (units, 1) for these samples, in the units of the plan.

    Returns the gates' probabilities (G, 16), for gates.pull_back; there once the workers have joined.
    """
    samples, height, width, channels = boards.grids.shape
    cells, columns = samples * height * width, column_count(samples, height * width)
    program, periodic, scratch = compile_program(config, wires), config.boundary == "periodic", workers.scratch(OWNER)
    dtype, units, lanes = logits.dtype, plan.units, config.lanes
    states = scratch.buffer("states", (config.ca_steps, channels, columns), dtype)
    patches = scratch.buffer("patches", (2, units + 1, POSITIONS * channels, lanes), dtype)
    passed = scratch.buffer("passed", (2, channels, columns), dtype)
    targets = scratch.buffer("targets", (boards.targets.shape[-1], columns), dtype)
    states[:, :, cells:] = 0
    patches[:, units] = 0
    to_planes(boards.grids, states[0])
    to_planes(boards.targets, targets)
    coef, probabilities = training_coefficients(logits, boards.hard, workers)
    neighbours = neighbour_columns(samples, height, width, periodic)
    workers.post(
        gradient_worker, _tasks(units, workers), Results(sums, losses), states,
        Memory(
            scratch.per_worker("values", program.full_size + lanes, dtype),
            scratch.per_worker("adjoint", program.adjoint_size, dtype),
        ),
        Automaton(program, coef, neighbours, boards.fire, config.ca_steps, lanes),
        Backward(
            patches, passed, seats(plan, samples, height, width, periodic, channels, lanes), targets, judged(config)
        ),
        _tiles(plan, samples, height, width, periodic),
    )  # fmt: skip
    return probabilities
