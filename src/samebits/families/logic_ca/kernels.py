"""Compiled rollouts and their gradients. One task is one tile of cells for one CA step.

Shapes: S samples in flight, N = H·W cells each, C channels, T CA steps, G gates, L cells a tile (config key `lanes`).
  states      (D, C, columns)   the grids; step t lives at t mod D; columns are the S·N cells, then zeros
  neighbours  (9, S·N)          column of a cell's neighbour p; I am neighbour p of my own neighbour 8 − p
  patches     (2, units + 1, 9·C, L) gradients of the cells' inputs, of the CA step in work and the one before it, tile
                                by tile as they are made; the last one is the cell outside the grid: zeros
  seats       (9, S·N)          place in patches, flat, of the neighbour that sees a cell as its own neighbour p
  coef        (G, 4)            c₀ … c₃ of every gate
  sums        (units, G, 4)     Σd, Σd·a, Σd·b, Σd·ab: a unit's slot
  fire        (T, N)            whether a cell TAKES its new state, KEEPS its old one or DIES; empty when all take it
  judged      (T,)              1 where the picture after a step counts; the last one always does
  passed      (2, C, columns)   gradients that passed an unfired cell by, like patches
  values, adjoint               a worker's own scratch, laid out by program.py; after the values a row of `lanes` errors

A tile waits for the tiles that hold neighbours of its cells and for no others: a count of finished tasks says
how far each is. A worker prefers the same tiles at every level: their sums are in its cache (devices/cpu/sync.py).
"""

from __future__ import annotations

from typing import NamedTuple

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.simd import wide_squares
from samebits.compiler.jit import kernel
from samebits.devices.cpu.sync import (
    BACKWARD,
    FORWARD,
    WAITING,
    Levels,
    Schedule,
    finish,
    take,
    ticks,
    unit_at,
    wait_for,
)
from samebits.families.logic_ca.data import DIES, KEEPS, TAKES
from samebits.families.logic_ca.gate_kernels import GateRows, gate_backward, gate_forward
from samebits.families.logic_ca.program import Program


class Tiles(NamedTuple):
    """How the cells are cut, and which tiles wait for which (tiling.py)."""

    starts: Array  # (units + 1,) first cell of each
    across: Array  # (units,) the units, first tiles of all groups first
    groups: int
    wait_starts: Array  # (units + 1,) CSR over …
    wait_units: Array  # … the units that hold neighbours of a unit's cells


class Automaton(NamedTuple):
    """What every step of a rollout reads and none changes."""

    program: Program
    coef: Array
    neighbours: Array
    fire: Array
    steps: int
    cells: int  # most cells of a tile


class Backward(NamedTuple):
    """What the way back keeps and shares between tiles."""

    patches: Array
    passed: Array
    seats: Array
    targets: Array
    judged: Array


class Memory(NamedTuple):
    """Scratch of the way back, a row each worker."""

    values: Array
    adjoint: Array


class Results(NamedTuple):
    """What the way back leaves, a row each unit."""

    sums: Array  # (units, G, 4)
    losses: Array  # (units, 1)


@kernel
def gather_patch(values: Array, state: Array, neighbours: Array, start: int, count: int, cells: int) -> None:
    """The tile's inputs, rows (position, channel). Cells past the tile are 0, so that nothing stale is ever summed."""
    channels = state.shape[0]
    for p in range(9):
        for c in range(channels):
            plane, base = state[c], (p * channels + c) * cells
            for cell in range(count):
                values[base + cell] = plane[neighbours[p, start + cell]]
            for cell in range(count, cells):
                values[base + cell] = 0


@kernel
def forward_gates(
    values: Array, offsets: Array, numbers: Array, coef: Array, wide: int, wide_width: int, cells: int
) -> None:
    for g in range(offsets.shape[0]):
        width = wide_width if g < wide else cells
        gate_forward(values, offsets[g, 0], offsets[g, 1], offsets[g, 2], coef[numbers[g, 3]], width)


@kernel
def backward_gates(sums: Array, adjoint: Array, values: Array, run: Automaton, channels: int) -> None:
    """The same list in reverse."""
    full, places, coef, cells = run.program.full, run.program.adjoint, run.coef, run.cells
    wide, wide_width = run.program.wide, channels * cells
    for g in range(full.shape[0] - 1, -1, -1):
        q = full[g, 3]
        rows = GateRows(full[g, 0], full[g, 1], places[g, 0], places[g, 1], places[g, 2], places[g, 3])
        gate_backward(sums[q], adjoint, values, rows, coef[q], wide_width if g < wide else cells)


