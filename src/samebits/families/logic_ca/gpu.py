"""The automata on a GPU: the gates of a cell level by level, a group of threads a tile (automaton.cl, gates.cl)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samebits.engine.arrays import Array
from samebits.engine.family import Batch, Constants, Kernels, Wave
from samebits.families.logic_ca.automaton import to_planes
from samebits.families.logic_ca.boards import cut
from samebits.families.logic_ca.config import POSITIONS, LogicConfig, gate_count
from samebits.families.logic_ca.data import Boards, judged
from samebits.families.logic_ca.program import WRITES_A, WRITES_B, Program, compile_program
from samebits.families.logic_ca.tiling import Tiling, column_count, neighbour_columns, seats
from samebits.gpu import elementary
from samebits.gpu.device import LANES, THREADS, Gpu

OWNER = "logic_ca"
GATES = elementary.FILE, "families/logic_ca/gates.cl"
AUTOMATON = LANES, "families/logic_ca/automaton.cl"
SOFT, MARKED, HARD = 0, 1, 2  # which gates compute hard
NOTHING, STORES, GIVEN = 0, 1, 2  # what the adjoint of a block begins with: zero, its first reader, what the loss says


class Levels(NamedTuple):
    """A program's gates in levels: those of one do not read each other. Places are blocks."""

    steps: Array  # (entries, 4) a, b, out, number: a gate over all channels is an entry for each
    levels: Array  # (depth + 1,) where each level begins there
    gates: Array  # (gates, 4) first block of the output, how many, number, first entry
    gate_levels: Array
    readers: Array  # (…, 3) who reads a block, last first: output, the other input, 2 · number + side
    reader_starts: Array
    begins: Array  # (blocks,) NOTHING, STORES or GIVEN
    outputs: Array
    size: int  # floats of a tile's values

    @property
    def depth(self) -> int:
        return len(self.levels) - 1


