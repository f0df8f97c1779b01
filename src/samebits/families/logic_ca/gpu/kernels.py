"""The automata on a GPU: a group of threads has cells of a tile, and does the circuit pass by pass (automaton.cl)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.gpu import elementary, philox
from samebits.devices.gpu.device import LANES, THREADS, Gpu
from samebits.devices.gpu.fingerprints import Frozen
from samebits.devices.gpu.opened import require_single
from samebits.families.logic_ca.automaton import Rollout, from_planes, to_planes
from samebits.families.logic_ca.boards import cut
from samebits.families.logic_ca.config import POSITIONS, LogicConfig, gate_count
from samebits.families.logic_ca.data import (
    ALL_SOFT,
    DAMAGE,
    DIES,
    FIRE,
    KEEPS,
    TAKES,
    Boards,
    Drawn,
    fire_limit,
    judged,
)
from samebits.families.logic_ca.gates import MATRIX
from samebits.families.logic_ca.gpu.arguments import Backward, Drawing, Forward
from samebits.families.logic_ca.gpu.levels import Levels, levels_of
from samebits.families.logic_ca.gpu.passes import Plan, backward_plan, cuts, forward_plan
from samebits.families.logic_ca.gpu.rows import (
    ENDS,
    FIELD,
    FIXED,
    GOES_ON,
    IS_INPUT,
    TOGETHER,
    WARP,
    Tables,
    Team,
    laid_out,
)
from samebits.families.logic_ca.tiling import Tiling, column_count, neighbour_columns, seats
from samebits.training.contract import Constants, Filled, Kernels, Work

OWNER = "logic_ca"
GATES = elementary.FILE, "families/logic_ca/gpu/gates.cl"
GATE_WORDS = {**elementary.WORDS, "OPERATIONS": ", ".join(str(int(number)) for number in MATRIX.ravel())}
AUTOMATON = (
    LANES,
    philox.FILE,
    *(f"families/logic_ca/gpu/{name}.cl" for name in ("automaton", "automaton_back")),
)
AUTOMATON_WORDS = {
    **philox.WORDS, "KEEPS": KEEPS, "TAKES": TAKES, "DIES": DIES, "FIRE": FIRE, "DAMAGE": DAMAGE,
    "GOES_ON": GOES_ON, "ENDS": ENDS, "IS_INPUT": IS_INPUT, "FIELD_BITS": FIELD,
}  # fmt: skip
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
def _plan(levels: Frozen[Levels], back: bool, low: int, chained: bool) -> Plan:
    return backward_plan(levels.value, low, chained) if back else forward_plan(levels.value)


def fitting(levels: Frozen[Levels], back: bool, team: Team, room: int) -> Plan | None:
    """With as few levels computed twice as the team's cells have room for; with chains apart, if they can be."""
    for chained in (True, False) if back else (False,):
        for low in cuts(levels.value) if back else range(1):
            plan = _plan(levels, back, low, chained)
            readers = sum(len(some) for _, _, some in plan.chains)
            if 16 * (team.quads * (plan.most + FIXED) + readers) + 8 * len(plan.passes) * team.warps <= room:
                return plan
    return None