@kernel
def wait_for_neighbours(progress: Array, tiles: Tiles, u: int, level: int) -> None:
    """Until unit u and every unit that holds a neighbour of its cells have finished `level` tasks."""
    for i in range(tiles.wait_starts[u], tiles.wait_starts[u + 1]):
        wait_for(progress, tiles.wait_units[i], level)


@kernel
def preferred(place: int, tiles: Tiles, schedule: Schedule) -> int:
    """The unit at a place of the order that workers prefer.

    Where there are as many groups as workers, group by group: a worker then seldom waits for another. Where there are
    fewer, a worker gets tiles of several groups: when one waits for a slower neighbour, the other can go on.
    """
    return tiles.across[place] if schedule.workers > tiles.groups else place


@kernel
def keep_unfired(values: Array, outputs: Array, state: Array, fire: Array, t: int, start: int, count: int) -> None:
    """Cells that do not fire at CA step t keep their state, in all channels; those that die are 0."""
    if fire.shape[0] == 0:
        return
    grid = fire.shape[1]
    for c in range(outputs.shape[0]):
        base = outputs[c]
        for cell in range(count):
            does = fire[t, (start + cell) % grid]
            if does == KEEPS:
                values[base + cell] = state[c, start + cell]
            elif does == DIES:
                values[base + cell] = 0


@kernel
def pass_by_unfired(adjoint: Array, passed: Array, outputs: Array, fire: Array, t: int, start: int, count: int) -> None:
    """… and pass their gradient straight through: it skips the gates and waits in `passed` for the step before. That of
    the dead goes nowhere."""
    if fire.shape[0] == 0:
        return
    grid = fire.shape[1]
    for c in range(outputs.shape[0]):
        base = outputs[c]
        for cell in range(count):
            column = start + cell
            does = fire[t, column % grid]
            passed[c, column] = adjoint[base + cell] if does == KEEPS else 0
            if does != TAKES:
                adjoint[base + cell] = 0


@kernel
def forward_tile(state_out: Array, state: Array, values: Array, run: Automaton, t: int, start: int, count: int) -> None:
    """CA step t of the cells start … start + count."""
    channels, program = state.shape[0], run.program
    gather_patch(values, state, run.neighbours, start, count, run.cells)
    forward_gates(values, program.live, program.full, run.coef, program.wide, channels * run.cells, run.cells)
    keep_unfired(values, program.live_outputs, state, run.fire, t, start, count)
    for c in range(channels):
        for cell in range(count):
            state_out[c, start + cell] = values[program.live_outputs[c] + cell]


@kernel
def gather_adjoint(adjoint: Array, run: Automaton, back: Backward, t: int, start: int, count: int) -> None:
    """d loss / d (the state after step t): what the nine cells that see each cell passed back, in fixed order."""
    outputs, seats, fire, cells = run.program.adjoint_outputs, back.seats, run.fire, run.cells
    patches, passed = back.patches[(t + 1) % 2], back.passed[(t + 1) % 2]
    channels, flat = outputs.shape[0], patches.reshape(-1)
    for c in range(channels):
        base = outputs[c]
        for cell in range(count):
            total = flat[seats[0, start + cell] + c * cells]
            for p in range(1, 9):
                total += flat[seats[p, start + cell] + (p * channels + c) * cells]
            adjoint[base + cell] = total
        if fire.shape[0] > 0:
            for cell in range(count):
                adjoint[base + cell] += passed[c, start + cell]
        for cell in range(count, cells):
            adjoint[base + cell] = 0


@kernel
def loss_tile(
    adjoint: Array, outputs: Array, values: Array, full_outputs: Array, targets: Array,
    start: int, count: int, cells: int,
) -> float:  # fmt: skip
    """Σ (y − target)² over the tile's target channels, and its derivative."""
    loss = 0.0
    for c in range(outputs.shape[0]):
        row, slope = values[full_outputs[c] :], adjoint[outputs[c] : outputs[c] + cells]
        for cell in range(cells):
            slope[cell] = 0
        if c < targets.shape[0]:
            for cell in range(count):
                slope[cell] = row[cell] - targets[c, start + cell]
            loss += wide_squares(slope)
            for cell in range(count):
                slope[cell] += slope[cell]
    return loss


