"""The automata on a GPU: a group of threads has cells of a tile, and does the circuit level by level (automaton.cl)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samebits.engine.arrays import Array
from samebits.engine.family import Batch, Constants, Kernels, Wave
from samebits.families.logic_ca.automaton import from_planes, to_planes
from samebits.families.logic_ca.boards import cut
from samebits.families.logic_ca.config import POSITIONS, LogicConfig, gate_count
from samebits.families.logic_ca.data import ALL_SOFT, Boards
from samebits.families.logic_ca.levels import (
    Backward,
    Levels,
    Rounds,
    backward_rounds,
    forward_rounds,
    levels_of,
)
from samebits.families.logic_ca.tiling import Tiling, column_count, neighbour_columns, seats
from samebits.gpu import elementary
from samebits.gpu.device import LANES, THREADS, Gpu
from samebits.gpu.opened import require_single

OWNER = "logic_ca"
GATES = elementary.FILE, "families/logic_ca/gates.cl"
AUTOMATON = LANES, "families/logic_ca/automaton.cl"
SOFT, MARKED, HARD = 0, 1, 2  # which gates compute hard
WARP = 32


class Share(NamedTuple):
    """How many of the 32 lanes of a tile a group has, places of a number a cell, and whether they are on the chip."""

    lanes: int
    places: int
    quads: int
    inside: bool

    @property
    def floats(self) -> int:
        return 4 * self.places * self.quads


def share_of(places: int, lanes: int, units: int, device: Gpu) -> Share:
    """As many lanes as there is room for and still groups for everybody."""
    backend = device.backend
    shares = [Share(share, places, share * lanes // WARP // 4, True) for share in (8, 4)]
    fits = [share for share in shares if 4 * share.floats <= backend.room]
    if not fits:
        return shares[0]._replace(inside=False)
    return next((share for share in fits if units * WARP // share.lanes >= backend.busy), fits[-1])


@lru_cache(maxsize=8)
def _narrowed(content: bytes, shape: tuple[int, ...]) -> Array:
    return np.frombuffer(content, np.int64).reshape(shape).astype(np.int32)


def _narrow(places: Array) -> Array:
    return _narrowed(np.ascontiguousarray(places, np.int64).tobytes(), places.shape)


class _ById:
    """Levels as a key: the same circuit has the same object."""

    def __init__(self, one: Levels) -> None:
        self.one = one

    def __hash__(self) -> int:
        return id(self.one)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.one is self.one


class Tables(NamedTuple):
    """A circuit for groups of a device: where its numbers lie, and who computes them when."""

    forth: Share
    back: Share
    there: Rounds
    again: Rounds  # with a place for every block
    returns: Backward
    outputs: Array
    adjoints_at: int


@lru_cache(maxsize=8)
def _tables(known: _ById, forth: Share, back: Share, threads: int, blocks: int) -> Tables:
    """`blocks`: threads that have blocks on the way back."""
    levels: Levels = known.one
    return Tables(
        forth,
        back,
        forward_rounds(levels, levels.places, levels.room, blocks // forth.quads),
        forward_rounds(levels, np.arange(levels.blocks), levels.blocks, threads // back.quads),
        backward_rounds(levels, levels.blocks + 1, levels.blocks, blocks // back.quads),
        np.ascontiguousarray(levels.places[levels.outputs], np.int32),
        levels.blocks + 1,
    )


class Run:
    """What the kernels of a wave read and none changes, on the device."""

    def __init__(
        self, config: LogicConfig, wires: Constants, params: Any, boards: Boards, plan: Tiling, device: Gpu
    ) -> None:
        samples, height, width, self.channels = boards.grids.shape
        self.device, self.plan, self.config, self.params = device, plan, config, params
        self.cells, self.grid = samples * height * width, height * width
        self.columns, self.goals = column_count(samples, self.grid), boards.targets.shape[-1]
        self.scratch, self.count = device.scratch(OWNER), gate_count(config)
        self.fires, self.marks = bool(boards.fire.size), bool(boards.hard.size)
        self._shape, self._wires = (samples, height, width, config.boundary == "periodic"), wires
        planes = np.zeros((self.channels + self.goals, self.columns), np.float32)
        to_planes(boards.grids, planes[: self.channels])
        to_planes(boards.targets, planes[self.channels :])
        sent = self.scratch.send(
            "planes", {"grids": planes[: self.channels], "targets": planes[self.channels :]}, np.float32
        )
        self.start, self.targets = (sent[name].reshape(-1, self.columns) for name in ("grids", "targets"))
        bits = {"fire": boards.fire, "hard": boards.hard}
        self.fire, self.hard = self.scratch.send(
            "bits", {k: v if v.size else np.zeros(1, np.uint8) for k, v in bits.items()}, np.uint8
        ).values()

    @property
    def key(self) -> tuple[Any, ...]:
        """What the launches depend on beside their outputs."""
        config, plan = self.config, self.plan
        return (
            self._shape, self.channels, self.goals, self.fires, self.marks, config.ca_steps, config.lanes,
            id(levels_of(config, self._wires)), plan.tiles.tobytes(), self.params.place,
        )  # fmt: skip

    def load(self) -> None:
        """Tables and programs: what only a recording needs."""
        config, table, plan, backend = self.config, self.scratch.constant, self.plan, self.device.backend
        self.levels = levels = levels_of(config, self._wires)
        forth = share_of(levels.room + 1, config.lanes, plan.units, self.device)
        back = share_of(levels.blocks + 1 + levels.adjoint_room, config.lanes, plan.units, self.device)
        self.laid = laid = _tables(_ById(levels), forth, back, backend.threads, backend.most)
        self.tables = {
            "there": table("there", laid.there.steps),
            "again": table("again", laid.again.steps),
            "blocks": table("blocks", laid.returns.blocks),
            "levels": table("levels", laid.returns.levels),
            "items": table("items", laid.returns.items),
            "outputs": table("outputs", laid.outputs),
            "gates": table("gates", levels.gates),
            "readers": table("readers", laid.returns.readers),
        }
        self.neighbours = table("neighbours", neighbour_columns(*self._shape))
        self.seats = table("seats", _narrow(seats(plan, *self._shape, self.channels, config.lanes)))
        self.tiles = table("tiles", _narrow(plan.tiles))

    def program(self, share: Share) -> Any:
        inside = {"IN_ROOM": 1} if share.inside else {}
        return self.device.program(AUTOMATON, CELLS=self.config.lanes, SHARE=share.lanes, **inside)

    def post(self, share: Share, name: str, threads: int, *args: Any) -> None:
        """A kernel that has groups for all shares of all tiles."""
        groups, room = self.plan.units * WARP // share.lanes, 4 * share.floats if share.inside else 16
        self.device.post(self.program(share)[name], groups, threads, *args, shared=room)

    def memory(self, share: Share) -> Any:
        """Of all groups, where it is not on the chip."""
        size = 1 if share.inside else self.plan.units * WARP // share.lanes * share.floats
        return self.scratch.buffer("memory", (size,), np.float32)

    def each(self, name: str, count: int, *args: Any) -> None:
        self.device.post(self.program(self.laid.forth)[name], -(-count // THREADS), THREADS, *args, count)

    def coefficients(self, mode: int) -> tuple[Any, Any]:
        """Of all gates, and their chances; and the entries' tables with them."""
        coef = self.scratch.buffer("coefficients", (self.count, 4), np.float32)
        chances = self.scratch.buffer("chances", (self.count, 16), np.float32)
        kernel = self.device.program(GATES, **elementary.WORDS)["coefficients"]
        self.device.post(
            kernel, -(-self.count // THREADS), THREADS, coef, chances, self.params, self.hard, self.count, mode
        )
        self.steps = self.spread("spread_steps", "there", 8, coef)
        return coef, chances

    def spread(self, kernel: str, name: str, width: int, coef: Any) -> Any:
        table = self.tables[name]
        found = self.scratch.buffer(f"{name} with coefficients", (len(table), width), np.int32)
        self.each(kernel, len(table), found, table, coef)
        return found

    def fired(self, t: int) -> tuple[Any, int]:
        """The mask of a CA step, and whether there is one."""
        return (self.fire[t * self.grid : (t + 1) * self.grid] if self.fires else self.fire), int(self.fires)

    def begin(self, states: Any) -> None:
        """At every CA step the columns after the cells are zeros, whoever had the memory."""
        self.each("clear", states.size, states)

    def step(self, following: Any, state: Any, t: int) -> None:
        laid, tables = self.laid, self.tables
        self.post(
            laid.forth, "forward_step", self.device.backend.most, following, state, self.memory(laid.forth), self.steps,
            laid.there.many, laid.there.width, tables["outputs"], self.neighbours, self.tiles, *self.fired(t),
            self.channels, self.grid, self.cells, self.columns, laid.forth.places, laid.forth.floats,
        )  # fmt: skip

    def errors(self, rows: Any, stride: int, state: Any) -> None:
        self.device.post(
            self.program(self.laid.forth)["squared_errors"], self.plan.units, WARP, rows, stride, state, self.targets,
            self.tiles, self.goals, self.columns,
        )  # fmt: skip

    def gradient(self, slots: Any, losses: Any) -> Any:
        """Forward, keeping every state; then backward, a launch a CA step. The gates' chances."""
        steps, scratch, tables, units = self.config.ca_steps, self.scratch, self.tables, self.plan.units
        states = scratch.buffer("states", (steps, self.channels, self.columns), np.float32)
        patch = POSITIONS * self.channels * self.config.lanes
        patches = scratch.buffer("patches", (2, units + 1, patch), np.float32)
        passed = scratch.buffer("passed", (2, self.channels, self.columns), np.float32)
        laid, backend = self.laid, self.device.backend
        parts = scratch.buffer("parts", (units * WARP // laid.back.lanes, self.count, 4), np.float32)
        memory = self.memory(laid.back)
        self.begin(states)
        for half in range(2):
            self.each("clear", patch, patches[half][units])  # of the cell outside
        coef, chances = self.coefficients(MARKED if self.marks else SOFT)
        trail = [self.start, *(states[t] for t in range(steps))]
        for t in range(steps):
            self.step(trail[t + 1], trail[t], t)
        self.errors(losses, 1, trail[-1])
        again = self.spread("spread_steps", "again", 8, coef)
        readers = self.spread("spread_readers", "readers", 4, coef)
        for t in range(steps - 1, -1, -1):
            now, after, last = t % 2, (t + 1) % 2, int(t == steps - 1)
            self.post(
                laid.back, "backward_step", backend.threads, parts, patches[now], patches[after], passed[now],
                passed[after], trail[t + 1], trail[t], memory, again, laid.again.many, laid.again.width,
                tables["blocks"], laid.returns.width, backend.most, tables["levels"], self.levels.depth,
                tables["gates"], tables["items"], readers, laid.adjoints_at, self.neighbours, self.seats, self.targets,
                self.tiles, *self.fired(t), self.channels, self.goals, self.grid, self.cells, self.columns,
                laid.back.places, laid.back.floats, self.count, last,
            )  # fmt: skip
            self.device.post(
                self.program(laid.back)["combine"], (-(-4 * self.count // THREADS), units), THREADS, slots, parts,
                tables["gates"], self.count, last,
            )  # fmt: skip
        return chances

    def evaluate(self, rows: Any) -> None:
        """Soft and hard squared error of every unit's cells, from the same starts."""
        states = self.scratch.buffer("rollout", (2, self.channels, self.columns), np.float32)
        flat = rows.reshape(-1)
        self.begin(states)
        for column, mode in enumerate((SOFT, HARD)):
            self.coefficients(mode)
            trail = [self.start, *(states[t % 2] for t in range(self.config.ca_steps))]
            for t in range(self.config.ca_steps):
                self.step(trail[t + 1], trail[t], t)
            self.errors(flat[column:], rows.shape[1], trail[-1])


def gradient(
    config: LogicConfig, constants: Constants, params: Any, batch: Batch, wave: Wave, slots: Any, losses: Any,
    device: Gpu,
) -> Any:  # fmt: skip
    run = Run(config, constants, params, *cut(config, batch, wave), device)

    def post() -> Any:
        run.load()
        return run.gradient(slots, losses)

    return device.replay((OWNER, "gradient", *run.key, slots.place, losses.place), post)


def pull_back(config: LogicConfig, params: Any, merged: Any, out: Any, chances: Any, device: Gpu) -> None:
    def post() -> None:
        count = gate_count(config)
        kernel = device.program(GATES, **elementary.WORDS)["pull_back"]
        device.post(kernel, -(-count // THREADS), THREADS, out, chances, merged, count)

    device.replay((OWNER, "pull back", merged.place, out.place, chances.place), post)


def evaluate(
    config: LogicConfig, constants: Constants, params: Any, batch: Batch, wave: Wave, rows: Any, device: Gpu
) -> None:
    run = Run(config, constants, params, *cut(config, batch, wave), device)

    def post() -> None:
        run.load()
        run.evaluate(rows)

    device.replay((OWNER, "evaluate", *run.key, rows.place, rows.shape), post)


def rollout(
    config: LogicConfig, wires: Constants, params: Any, grids: Array, fire: Array, plan: Tiling, steps: int, soft: bool,
    trajectory: bool, device: Gpu,
) -> Array:  # fmt: skip
    """automaton.rolled_out."""
    require_single(params)
    run = Run(config, wires, params, Boards(grids, grids[..., :1], fire, ALL_SOFT), plan, device)
    run.load()
    run.coefficients(SOFT if soft else HARD)
    states = run.scratch.buffer("rollout", (2, run.channels, run.columns), np.float32)
    run.begin(states)
    state, found = run.start, [grids]
    for t in range(steps):
        run.step(states[t % 2], state, t)
        state = states[t % 2]
        if trajectory:
            found.append(from_planes(device.download(state), grids.shape))
    return np.stack(found) if trajectory else from_planes(device.download(state), grids.shape)


KERNELS = Kernels(gradient, evaluate, pull_back)