@lru_cache(maxsize=16)
def _way(levels: Frozen[Levels], back: bool, lanes: int, units: int, room: int, busy: int, threads: int) -> Way:
    """As many lanes of a tile a group as there is room for and still groups for everybody."""
    teams = [Team(share, share * lanes // WARP // 4, threads // WARP) for share in SHARES]
    found = [(team, fitting(levels, back, team, room)) for team in teams if team.quads <= WARP]
    fits = [(team, plan) for team, plan in found if plan is not None]
    if fits:
        team, plan = next((one for one in fits if units * WARP // one[0].lanes >= busy), fits[-1])
    else:
        team, plan = teams[-1], _plan(levels, back, 0, False)
    return Way(team, laid_out(levels.value, plan, team, back), bool(fits))


class Scene(NamedTuple):
    """All that the launches of a wave depend on, beside where their results go."""

    config: LogicConfig
    levels: Frozen[Levels]
    params: Any
    plan: Tiling
    shape: tuple[int, int, int, bool]  # samples, height, width, and whether the grid is a torus
    start: Any  # (channels, columns)
    targets: Any  # (goals, columns)
    fire: Any  # what every cell does at each CA step, where it is known; or where it goes, if it is drawn there
    fires: bool  # whether there is such a mask
    hard: Any  # gates that compute hard
    marks: bool  # whether there are any
    drawn_by: Drawing | None  # what cells do is a function of these, and of the step, `when`
    when: Any


def scene_of(config: LogicConfig, wires: Constants, params: Any, boards: Boards, plan: Tiling, device: Gpu) -> Scene:
    """Send a wave's boards, and what cells do."""
    samples, height, width, channels = boards.grids.shape
    columns, goals, scratch = column_count(samples, height * width), boards.targets.shape[-1], device.scratch(OWNER)
    planes = np.zeros((channels + goals, columns), np.float32)
    to_planes(boards.grids, planes[:channels])
    to_planes(boards.targets, planes[channels:])
    sent = scratch.send("planes", {"all": planes}, np.float32)["all"].reshape(-1, columns)
    drawn = boards.acts if isinstance(boards.acts, Drawn) else None
    bits = {"fire": np.zeros(0, np.uint8) if drawn else boards.fire, "hard": boards.hard}
    fire, hard = scratch.send(
        "bits", {k: v if v.size else np.zeros(1, np.uint8) for k, v in bits.items()}, np.uint8
    ).values()  # fmt: skip
    when = None
    if drawn:
        fire = scratch.buffer("fire", (drawn.ca_steps * height * width,), np.uint8)
        when = scratch.send("when", {"when": np.array([drawn.step])}, np.int64)["when"]
    return Scene(
        config, levels_of(config, wires), params, plan, (samples, height, width, config.boundary == "periodic"),
        sent[:channels], sent[channels:], fire, drawn is not None or bool(boards.fire.size), hard,
        bool(boards.hard.size), drawn_by(drawn) if drawn else None, when,
    )  # fmt: skip


def drawn_by(drawn: Drawn) -> Drawing:
    """All that what cells do is drawn by, but the step (automaton.cl, draw_actions)."""
    always = drawn.fire_rate >= 1
    limit = 0 if always else int(fire_limit(drawn.fire_rate).view(np.int64))
    square = drawn.damage_after - 1, drawn.damage
    return Drawing(drawn.ca_steps, drawn.height, drawn.width, int(always), limit, *square, drawn.seed, drawn.purpose)


class Run:
    """What the kernels of a wave read and none changes, on the device; made for a recording."""

    def __init__(self, scene: Scene, device: Gpu) -> None:
        config, shape = scene.config, scene.shape
        samples, height, width, _ = shape
        self.device, self.plan, self.config, self.params = device, scene.plan, config, scene.params
        self.channels, self.goals, self.columns = len(scene.start), len(scene.targets), scene.start.shape[1]
        self.cells, self.grid = samples * height * width, height * width
        self.scratch, self.count, self.levels = device.scratch(OWNER), gate_count(config), scene.levels
        self.start, self.targets, self.fire, self.hard = scene.start, scene.targets, scene.fire, scene.hard
        self.fires, self.marks, self.drawn_by, self.when = scene.fires, scene.marks, scene.drawn_by, scene.when
        self.there, self.back = self.way(back=False), self.way(back=True)
        table = self.scratch.constant
        self.neighbours = table(neighbour_columns(*shape))
        self.seats = table(seats(scene.plan, *shape, self.channels, config.lanes), np.int32)
        self.tiles = table(scene.plan.tiles, np.int32)

    def way(self, back: bool) -> Way:
        config, backend = self.config, self.device.backend
        return _way(self.levels, back, config.lanes, self.plan.units, backend.room, backend.busy, backend.threads)

    def table(self, way: Way, name: str) -> Any:
        return self.scratch.constant(getattr(way.tables, name))

    def program(self, way: Way) -> Any:
        inside = {"IN_ROOM": 1} if way.inside else {}
        words: dict[str, Any] = {
            "CELLS": self.config.lanes,
            "SHARE": way.team.lanes,
            "WARPS": way.team.warps,
            "KEPT": self.kept(way),
        }
        words |= {**AUTOMATON_WORDS, **dict(zip(ROWS, TOGETHER, strict=True)), **inside}
        return self.device.program(AUTOMATON, **words)

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
        kernel = self.device.program(GATES, **GATE_WORDS)["coefficients"]
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

    def draw(self) -> None:
        """What cells do when, if it is to be drawn."""
        if self.drawn_by:
            kernel, threads = self.program(self.there)["draw_actions"], self.drawn_by.ca_steps * -(-self.grid // 4)
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


def post_gradient(device: Gpu, scene: Scene, slots: Any, losses: Any) -> Any:
    return Run(scene, device).gradient(slots, losses)


def post_evaluation(device: Gpu, scene: Scene, rows: Any) -> None:
    Run(scene, device).evaluate(rows)


def post_pull_back(device: Gpu, out: Any, chances: Any, merged: Any, count: int) -> None:
    kernel = device.program(GATES, **GATE_WORDS)["pull_back"]
    device.post(kernel, -(-count // THREADS), THREADS, out, chances, merged, count)


def gradient(work: Work[LogicConfig, Gpu], slots: Any, losses: Any) -> Filled:
    boards, plan = cut(work.config, work.batch, work.wave)
    scene = scene_of(work.config, work.constants, work.params, boards, plan, work.device)
    return Filled(carried=work.device.replay(post_gradient, scene, slots, losses))


def pull_back(work: Work[LogicConfig, Gpu], merged: Any, out: Any, carried: Any) -> None:
    work.device.replay(post_pull_back, out, carried, merged, gate_count(work.config))


def evaluate(work: Work[LogicConfig, Gpu], rows: Any) -> None:
    boards, plan = cut(work.config, work.batch, work.wave)
    scene = scene_of(work.config, work.constants, work.params, boards, plan, work.device)
    work.device.replay(post_evaluation, scene, rows)


def rollout(
    config: LogicConfig, wires: Constants, params: Any, what: Rollout, soft: bool, trajectory: bool, device: Gpu
) -> Array:
    """automaton.rolled_out."""
    grids, fire, plan, steps = what
    require_single(params)
    run = Run(scene_of(config, wires, params, Boards(grids, grids[..., :1], fire, ALL_SOFT), plan, device), device)
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
