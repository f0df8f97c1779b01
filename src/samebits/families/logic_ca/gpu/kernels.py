"""The automata on a GPU: a group of threads has cells of a tile, and does the circuit pass by pass (automaton.cl)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.gpu import elementary
from samebits.devices.gpu.device import LANES, THREADS, Gpu
from samebits.devices.gpu.opened import require_single
from samebits.families.logic_ca.automaton import Rollout, from_planes, to_planes
from samebits.families.logic_ca.boards import cut
from samebits.families.logic_ca.config import POSITIONS, LogicConfig, gate_count
from samebits.families.logic_ca.data import ALL_SOFT, Boards, Drawn, fire_limit, judged
from samebits.families.logic_ca.gpu.arguments import Backward, Drawing, Forward
from samebits.families.logic_ca.gpu.levels import ById, levels_of
from samebits.families.logic_ca.gpu.passes import Plan, backward_plan, cuts, forward_plan
from samebits.families.logic_ca.gpu.rows import FIXED, TOGETHER, WARP, Tables, Team, laid_out
from samebits.families.logic_ca.tiling import Tiling, column_count, neighbour_columns, seats
from samebits.training.contract import Constants, Filled, Kernels, Work

OWNER = "logic_ca"
GATES = elementary.FILE, "families/logic_ca/gpu/gates.cl"
AUTOMATON = (
    LANES,
    "devices/gpu/random.cl",
    *(f"families/logic_ca/gpu/{name}.cl" for name in ("automaton", "automaton_back")),
)
SOFT, MARKED, HARD = 0, 1, 2  # which gates compute hard
SHARES = 16, 8, 4  # lanes of a tile that a group may have
ROWS = "GATES", "BLOCKS", "SUMS"  # words for how many of them come at once


class Way(NamedTuple):
    """There, or there and back: who does it, from which tables, and whether values are on the chip."""

    team: Team
    tables: Tables
    inside: bool

    @property
    def floats(self) -> int:
        return 4 * self.tables.places * self.team.quads

    @property
    def room(self) -> int:
        """Bytes on the chip: values, if they are there, the readers of chains, and how many rows each pass has."""
        return 4 * self.floats * self.inside + self.tables.readers.nbytes + self.tables.counts.nbytes


@lru_cache(maxsize=64)
def _plan(levels: ById, back: bool, low: int, chained: bool) -> Plan:
    return backward_plan(levels.one, low, chained) if back else forward_plan(levels.one)


def fitting(levels: ById, back: bool, team: Team, room: int) -> Plan | None:
    """With as few levels computed twice as the team's cells have room for; with chains apart, if they can be."""
    for chained in (True, False) if back else (False,):
        for low in cuts(levels.one) if back else range(1):
            plan = _plan(levels, back, low, chained)
            readers = sum(len(some) for _, _, some in plan.chains)
            if 16 * (team.quads * (plan.most + FIXED) + readers) + 8 * len(plan.passes) * team.warps <= room:
                return plan
    return None