@lru_cache(maxsize=4)
def _levels(key: Any, channels: int, lanes: int) -> Levels:
    program: Program = key.program
    full, flags = program.full.astype(np.int64), program.adjoint[:, 3]
    blocks = program.full_size // lanes
    triples = np.column_stack([full[:, :3] // lanes, full[:, 3]])
    level = np.zeros(blocks, np.int64)
    widths = np.where(np.arange(len(triples)) < program.wide, channels, 1)
    for (a, b, out, _), width in zip(triples.tolist(), widths.tolist(), strict=True):
        level[out : out + width] = 1 + max(level[a : a + width].max(), level[b : b + width].max())
    own = level[triples[:, 2]]
    order = np.argsort(own, kind="stable")
    depth = int(own.max())
    steps: list[tuple[int, ...]] = []
    gates: list[tuple[int, ...]] = []
    for index in order.tolist():
        a, b, out, number = triples[index].tolist()
        gates.append((out, int(widths[index]), number, len(steps)))
        steps += [(a + c, b + c, out + c, number) for c in range(widths[index])]
    entry_levels = np.repeat(own[order], widths[order])
    readers: list[list[tuple[int, int, int]]] = [[] for _ in range(blocks)]
    begins = np.full(blocks, NOTHING, np.uint8)
    outputs = program.full_outputs.astype(np.int64) // lanes
    begins[outputs] = GIVEN
    for index in range(len(triples) - 1, -1, -1):
        a, b, out, number = triples[index].tolist()
        for c in range(int(widths[index])):
            for side, (mine, other, flag) in enumerate(((a + c, b + c, WRITES_A), (b + c, a + c, WRITES_B))):
                if not readers[mine] and flags[index] & flag:
                    begins[mine] = STORES
                readers[mine].append((out + c, other, 2 * number + side))
    starts = np.concatenate([[0], np.cumsum([len(some) for some in readers])])
    flat = [one for some in readers for one in some]

    def table(rows: Any) -> Array:
        return np.ascontiguousarray(rows, np.int32)

    return Levels(
        table(steps), table(np.searchsorted(entry_levels, np.arange(1, depth + 2))), table(gates),
        table(np.searchsorted(own[order], np.arange(1, depth + 2))), table(flat), table(starts), begins, table(outputs),
        program.full_size,
    )  # fmt: skip


class _Key:
    """A program as a key: compile_program returns the same object for the same circuit."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return id(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.program is self.program


def levels_of(config: LogicConfig, wires: Constants) -> Levels:
    return _levels(_Key(compile_program(config, wires)), config.channels, config.lanes)


class Run:
    """What the kernels of a wave read and none changes, on the device."""

    def __init__(self, config: LogicConfig, wires: Constants, boards: Boards, plan: Tiling, device: Gpu) -> None:
        samples, height, width, channels = boards.grids.shape
        self.device, self.plan, self.boards, self.config = device, plan, boards, config
        self.cells, self.grid = samples * height * width, height * width
        self.columns, self.channels = column_count(samples, self.grid), channels
        self.scratch, periodic = device.scratch(OWNER), config.boundary == "periodic"
        table = self.scratch.constant
        self.levels = levels = levels_of(config, wires)
        names = ("steps", "levels", "gates", "gate_levels", "readers", "reader_starts", "begins", "outputs")
        self.tables = {name: table(name, getattr(levels, name)) for name in names}
        self.neighbours = table("neighbours", neighbour_columns(samples, height, width, periodic))
        self.seats = table("seats", _narrow(seats(plan, samples, height, width, periodic, channels, config.lanes)))
        self.tiles = table("tiles", _narrow(plan.tiles))
        self.fire = self.scratch.buffer("fire", (max(1, boards.fire.size),), np.uint8)
        if boards.fire.size:
            self.fire[:] = boards.fire.reshape(-1)
        self.warps = device.warps
        self.values = self.scratch.buffer("values", (plan.units, levels.size), np.float32)
        self.kernels = device.program(AUTOMATON, CELLS=config.lanes, WARPS=self.warps)
        self.targets = self._planes("targets", boards.targets)

    def _planes(self, name: str, grids: Array) -> Any:
        host = np.zeros((grids.shape[-1], self.columns), np.float32)
        to_planes(grids, host)
        found = self.scratch.buffer(name, host.shape, np.float32)
        found[:] = host
        return found

    def begin(self, states: Any) -> None:
        """The grids of CA step 0. At every step the columns after the cells are zeros, whoever had the memory."""
        self.device.clear(states)
        host = np.zeros((1, *states.shape[1:]), np.float32)
        to_planes(self.boards.grids, host[0])
        states[:1] = host

    def fired(self, t: int) -> tuple[Any, int]:
        """The mask of a CA step, and whether there is one."""
        some = bool(self.boards.fire.size)
        return (self.fire[t * self.grid : (t + 1) * self.grid] if some else self.fire), int(some)

    def step(self, following: Any, state: Any, coef: Any, t: int) -> None:
        tables, (fire, fired) = self.tables, self.fired(t)
        self.device.post(
            self.kernels["forward_step"], self.plan.units, 32 * self.warps, following, state, self.values, coef,
            tables["steps"], tables["levels"], self.levels.depth, tables["outputs"], self.neighbours, self.tiles, fire,
            fired, self.channels, self.grid, self.cells, self.columns, self.levels.size,
        )  # fmt: skip


@lru_cache(maxsize=8)
def _narrowed(content: bytes, shape: tuple[int, ...]) -> Array:
    return np.frombuffer(content, np.int64).reshape(shape).astype(np.int32)


def _narrow(places: Array) -> Array:
    return _narrowed(np.ascontiguousarray(places, np.int64).tobytes(), places.shape)


def coefficients(config: LogicConfig, params: Any, hard: Array, mode: int, device: Gpu) -> tuple[Any, Any]:
    count, scratch = gate_count(config), device.scratch(OWNER)
    coef = scratch.buffer("coefficients", (count, 4), np.float32)
    chances = scratch.buffer("chances", (count, 16), np.float32)
    marks = scratch.buffer("hard", (count,), np.uint8)
    if hard.size:
        marks[:] = hard.astype(np.uint8)
    kernel = device.program(GATES, **elementary.WORDS)["coefficients"]
    device.post(kernel, -(-count // THREADS), THREADS, coef, chances, params, marks, count, mode)
    return coef, chances


def gradient(
    config: LogicConfig, constants: Constants, params: Any, batch: Batch, wave: Wave, slots: Any, losses: Any,
    device: Gpu,
) -> Any:  # fmt: skip
    boards, plan = cut(config, batch, wave)
    run = Run(config, constants, boards, plan, device)
    scratch, tables, steps = run.scratch, run.tables, config.ca_steps
    states = scratch.buffer("states", (steps, run.channels, run.columns), np.float32)
    patches = scratch.buffer("patches", (2, plan.units + 1, POSITIONS * run.channels * config.lanes), np.float32)
    passed = scratch.buffer("passed", (2, run.channels, run.columns), np.float32)
    adjoints = scratch.buffer("adjoints", (plan.units, run.levels.size), np.float32)
    for half in range(2):
        patches[half][plan.units : plan.units + 1] = 0
    run.begin(states)
    counts = judged(config)
    coef, chances = coefficients(config, params, boards.hard, MARKED if boards.hard.size else SOFT, device)
    for t in range(steps - 1):
        run.step(states[t + 1], states[t], coef, t)
    for t in range(steps - 1, -1, -1):
        fire, fired = run.fired(t)
        now, after = t % 2, (t + 1) % 2
        device.post(
            run.kernels["backward_step"], plan.units, 32 * run.warps, slots, losses, patches[now], patches[after],
            passed[now], passed[after], states[t], run.values, adjoints, coef, tables["steps"], tables["levels"],
            run.levels.depth, tables["gates"], tables["gate_levels"], tables["readers"],
            tables["reader_starts"], tables["begins"], tables["outputs"], run.neighbours, run.seats, run.targets,
            run.tiles, fire, fired, run.channels, len(run.targets), run.grid, run.cells, run.columns,
            run.levels.size, gate_count(config), int(t == steps - 1), states[min(t + 1, steps - 1)], int(counts[t]),
        )  # fmt: skip
    return chances


def pull_back(config: LogicConfig, params: Any, merged: Any, out: Any, chances: Any, device: Gpu) -> None:
    count = gate_count(config)
    kernel = device.program(GATES, **elementary.WORDS)["pull_back"]
    device.post(kernel, -(-count // THREADS), THREADS, out, chances, merged, count)


def evaluate(
    config: LogicConfig, constants: Constants, params: Any, batch: Batch, wave: Wave, rows: Any, device: Gpu
) -> None:
    """Soft and hard squared error of every unit's cells, from the same starts."""
    boards, plan = cut(config, batch, wave)
    run = Run(config, constants, boards, plan, device)
    states = run.scratch.buffer("rollout", (2, run.channels, run.columns), np.float32)
    flat = rows.reshape(-1)
    for column, mode in enumerate((SOFT, HARD)):
        coef, _ = coefficients(config, params, boards.hard, mode, device)
        run.begin(states)
        earlier = 0  # whether there are errors to add to
        for t, counts in enumerate(judged(config)):
            run.step(states[(t + 1) % 2], states[t % 2], coef, t)
            if counts:
                device.post(
                    run.kernels["squared_errors"], plan.units, 32, flat[column:], rows.shape[1], states[(t + 1) % 2],
                    run.targets, run.tiles, len(run.targets), run.columns, earlier,
                )  # fmt: skip
                earlier = 1


KERNELS = Kernels(gradient, evaluate, pull_back)
