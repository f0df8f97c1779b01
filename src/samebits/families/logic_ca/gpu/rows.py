"""Who of a group of threads does what in each pass (passes.py), and where in the group's memory it lies.

Every warp goes through rows of its own. A row gives each slot of a warp, a thread for every four cells, a gate, or some
readers of a block on the way back; or each thread the sums of a gate. What is no longer needed gives its place to what
comes later.

Eight threads read sixteen bytes each at once if no two of them read from the same eighth of the memory's width. So the
rows of a level are ordered by where they read, and places are given out by who writes next to whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.errors import SamebitsError
from samebits.families.logic_ca.gpu.levels import GIVEN, Levels
from samebits.families.logic_ca.gpu.passes import Item, Plan

WARP = 32
GOES_ON, ENDS, IS_INPUT = 3, 4, 8  # rows of blocks: how it begins, or GOES_ON; the last of its rows; leaves for a patch
FIELD = 21  # bits of an address in a row
LAST = 63  # the bit of a gate's last row of sums
TOGETHER = (2, 2, 2)  # rows of gates, of blocks, of sums that are fetched at once; a pass begins with the first of them
NEIGHBOURS = 8  # threads that read at once
FIXED = 2  # places that no plan counts: for what nobody reads, and for −0
CANDIDATES = 128  # that are looked at for the next slot
COSTS = (3, 5, 6)  # of a row, about
A_READER = 1 / 8  # … of a chain
UNUSED_SUM: Item = (0, 0, 0, 0, -1)
Lump = list[list[Item]]  # rows that a warp does one after the other
Chain = tuple[int, int, list[Item]]  # a block, its adjoint, its readers (passes.py)


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
    def gates(self) -> int:
        """Whose sums a row has."""
        return WARP // self.pairs

    @property
    def colours(self) -> int:
        """Places with the same remainder get in each other's way."""
        return max(1, NEIGHBOURS // self.quads)


class Tables(NamedTuple):
    """Rows of all warps, one warp after the other; words are addresses in fours of numbers."""

    places: int
    starts: Array  # (warps, 4) first rows: of gates, of blocks, of sums; and of those that end
    counts: Array  # (passes, warps) words: rows, likewise
    gates: Array  # (rows, slots) words
    numbers: Array  # (rows, slots) of gates
    blocks: Array  # (rows, slots, 2) words
    which: Array  # (rows, slots, 2) whose slope: 2 · number + side; −1: nobody's
    sums: Array  # (rows, gates of a row) words
    order: Array  # (places,) whose sums lie there, row by row that ends; −1: nobody's
    chains: Array  # (chains, 4) first reader, last, what it begins with, number of the input
    readers: Array  # (readers, 4) adjoint above, other input, 2 · number + side, 0
    outputs: Array  # (channels,) places of the next state


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

    def add(self, lumps: Sequence[Sequence[Lump]], fillers: Sequence[list[Item]], load: Array) -> None:
        """A pass: lumps of rows of each kind, the longest first, to whoever has least to do beside a load of its own.
        Rows are fetched several at once, and the next pass begins with a fetch."""
        counts = np.zeros((self.warps, 3), np.int64)
        order = [(-COSTS[kind] * len(rows), kind, n) for kind in range(3) for n, rows in enumerate(lumps[kind])]
        for cost, kind, n in sorted(order):
            warp = int(load.argmin())
            self.rows[kind][warp] += lumps[kind][n]
            counts[warp, kind] += len(lumps[kind][n])
            load[warp] -= cost
        self.counts.append(counts)
        for streams, many, filler in zip(self.rows, TOGETHER, fillers, strict=True):
            for rows in streams:
                rows += [filler] * (-len(rows) % many)

    def starts(self) -> Array:
        lengths = np.array([[len(rows) for rows in kind] for kind in self.rows])
        found = np.zeros((self.warps, 4), np.int32)
        found[1:, :3] = np.cumsum(lengths[:, :-1], axis=1).T
        found[1:, 3] = np.cumsum([len(ending(rows)) for rows in self.rows[2]])[:-1]
        return found

    def table(self, kind: int, filler: list[Item]) -> Array:
        """(rows and some that are fetched but never used, width, fields)"""
        return np.array([row for warp in self.rows[kind] for row in warp] + [filler] * TOGETHER[kind], np.int64)


def ending(rows: Sequence[list[Item]]) -> list[list[Item]]:
    """Rows of sums that are the last ones of their gates."""
    return [row for row in rows if row[0][3]]


def lumps_of(lists: Sequence[list[Item]], width: int, filler: Item) -> list[Lump]:
    """Lists of rows, as many side by side as a warp takes; the filler stands where there is none."""
    found = []
    for begin in range(0, len(lists), width):
        some = lists[begin : begin + width]
        depth = max(map(len, some))
        padded = [[*one, *[filler] * (depth - len(one))] for one in some] + [[filler] * depth] * (width - len(some))
        found.append([list(row) for row in zip(*padded, strict=True)])
    return found


class Layout:
    """Where every value lies while the rows of the passes are made."""

    def __init__(self, levels: Levels, plan: Plan, team: Team, back: bool) -> None:
        channels, inputs = len(levels.outputs), levels.inputs
        self.plan, self.colours, self.limit = plan, team.colours, plan.most + FIXED
        self.place = np.full(len(plan.first), -1, np.int64)  # of every value
        self.place[:inputs] = np.arange(inputs)
        self.nowhere = inputs + (channels if back else 0)  # who has nothing to do writes there
        self.nothing = self.nowhere + 1  # −0, which changes no sum
        if back:
            self.place[2 * levels.blocks + levels.outputs] = inputs + np.arange(channels)
        self.shelf = Places(self.nothing + 1, team.colours)
        self._dying: list[list[int]] = [[] for _ in range(len(plan.passes) + 2)]  # by the pass that needs them no more
        for given in np.flatnonzero(self.place >= 0).tolist():
            self._dies(given)

    def _dies(self, number: int) -> None:
        self._dying[min(int(self.plan.last[number]) + 1, len(self._dying) - 1)].append(number)

    def begin(self, t: int) -> None:
        """Pass t begins: what it does not need gives its place back."""
        for dead in self._dying[t]:
            self.shelf.give_back(int(self.place[dead]))

    def write(self, number: int, colour: int) -> int:
        """A place for a value, of this colour if there is one."""
        self.place[number] = self.shelf.take(colour % self.colours, self.limit)
        self._dies(number)
        return int(self.place[number])


def laid_out(levels: Levels, plan: Plan, team: Team, back: bool) -> Tables:
    """Tables for a plan of this circuit."""
    layout, streams = Layout(levels, plan, team, back), Streams(team.warps)
    unused_gate = (0, 0, layout.nowhere, 0)
    unused_row = (*[layout.nothing] * 4, layout.nowhere, ENDS, -1, -1)
    fillers: list[list[Item]] = [[unused_gate] * team.slots, [unused_row] * team.slots, [UNUSED_SUM] * team.gates]
    chains = sorted(plan.chains, key=lambda chain: -len(chain[2]))
    for t, one in enumerate(plan.passes):
        layout.begin(t)
        gate_rows = _gate_rows(one.gates, layout)
        block_rows = _block_rows(levels, sorted(one.blocks, key=lambda block: -len(block[2])), layout)
        lumps = (
            lumps_of(gate_rows, team.slots, unused_gate),
            lumps_of(block_rows, team.slots, unused_row),
            _sum_lumps(one.sums, layout.place, team),
        )
        streams.add(lumps, fillers, _chain_load(chains if t == len(plan.passes) - 1 else [], team))
    return _tables(levels, layout, streams, chains, fillers, team.quads)


def _tables(
    levels: Levels, layout: Layout, streams: Streams, chains: Sequence[Chain], fillers: Sequence[list[Item]], quads: int
) -> Tables:
    """The rows of all passes as arrays."""
    gates, blocks, sums = (streams.table(kind, filler) for kind, filler in enumerate(fillers))
    place, ends = layout.place, np.cumsum([0, *(len(some) for _, _, some in chains)])
    readers = [(int(place[x]) * quads, int(place[y]) * quads, w, 0) for _, _, some in chains for x, y, w in some]
    parts = [(ends[i], ends[i + 1], levels.begins[one[0]], one[0]) for i, one in enumerate(chains)]
    return Tables(
        places=layout.shelf.end,
        starts=streams.starts(),
        counts=_words(np.array(streams.counts)),
        gates=_words(gates[..., :3] * quads),
        numbers=np.ascontiguousarray(gates[..., 3], np.int32),
        blocks=np.stack([_words(blocks[..., :3] * quads), _words(_with_target(blocks, quads))], -1),
        which=np.ascontiguousarray(blocks[..., 6:], np.int32),
        sums=_words(sums[..., :3]) | sums[..., 3].astype(np.uint64) << np.uint64(LAST),
        order=np.array([item[4] for rows in streams.rows[2] for row in ending(rows) for item in row], np.int32),
        chains=np.array(parts, np.int32).reshape(-1, 4),
        readers=np.array(readers, np.int32).reshape(-1, 4),
        outputs=np.ascontiguousarray(place[levels.outputs], np.int32),
    )


def _chain_load(chains: Sequence[Chain], team: Team) -> Array:
    """(warps,) what the chains of inputs cost each warp."""
    load = np.zeros(team.warps)
    for begin in range(0, len(chains), team.slots):
        load[begin // team.slots % team.warps] += A_READER * len(chains[begin][2])
    return load


def _with_target(table: Array, quads: int) -> Array:
    """Other input of the second reader, where the adjoint goes (of inputs: their number), what to do."""
    is_input = table[..., 5] & IS_INPUT != 0
    target = np.where(is_input, table[..., 4], table[..., 4] * quads)
    return np.stack([table[..., 3] * quads, target, table[..., 5]], -1)


def _words(fields: Array) -> Array:
    if fields.size and int(fields.max()) >> FIELD:
        raise SamebitsError(
            f"this circuit needs {int(fields.max()):,} places for fours of cells on a GPU; at most {1 << FIELD:,} are "
            "known there; lower lanes, channels or update, or use --device cpu"
        )
    shifts = np.array([0, FIELD, 2 * FIELD])
    return np.ascontiguousarray(np.bitwise_or.reduce(fields << shifts, axis=-1).astype(np.uint64))


def _gate_rows(gates: Sequence[Item], layout: Layout) -> list[list[Item]]:
    """One row a gate: places of a, of b, of the result, number of the gate."""
    place = layout.place
    found: list[list[Item]] = []
    reads = np.array([row[:2] for row in gates], np.int64).reshape(-1, 2)
    for slot, index in enumerate(ordered(place[reads] % layout.colours, 1, layout.colours)):
        a, b, out, number = gates[index]
        found.append([(int(place[a]), int(place[b]), layout.write(out, slot), number)])
    return found


def _block_rows(levels: Levels, blocks: Sequence[Chain], layout: Layout) -> list[list[Item]]:
    """Of blocks by falling numbers of readers: two readers a row."""
    place, nothing, colours = layout.place, layout.nothing, layout.colours
    lengths = [-(-len(readers) // 2) for _, _, readers in blocks]
    found: list[list[Item]] = []
    for begin in range(len(blocks)):
        if begin and lengths[begin] == lengths[begin - 1]:
            continue
        alike = [block for block, length in zip(blocks, lengths, strict=True) if length == lengths[begin]]
        reads = np.full((len(alike), 2, 2), nothing)
        for index, (_, _, readers) in enumerate(alike):
            for which, (above, other, _) in enumerate(readers[:2]):
                reads[index, which] = place[above], place[other]
        for index in ordered(reads.reshape(-1, 4) % colours, 1, colours):
            block, adjoint, readers = alike[index]
            pairs = [(int(place[above]), int(place[other]), which) for above, other, which in readers]
            is_input = block < levels.inputs
            given = levels.begins[block] == GIVEN
            target = block if is_input else int(place[adjoint]) if given else layout.write(adjoint, len(found))
            pairs += [(nothing, nothing, -1)] * (len(pairs) % 2 or 2 * (not pairs))
            rows: list[Item] = []
            for row in range(0, len(pairs), 2):
                (u, v, w), (x, y, z) = pairs[row : row + 2]
                what = GOES_ON if row else int(levels.begins[block])
                what |= IS_INPUT * is_input | ENDS * (row + 2 == len(pairs))
                rows.append((u, v, x, y, target, what, w, z))
            found.append(rows)
    return found


def _sum_lumps(sums: Sequence[tuple[int, list[Item]]], place: Array, team: Team) -> list[Lump]:
    """Of gates with the same number of entries: a, b, adjoint, whether it is the last one, number of the gate."""
    found: list[Lump] = []
    wide = team.lanes // 4  # quads of a part
    for many in sorted({len(items) for _, items in sums}, reverse=True):
        alike = [one for one in sums if len(one[1]) == many]
        reads = np.array([place[list(items[0])] for _, items in alike])
        lists: list[list[Item]] = []
        for index in ordered(reads % team.colours, min(2, team.quads), team.colours):
            number, items = alike[index]
            rows = [
                (*(int(place[one]) * team.quads + at for one in item), 0, number)
                for item in items for at in range(0, team.quads, wide)
            ]  # fmt: skip
            rows[-1] = *rows[-1][:3], 1, number
            lists.append(rows)
        nobody = [UNUSED_SUM] * (len(lists[0]) - 1) + [(*UNUSED_SUM[:3], 1, -1)]
        found += lumps_of([*lists, *[nobody] * (-len(lists) % team.gates)], team.gates, UNUSED_SUM)
    return found