@kernel
def judge_tile(
    adjoint: Array, outputs: Array, state: Array, targets: Array, errors: Array, start: int, count: int
) -> float:
    """The same for a step before the last, whose state is kept; the derivative is added to what later steps say."""
    loss = 0.0
    for c in range(targets.shape[0]):
        for cell in range(count):
            errors[cell] = state[c, start + cell] - targets[c, start + cell]
        for cell in range(count, errors.size):
            errors[cell] = 0
        loss += wide_squares(errors)
        for cell in range(count):
            adjoint[outputs[c] + cell] += errors[cell] + errors[cell]
    return loss


@kernel
def squared_errors(rows: Array, state: Array, targets: Array, tiles: Array, errors: Array) -> None:
    """rows (units,) = the same of every tile of a state (C, columns); errors is scratch for a tile's."""
    for u in range(rows.size):
        first, last = tiles[u], tiles[u + 1]
        loss = 0.0
        for c in range(targets.shape[0]):
            for i in range(last - first):
                errors[i] = state[c, first + i] - targets[c, first + i]
            loss += wide_squares(errors[: last - first])
        rows[u] = loss


@kernel
def forward_worker(worker: int, tasks: Levels, states: Array, values: Array, run: Automaton, tiles: Tiles) -> None:
    """Roll out all CA steps."""
    claims, progress, schedule = tasks.claims, tasks.progress, tasks.schedule
    units, depth, mine = tiles.starts.size - 1, states.shape[0], values[worker]
    first = worker * units // schedule.workers
    t = cursor = 0
    while t < run.steps:
        cursor = take(claims, t, cursor, first)
        if cursor == units:
            t, cursor = t + 1, 0
            continue
        u = preferred(unit_at(cursor, first, units), tiles, schedule)
        begin = ticks()
        wait_for_neighbours(progress, tiles, u, t)
        ready = ticks()
        start = tiles.starts[u]
        forward_tile(states[(t + 1) % depth], states[t % depth], mine, run, t, start, tiles.starts[u + 1] - start)
        finish(progress, u)
        schedule.clock[worker, WAITING] += ready - begin
        schedule.clock[worker, FORWARD] += ticks() - ready


@kernel
def gradient_worker(
    worker: int, tasks: Levels, results: Results, states: Array, memory: Memory, run: Automaton, back: Backward,
    tiles: Tiles,
) -> None:  # fmt: skip
    """Forward for steps − 1 CA steps, keeping the grids; then backward for all, recomputing each tile's values."""
    claims, progress, schedule = tasks.claims, tasks.progress, tasks.schedule
    sums, losses = results.sums, results.losses
    units, channels, program, cells = tiles.starts.size - 1, states.shape[1], run.program, run.cells
    mine, gradients = memory.values[worker], memory.adjoint[worker]
    first = worker * units // schedule.workers
    level = cursor = 0
    while level < 2 * run.steps - 1:
        cursor = take(claims, level, cursor, first)
        if cursor == units:
            level, cursor = level + 1, 0
            continue
        u = preferred(unit_at(cursor, first, units), tiles, schedule)
        begin = ticks()
        wait_for_neighbours(progress, tiles, u, level)
        ready = ticks()
        start = tiles.starts[u]
        count = tiles.starts[u + 1] - start
        if level < run.steps - 1:
            forward_tile(states[level + 1], states[level], mine, run, level, start, count)
            halfway = ticks()
        else:
            t = 2 * run.steps - 2 - level
            gather_patch(mine, states[t], run.neighbours, start, count, cells)
            forward_gates(mine, program.full, program.full, run.coef, program.wide, channels * cells, cells)
            halfway = ticks()
            if t == run.steps - 1:
                sums[u] = 0
                keep_unfired(mine, program.full_outputs, states[t], run.fire, t, start, count)
                losses[u, 0] = loss_tile(
                    gradients, program.adjoint_outputs, mine, program.full_outputs, back.targets, start, count, cells
                )
            else:
                gather_adjoint(gradients, run, back, t, start, count)
                if back.judged[t]:
                    losses[u, 0] += judge_tile(
                        gradients, program.adjoint_outputs, states[t + 1], back.targets, mine[program.full_size :],
                        start, count,
                    )  # fmt: skip
            pass_by_unfired(gradients, back.passed[t % 2], program.adjoint_outputs, run.fire, t, start, count)
            for block in program.unread:
                for cell in range(cells):
                    gradients[block + cell] = 0
            backward_gates(sums[u], gradients, mine, run, channels)
            out = back.patches[t % 2, u].reshape(-1)
            for i in range(out.size):
                out[i] = gradients[i]
        finish(progress, u)
        schedule.clock[worker, WAITING] += ready - begin
        schedule.clock[worker, FORWARD] += halfway - ready
        schedule.clock[worker, BACKWARD] += ticks() - halfway
