"""What a group of threads does of a circuit (levels.py), and when: passes, after each of which all wait for each other.

On the way back values are needed again, the first ones last: with a `cut`, those of the levels below it are computed a
second time, so that not all of them have to lie there at once. rows.py says who does it, and where values lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.families.logic_ca.gpu.levels import GIVEN, Levels

LONG = 8  # an input with more readers has a chain of its own
Item = tuple[int, ...]


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