@lru_cache(maxsize=16)
def _way(levels: ById, back: bool, lanes: int, units: int, room: int, busy: int, threads: int) -> Way:
    """As many lanes of a tile a group as there is room for and still groups for everybody."""
    teams = [Team(share, share * lanes // WARP // 4, threads // WARP) for share in SHARES]
    found = [(team, fitting(levels, back, team, room)) for team in teams if team.quads <= WARP]
    fits = [(team, plan) for team, plan in found if plan is not None]
    if fits:
        team, plan = next((one for one in fits if units * WARP // one[0].lanes >= busy), fits[-1])
    else:
        team, plan = teams[-1], _plan(levels, back, 0, False)
    return Way(team, laid_out(levels.one, plan, team, back), bool(fits))


@lru_cache(maxsize=8)
def _narrowed(content: bytes, shape: tuple[int, ...]) -> Array:
    return np.frombuffer(content, np.int64).reshape(shape).astype(np.int32)


def _narrow(places: Array) -> Array:
    return _narrowed(np.ascontiguousarray(places, np.int64).tobytes(), places.shape)


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
        self.drawn = boards.acts if isinstance(boards.acts, Drawn) else None
        self.fires, self.marks = self.drawn is not None or bool(boards.fire.size), bool(boards.hard.size)
        self._shape, self._wires = (samples, height, width, config.boundary == "periodic"), wires
        planes = np.zeros((self.channels + self.goals, self.columns), np.float32)
        to_planes(boards.grids, planes[: self.channels])
        to_planes(boards.targets, planes[self.channels :])
        sent = self.scratch.send(
            "planes", {"grids": planes[: self.channels], "targets": planes[self.channels :]}, np.float32
        )
        self.start, self.targets = (sent[name].reshape(-1, self.columns) for name in ("grids", "targets"))
        bits = {"fire": np.zeros(0, np.uint8) if self.drawn else boards.fire, "hard": boards.hard}
        self.fire, self.hard = self.scratch.send(
            "bits", {k: v if v.size else np.zeros(1, np.uint8) for k, v in bits.items()}, np.uint8
        ).values()
        if self.drawn:
            self.fire = self.scratch.buffer("fire", (config.ca_steps * self.grid,), np.uint8)
            self.when = self.scratch.send("when", {"when": np.array([self.drawn.step])}, np.int64)["when"]

    @property
    def key(self) -> tuple[Any, ...]:
        """What the launches depend on beside their outputs."""
        config, plan = self.config, self.plan
        return (
            self._shape, self.channels, self.goals, self.fires, self.marks, config.ca_steps, config.lanes,
            judged(config).tobytes(), self.drawn and self.drawn_by,
            id(levels_of(config, self._wires)), plan.tiles.tobytes(), self.params.place,
        )  # fmt: skip

    def load(self) -> None:
        """Tables and programs: what only a recording needs."""
        config, table, plan = self.config, self.scratch.constant, self.plan
        self.there, self.back = self.way(back=False), self.way(back=True)
        self.neighbours = table("neighbours", neighbour_columns(*self._shape))
        self.seats = table("seats", _narrow(seats(plan, *self._shape, self.channels, config.lanes)))
        self.tiles = table("tiles", _narrow(plan.tiles))

    def way(self, back: bool) -> Way:
        config, backend = self.config, self.device.backend
        levels = ById(levels_of(config, self._wires))
        return _way(levels, back, config.lanes, self.plan.units, backend.room, backend.busy, backend.threads)

    def table(self, way: Way, name: str) -> Any:
        return self.scratch.constant(name, getattr(way.tables, name))

    def program(self, way: Way) -> Any:
        inside = {"IN_ROOM": 1} if way.inside else {}
        words = {"CELLS": self.config.lanes, "SHARE": way.team.lanes, "WARPS": way.team.warps, "KEPT": self.kept(way)}
        return self.device.program(AUTOMATON, **words, **dict(zip(ROWS, TOGETHER, strict=True)), **inside)

    def kept(self, way: Way) -> int:
        """How many sums of a gate leave a group: one, if its threads can look at each other."""
        return 1 if self.device.backend.across else way.team.pairs

    def post(self, way: Way, name: str, *args: Any) -> None:
        """A kernel that has groups for all shares of all tiles."""
        groups = self.plan.units * WARP // way.team.lanes
        self.device.post(self.program(way)[name], groups, WARP * way.team.warps, *args, shared=way.room)

    def memory(self, way: Way) -> Any:
        """Of all groups, where it is not on the chip."""
        size = 1 if way.inside else self.plan.units * WARP // way.team.lanes * way.floats
        return self.scratch.buffer("memory", (size,), np.float32)

    def each(self, name: str, count: int, *args: Any) -> None:
        self.device.post(self.program(self.there)[name], -(-count // THREADS), THREADS, *args, count)

    def coefficients(self, mode: int) -> tuple[Any, Any]:
        """Of all gates, and their chances; and in the order of the rows on the way there."""
        coef = self.scratch.buffer("coefficients", (self.count, 4), np.float32)
        chances = self.scratch.buffer("chances", (self.count, 16), np.float32)
        kernel = self.device.program(GATES, **elementary.WORDS)["coefficients"]
        self.device.post(
            kernel, -(-self.count // THREADS), THREADS, coef, chances, self.params, self.hard, self.count, mode
        )
        self.rows = self.spread("there", "spread_gates", self.there, "numbers", coef)
        return coef, chances

    def spread(self, name: str, kernel: str, way: Way, which: str, coef: Any) -> Any:
        """Coefficients for rows, four numbers each."""
        table, count = self.table(way, which), int(np.prod(getattr(way.tables, which).shape[:2]))
        found = self.scratch.buffer(f"coefficients {name}", (4 * count,), np.float32)
        self.each(kernel, count, found, table, coef)
        return found

    def chains(self, way: Way, coef: Any) -> Any:
        count = len(way.tables.readers)
        found = self.scratch.buffer("chains", (4 * count,), np.int32)
        if count:
            self.each("spread_chains", count, found, self.table(way, "readers"), coef)
        return found

    @property
    def drawn_by(self) -> Drawing:
        """What cells do is a function of these, and of the step."""
        assert self.drawn
        one, always = self.drawn, self.drawn.fire_rate >= 1
        limit = 0 if always else int(fire_limit(one.fire_rate).view(np.int64))
        square = one.damage_after - 1, one.damage
        return Drawing(one.ca_steps, one.height, one.width, int(always), limit, *square, one.seed, one.purpose)

    def draw(self) -> None:
        """What cells do when, if it is to be drawn."""
        if self.drawn:
            kernel, threads = self.program(self.there)["draw_actions"], self.drawn.ca_steps * -(-self.grid // 4)
            self.device.post(kernel, -(-threads // THREADS), THREADS, self.fire, self.when, self.drawn_by)

    def fired(self, t: int) -> Any:
        """The mask of a CA step, if there is one."""
        return self.fire[t * self.grid : (t + 1) * self.grid] if self.fires else self.fire

    def forward(self, way: Way) -> Forward:
        return Forward(
            len(way.tables.counts), int(self.fires), self.channels, self.grid, self.cells, self.columns, way.floats
        )

    def begin(self, states: Any) -> None:
        """At every CA step the columns after the cells are zeros, whoever had the memory."""
        self.each("clear", states.size, states)

    def step(self, following: Any, state: Any, t: int) -> None:
        way = self.there
        starts, counts, gates, outputs = (self.table(way, name) for name in ("starts", "counts", "gates", "outputs"))
        self.post(
            way, "forward_step", following, state, self.memory(way), starts, counts, gates, self.rows, outputs,
            self.neighbours, self.tiles, self.fired(t), self.forward(way),
        )  # fmt: skip

    def errors(self, rows: Any, stride: int, state: Any, adds: bool) -> None:
        self.device.post(
            self.program(self.there)["squared_errors"], self.plan.units, WARP, rows, stride, state, self.targets,
            self.tiles, self.goals, self.columns, int(adds),
        )  # fmt: skip

    def gradient(self, slots: Any, losses: Any) -> Any:
        """Forward, keeping every state; then backward, a launch a CA step. The gates' chances."""
        steps, scratch, units, way = self.config.ca_steps, self.scratch, self.plan.units, self.back
        states = scratch.buffer("states", (steps, self.channels, self.columns), np.float32)
        patch = POSITIONS * self.channels * self.config.lanes
        patches = scratch.buffer("patches", (2, units + 1, patch), np.float32)
        passed = scratch.buffer("passed", (2, self.channels, self.columns), np.float32)
        places = len(way.tables.order)
        both = [
            scratch.buffer(f"parts {half}", (units * WARP // way.team.lanes, self.kept(way), places, 4), np.float32)
            for half in range(2)
        ]
        gathered = scratch.buffer("sums", (units, places, 4), np.float32)
        memory = self.memory(way)
        self.begin(states)
        for half in range(2):
            self.each("clear", patch, patches[half][units])  # of the cell outside
        self.draw()
        coef, chances = self.coefficients(MARKED if self.marks else SOFT)
        trail = [self.start, *(states[t] for t in range(steps))]
        for t in range(steps):
            self.step(trail[t + 1], trail[t], t)
        judging = judged(self.config)
        for t in reversed(range(steps)):
            if judging[t]:
                self.errors(losses, 1, trail[t + 1], adds=t < steps - 1)
        rows = self.spread("back", "spread_gates", way, "numbers", coef)
        slopes = self.spread("slopes", "spread_readers", way, "which", coef)
        readers = self.chains(way, coef)
        starts, counts, gates = (self.table(way, name) for name in ("starts", "counts", "gates"))
        blocks, sums, order = (self.table(way, name) for name in ("blocks", "sums", "order"))
        for t in range(steps - 1, -1, -1):
            now, after, last = t % 2, (t + 1) % 2, int(t == steps - 1)
            parts = both[now]
            self.post(
                way, "backward_step", parts, patches[now], patches[after], passed[now], passed[after], trail[t + 1],
                trail[t], memory, starts, counts, gates, rows, blocks, slopes, sums, self.table(way, "chains"), readers,
                self.neighbours, self.seats, self.targets, self.tiles, self.fired(t),
                Backward(
                    *self.forward(way), chains=len(way.tables.chains), readers=len(way.tables.readers),
                    goals=self.goals, places=places, last=last, judged=int(judging[t]),
                ),
            )  # fmt: skip
            groups = -(-4 * places // THREADS), units
            self.device.post(
                self.program(way)["combine"], groups, THREADS, slots, gathered, parts, order, places, self.count, last,
                int(t == 0), aside=True,
            )  # fmt: skip
        return chances

    def evaluate(self, rows: Any) -> None:
        """Soft and hard squared error of every unit's cells, from the same starts."""
        states = self.scratch.buffer("rollout", (2, self.channels, self.columns), np.float32)
        flat = rows.reshape(-1)
        self.begin(states)
        self.draw()
        for column, mode in enumerate((SOFT, HARD)):
            self.coefficients(mode)
            trail = [self.start, *(states[t % 2] for t in range(self.config.ca_steps))]
            earlier = False  # whether there are errors to add to
            for t, counts in enumerate(judged(self.config)):
                self.step(trail[t + 1], trail[t], t)
                if counts:
                    self.errors(flat[column:], rows.shape[1], trail[t + 1], earlier)
                    earlier = True


def gradient(work: Work[LogicConfig, Gpu], slots: Any, losses: Any) -> Filled:
    config, device = work.config, work.device
    run = Run(config, work.constants, work.params, *cut(config, work.batch, work.wave), device)

    def post() -> Any:
        run.load()
        return run.gradient(slots, losses)

    return Filled(carried=device.replay((OWNER, "gradient", *run.key, slots.place, losses.place), post))


def pull_back(work: Work[LogicConfig, Gpu], merged: Any, out: Any, carried: Any) -> None:
    device = work.device

    def post() -> None:
        count = gate_count(work.config)
        kernel = device.program(GATES, **elementary.WORDS)["pull_back"]
        device.post(kernel, -(-count // THREADS), THREADS, out, carried, merged, count)

    device.replay((OWNER, "pull back", merged.place, out.place, carried.place), post)


def evaluate(work: Work[LogicConfig, Gpu], rows: Any) -> None:
    config, device = work.config, work.device
    run = Run(config, work.constants, work.params, *cut(config, work.batch, work.wave), device)

    def post() -> None:
        run.load()
        run.evaluate(rows)

    device.replay((OWNER, "evaluate", *run.key, rows.place, rows.shape), post)


def rollout(
    config: LogicConfig, wires: Constants, params: Any, what: Rollout, soft: bool, trajectory: bool, device: Gpu
) -> Array:
    """automaton.rolled_out."""
    grids, fire, plan, steps = what
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
