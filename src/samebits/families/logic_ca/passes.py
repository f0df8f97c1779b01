"""Who of a group of threads does what of a circuit (levels.py), when, and where in the group's memory it lies.

A group goes through passes. In a pass every warp goes through rows of its own, and then all wait for each other. A row
gives each slot of a warp, a thread for every four cells, a gate, or some readers of a block on the way back; or each
thread the sums of a gate. What is no longer needed gives its place to what comes later. On the way back values are
needed again, the first ones last: with a `cut`, those of the levels below it are computed a second time, so that not
all of them have to lie there at once.

Eight threads read sixteen bytes each at once if no two of them read from the same eighth of the memory's width. So the
rows of a level are ordered by where they read, and places are given out by who writes next to whom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from samebits.engine.arrays import Array
from samebits.families.logic_ca.levels import GIVEN, Levels

WARP = 32
GOES_ON, ENDS, IS_INPUT = 3, 4, 8  # rows of blocks: how it begins, or GOES_ON; the last of its rows; (automaton.cl)
BEGIN, END = 1, 2  # rows of sums
FIELD = 21  # bits of an address in a row
TOGETHER = (2, 2, 4)  # rows of gates, of blocks, of sums that are fetched at once; a pass begins with the first of them
LONG = 8  # an input with more readers has a chain of its own
NEIGHBOURS = 8  # threads that read at once
CANDIDATES = 128  # that are looked at for the next slot
COSTS = (2, 3, 5)  # of a row, about
Item = tuple[int, ...]


class Team(NamedTuple):
    """The threads of a group, and how they share its cells: `lanes` of the 32 of a tile, in fours of cells (quads)."""

    lanes: int
    quads: int
    warps: int

    @property
    def slots(self) -> int:
        return WARP // self.quads

    @property
    def pairs(self) -> int:
        """Of quads whose cells meet first: a thread sums up one."""
        return max(1, self.lanes // 8)

    @property
    def colours(self) -> int:
        """Places with the same remainder get in each other's way."""
        return max(1, NEIGHBOURS // self.quads)


class Pass(NamedTuple):
    """What is done in it, in numbers of a plan."""

    gates: list[Item]  # (a, b, out, number)
    blocks: list[tuple[int, int, list[Item]]]  # block, its adjoint, (adjoint, other, which) …
    sums: list[tuple[int, list[Item]]]  # number of the gate, (a, b, adjoint) …


class Plan(NamedTuple):
    """Passes over numbers of a cell: values of blocks, values computed a second time, and adjoints."""

    passes: list[Pass]
    chains: list[tuple[int, int, list[Item]]]  # blocks of the last pass, apart
    first: Array  # pass in which each is written; before the first one: −1; never: the number of passes
    last: Array  # … and read last

    @property
    def most(self) -> int:
        """How many there are at once."""
        change = np.zeros(len(self.passes) + 2, np.int64)
        used = self.first < len(self.passes)
        np.add.at(change, self.first[used] + 1, 1)
        np.add.at(change, np.minimum(self.last[used] + 2, len(change) - 1), -1)
        return int(np.cumsum(change)[:-1].max())


class Tables(NamedTuple):
    """Rows of all warps, one warp after the other; words are addresses in fours of numbers."""

    places: int
    starts: Array  # (warps, 4) first rows: of gates, of blocks, of sums
    counts: Array  # (passes, warps) words: rows, likewise
    gates: Array  # (rows, slots) words
    numbers: Array  # (rows, slots) of gates
    blocks: Array  # (rows, slots, 2) words
    which: Array  # (rows, slots, 2) whose slope: 2 · number + side; −1: nobody's
    sums: Array  # (rows, 32) words
    into: Array  # (rows, 32) 4 · place of the gate among all + what to do
    order: Array  # (gates,) numbers by that place
    chains: Array  # (chains, 4) first reader, last, what it begins with, number of the input
    readers: Array  # (readers, 4) adjoint above, other input, 2 · number + side, 0
    outputs: Array  # (channels,) places of the next state


def _plan(passes: Sequence[Pass], count: int, given: Iterable[int], chains: list[tuple[int, int, list[Item]]]) -> Plan:
    first = np.full(count, len(passes), np.int64)
    last = np.full(count, -2, np.int64)
    first[list(given)] = -1
    for t, one in enumerate(passes):
        for a, b, out, _ in one.gates:
            last[[a, b]], first[out] = t, t
        for _, adjoint, readers in [*one.blocks, *(chains if t == len(passes) - 1 else [])]:
            first[adjoint] = min(first[adjoint], t)
            for above, other, _ in readers:
                last[[above, other]] = t
            last[adjoint] = max(last[adjoint], t)
        for _, items in one.sums:
            for item in items:
                last[list(item)] = t
    written = first < len(passes)
    return Plan(list(passes), chains, first, np.where(written, np.maximum(last, first), last))


def forward_plan(levels: Levels) -> Plan:
    inputs, own = levels.inputs, levels.level[levels.inputs :]
    passes = [
        Pass([(*levels.entries[e, :2].tolist(), inputs + e, int(levels.entries[e, 2]))
              for e in np.flatnonzero(own == level).tolist()], [], [])
        for level in range(1, levels.depth + 1)
    ]  # fmt: skip
    plan = _plan(passes, levels.blocks, range(inputs), [])
    plan.last[levels.outputs] = len(passes)
    return plan


def backward_plan(levels: Levels, cut: int, chained: bool) -> Plan:
    """There, keeping values, and back; those of the levels from 1 to below `cut` are computed again for the last part.
    `chained`: inputs with many readers have their chains apart."""
    depth, inputs, blocks = levels.depth, levels.inputs, levels.blocks
    level = levels.level.tolist()
    low = 2 * depth - cut + 1 if cut else 2 * depth + 1  # the pass from which the second values are read
    rows: list[list[Item]] = [[] for _ in range(2 * depth + 1)]
    for entry, (a, b, number) in enumerate(levels.entries.tolist()):
        out = inputs + entry
        rows[level[out] - 1].append((a, b, out, number))
        if level[out] < cut:
            again = [x if x < inputs else blocks + x for x in (a, b)]
            rows[low - cut + level[out]].append((again[0], again[1], blocks + out, number))

    def value(block: int, t: int) -> int:
        return blocks + block if t >= low and inputs <= block and level[block] < cut else block

    back: list[list[tuple[int, int, list[Item]]]] = [[] for _ in rows]
    chains: list[tuple[int, int, list[Item]]] = []
    for block, readers in enumerate(levels.readers):
        t = 2 * depth - level[block]
        if readers or levels.begins[block] != GIVEN:
            to = chains if chained and block < inputs and len(readers) > LONG else back[t]
            to.append((block, 2 * blocks + block, [(2 * blocks + r, value(o, t), w) for r, o, w in readers]))
    sums: list[list[tuple[int, list[Item]]]] = [[] for _ in rows]
    for start, many, number in levels.gates.tolist():
        t = 2 * depth - level[inputs + start] + 1
        items = [
            (value(int(a), t), value(int(b), t), 2 * blocks + inputs + start + i)
            for i, (a, b, _) in enumerate(levels.entries[start : start + many].tolist())
        ]
        sums[t].append((number, items))
    given = [*range(inputs), *(2 * blocks + levels.outputs).tolist()]
    passes = [Pass(*some) for some in zip(rows, back, sums, strict=True)]
    plan = _plan([one for one in passes if any(one)], 3 * blocks, given, chains)
    plan.first[2 * blocks : 2 * blocks + inputs] = len(plan.passes)  # those of inputs leave the chip
    return plan


def cuts(levels: Levels) -> range:
    """0: nothing is computed twice. More than half of the way there would be no way back to do it beside."""
    return range(levels.depth // 2 + 2)


def ordered(colours: Array, classes: int, many: int) -> list[int]:
    """Numbers of rows, so that of every eight threads those of one class (thread modulo classes) read other colours.

    colours (rows, reads): remainders of the places that a row reads, below `many`.
    """
    count, reads = colours.shape
    if many == 1 or not reads:
        return list(range(count))
    left = np.arange(count)
    found: list[int] = []
    across = np.arange(reads)
    taken = np.zeros((classes, reads, many), np.int64)
    phase = classes * many
    while len(left):
        position = len(found) % phase
        if position == 0:
            taken[:] = 0
        own = taken[position % classes]
        some = colours[left[:CANDIDATES]]
        best = int(own[across, some].sum(axis=1).argmin())
        row = int(left[best])
        own[across, colours[row]] += 1
        found.append(row)
        left = np.delete(left, best)
    return found


class Places:
    """Free places by colour."""

    def __init__(self, taken: int, colours: int) -> None:
        self.end, self.colours = taken, colours
        self.free: list[list[int]] = [[] for _ in range(colours)]

    def give_back(self, place: int) -> None:
        self.free[place % self.colours].append(place)

    def take(self, colour: int, limit: int) -> int:
        """One of this colour, or of the next that has any; beyond the end while fewer than `limit` are there."""
        if self.free[colour]:
            return self.free[colour].pop()
        if self.end < limit:
            while self.end % self.colours != colour and self.end + 1 < limit:
                self.give_back(self.end)
                self.end += 1
            self.end += 1
            return self.end - 1
        for other in range(self.colours):
            mine = self.free[(colour + other) % self.colours]
            if mine:
                return mine.pop()
        self.end += 1
        return self.end - 1


class Streams:
    """Rows of every warp, and how many of them each pass has."""

    def __init__(self, warps: int) -> None:
        self.rows: list[list[list[list[Item]]]] = [[[] for _ in range(warps)] for _ in range(3)]
        self.counts: list[Array] = []
        self.warps = warps

    def begin(self) -> None:
        self.counts.append(np.zeros((self.warps, 3), np.int64))
        self.load = np.zeros(self.warps, np.int64)

    def end(self, fillers: Sequence[list[Item]]) -> None:
        """Rows are fetched several at once, so the next pass begins with a fetch."""
        for kind, many, filler in zip(self.rows, TOGETHER, fillers, strict=True):
            for rows in kind:
                rows += [filler] * (-len(rows) % many)

    def add(self, kind: int, lists: Sequence[list[Item]], width: int, filler: Item) -> None:
        """Lists of rows, as many side by side as a warp takes, to whoever has least to do."""
        for begin in range(0, len(lists), width):
            some = lists[begin : begin + width]
            depth = max(map(len, some))
            warp = int(self.load.argmin())
            padded = [[*one, *[filler] * (depth - len(one))] for one in some] + [[filler] * depth] * (width - len(some))
            self.rows[kind][warp] += [list(row) for row in zip(*padded, strict=True)]
            self.counts[-1][warp, kind] += depth
            self.load[warp] += COSTS[kind] * depth

    def starts(self) -> Array:
        lengths = np.array([[len(rows) for rows in kind] for kind in self.rows])
        found = np.zeros((self.warps, 4), np.int32)
        found[1:, :3] = np.cumsum(lengths[:, :-1], axis=1).T
        return found

    def table(self, kind: int, filler: list[Item]) -> Array:
        """(rows and some that are fetched but never used, width, fields)"""
        return np.array([row for warp in self.rows[kind] for row in warp] + [filler] * TOGETHER[kind], np.int64)


def laid_out(levels: Levels, plan: Plan, team: Team, back: bool) -> Tables:
    """Tables for a plan of this circuit."""
    channels, inputs, colours = len(levels.outputs), levels.inputs, team.colours
    place = np.full(len(plan.first), -1, np.int64)
    place[:inputs] = np.arange(inputs)
    nowhere = inputs + (channels if back else 0)  # who has nothing to do writes there
    nothing = nowhere + 1  # −0, which changes no sum
    if back:
        place[2 * levels.blocks + levels.outputs] = inputs + np.arange(channels)
    shelf, streams, limit = Places(nothing + 1, colours), Streams(team.warps), plan.most + 2
    dying: list[list[int]] = [[] for _ in range(len(plan.passes) + 2)]
    for given in np.flatnonzero(place >= 0).tolist():
        dying[min(int(plan.last[given]) + 1, len(dying) - 1)].append(given)

    def write(number: int, colour: int) -> int:
        place[number] = shelf.take(colour % colours, limit)
        dying[min(int(plan.last[number]) + 1, len(dying) - 1)].append(number)
        return int(place[number])

    unused_gate, unused_sum = (0, 0, nowhere, 0), (0, 0, 0, 0)
    unused_row = (nothing, nothing, nothing, nothing, nowhere, ENDS, -1, -1)
    fillers: list[list[Item]] = [[unused_gate] * team.slots, [unused_row] * team.slots, [unused_sum] * WARP]
    order: list[int] = []
    chains = sorted(plan.chains, key=lambda chain: -len(chain[2]))
    for t, one in enumerate(plan.passes):
        streams.begin()
        for dead in dying[t]:
            shelf.give_back(int(place[dead]))
        gates = np.array([row[:2] for row in one.gates], np.int64).reshape(-1, 2)
        sequence = ordered(place[gates] % colours, 1, colours)
        gate_rows: list[list[Item]] = []
        for slot, index in enumerate(sequence):
            a, b, out, number = one.gates[index]
            gate_rows.append([(int(place[a]), int(place[b]), write(out, slot), number)])
        blocks = sorted(one.blocks, key=lambda block: -len(block[2]))
        block_rows = _block_rows(levels, blocks, place, write, nothing, colours)
        if t == len(plan.passes) - 1:
            for chain, (_, _, some) in enumerate(chains):
                warp = chain // team.slots % team.warps
                streams.load[warp] = max(streams.load[warp], 2 * len(some))
        streams.add(1, block_rows, team.slots, unused_row)
        streams.add(2, _sum_rows(one.sums, place, order, len(levels.gates), team), WARP, unused_sum)
        streams.add(0, gate_rows, team.slots, unused_gate)
        streams.end(fillers)
    gate_table, table, sum_table = (streams.table(kind, filler) for kind, filler in enumerate(fillers))
    quads = team.quads
    ends = np.cumsum([0, *(len(some) for _, _, some in chains)])
    readers = [(int(place[x]) * quads, int(place[y]) * quads, w, 0) for _, _, some in chains for x, y, w in some]
    return Tables(
        shelf.end, streams.starts(), _words(np.array(streams.counts)), _words(gate_table[..., :3] * quads),
        np.ascontiguousarray(gate_table[..., 3], np.int32),
        np.stack([_words(table[..., :3] * quads), _words(_with_target(table, quads))], -1),
        np.ascontiguousarray(table[..., 6:], np.int32), _words(sum_table[..., :3]),
        np.ascontiguousarray(sum_table[..., 3], np.int32), np.array(order, np.int32),
        np.array([(ends[i], ends[i + 1], levels.begins[one[0]], one[0]) for i, one in enumerate(chains)], np.int32)
        .reshape(-1, 4),
        np.array(readers, np.int32).reshape(-1, 4), np.ascontiguousarray(place[levels.outputs], np.int32),
    )  # fmt: skip


def _with_target(table: Array, quads: int) -> Array:
    """Other input of the second reader, where the adjoint goes (of inputs: their number), what to do."""
    is_input = table[..., 5] & IS_INPUT != 0
    target = np.where(is_input, table[..., 4], table[..., 4] * quads)
    return np.stack([table[..., 3] * quads, target, table[..., 5]], -1)


def _words(fields: Array) -> Array:
    if fields.size and int(fields.max()) >> FIELD:
        raise ValueError(f"an address of {int(fields.max()):,}; a row has {FIELD} bits for it")
    shifts = np.array([0, FIELD, 2 * FIELD])
    return np.ascontiguousarray(np.bitwise_or.reduce(fields << shifts, axis=-1).astype(np.uint64))


def _block_rows(
    levels: Levels, blocks: Sequence[tuple[int, int, list[Item]]], place: Array, write: Callable[[int, int], int],
    nothing: int, colours: int,
) -> list[list[Item]]:  # fmt: skip
    """Of blocks by falling numbers of readers: two readers a row."""
    lengths = [-(-len(readers) // 2) for _, _, readers in blocks]
    found: list[list[Item]] = []
    for begin in range(len(blocks)):
        if begin and lengths[begin] == lengths[begin - 1]:
            continue
        alike = [block for block, length in zip(blocks, lengths, strict=True) if length == lengths[begin]]
        reads = np.array(
            [[place[x] for r in (*readers[:2], *[(-1, -1)] * 2)[:2] for x in r[:2]] for _, _, readers in alike]
        )
        reads[reads < 0] = nothing
        for index in ordered(reads % colours, 1, colours):
            block, adjoint, readers = alike[index]
            pairs = [(int(place[above]), int(place[other]), which) for above, other, which in readers]
            is_input = block < levels.inputs
            given = levels.begins[block] == GIVEN
            target = block if is_input else int(place[adjoint]) if given else write(adjoint, len(found))
            pairs += [(nothing, nothing, -1)] * (len(pairs) % 2 or 2 * (not pairs))
            rows: list[Item] = []
            for row in range(0, len(pairs), 2):
                (u, v, w), (x, y, z) = pairs[row : row + 2]
                what = GOES_ON if row else int(levels.begins[block])
                what |= IS_INPUT * is_input | ENDS * (row + 2 == len(pairs))
                rows.append((u, v, x, y, target, what, w, z))
            found.append(rows)
    return found


def _sum_rows(
    sums: Sequence[tuple[int, list[Item]]], place: Array, order: list[int], count: int, team: Team
) -> list[list[Item]]:
    """Of gates by falling numbers of entries, pair by pair of quads. Threads side by side begin with other quads, as
    the order of two terms does not matter."""
    found: list[list[Item]] = []
    parts = team.quads // (team.lanes // 4)
    for many in sorted({len(items) for _, items in sums}, reverse=True):
        alike = [one for one in sums if len(one[1]) == many]
        reads = np.array([place[list(items[0])] for _, items in alike])
        for index in ordered(reads % team.colours, min(2, team.quads), team.colours):
            number, items = alike[index]
            for pair in range(team.pairs):
                into = 4 * (pair * count + len(order))
                rows: list[Item] = []
                for item in items:
                    for part in range(parts):
                        at = part * (team.lanes // 4) + 2 * pair
                        a, b, d = (int(place[one]) * team.quads + at for one in item)
                        rows.append((a, b, d, into))
                rows[0] = (*rows[0][:3], rows[0][3] | BEGIN)
                rows[-1] = (*rows[-1][:3], rows[-1][3] | END)
                found.append(rows)
            order.append(number)
    return found
