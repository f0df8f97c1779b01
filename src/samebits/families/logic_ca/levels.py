"""A cell's circuit in levels, for devices where a group of threads computes one at once: its gates do not read each
other. Blocks (a number of every cell each) that are no longer needed give their memory to later ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from samebits.engine.arrays import Array
from samebits.engine.family import Constants
from samebits.families.logic_ca.config import LogicConfig
from samebits.families.logic_ca.program import WRITES_A, WRITES_B, Program, compile_program

NOTHING, STORES, GIVEN = 0, 1, 2  # what the adjoint of a block begins with: zero, its first reader, what the loss says


class Levels(NamedTuple):
    """Entries are gates level by level, one over all channels an entry for each; inputs are the blocks before them."""

    inputs: int
    entries: Array  # (entries, 4) blocks a and b, 0, number of the gate
    levels: Array  # (depth + 1,) where each begins
    outputs: Array  # (channels,) blocks
    places: Array  # (blocks,) where they lie on the way there, when only the state after it is wanted
    room: int  # of such places
    gates: Array  # (gates, 4) first entry, how many, number, 0
    gate_levels: Array  # (depth + 1,) where the gates of each level begin
    readers: Array  # (…, 4) of each block in turn, last first: place of the reader's adjoint, block of its other input,
    # 2 · number + side, 0
    reader_starts: Array  # (blocks + 1,)
    begins: Array  # (blocks,) NOTHING, STORES or GIVEN
    adjoints: Array  # (blocks,) places of adjoints; inputs have none
    adjoint_room: int

    @property
    def depth(self) -> int:
        return len(self.levels) - 1

    @property
    def blocks(self) -> int:
        return self.inputs + len(self.entries)


def share_places(order: Sequence[Sequence[int]], last_use: Array, places: Array, room: int) -> int:
    """Give places to blocks, in waves of those written at once; one is free again after the wave that reads it last.

    last_use: the wave. Returns how many places there are; `room` of them are taken.
    """
    free: list[int] = []
    dying: dict[int, list[int]] = {}
    for wave, blocks in enumerate(order):
        free += dying.pop(wave - 1, [])
        for block in blocks:
            if free:
                places[block] = free.pop()
            else:
                places[block], room = room, room + 1
            dying.setdefault(int(last_use[block]), []).append(int(places[block]))
    return room


def _in_levels(program: Program, channels: int, lanes: int) -> tuple[Array, Array, Array, Array]:
    """The program's gates in blocks, how many entries each has, their levels, and those of all blocks."""
    triples = np.column_stack([program.full[:, :3].astype(np.int64) // lanes, program.full[:, 3].astype(np.int64)])
    level = np.zeros(program.full_size // lanes, np.int64)
    widths = np.where(np.arange(len(triples)) < program.wide, channels, 1)
    for (a, b, out, _), width in zip(triples.tolist(), widths.tolist(), strict=True):
        level[out : out + width] = 1 + max(level[a : a + width].max(), level[b : b + width].max())
    return triples, widths, level[triples[:, 2]], level


def _renumbered(program: Program, channels: int, lanes: int) -> Levels:
    triples, widths, own, old_level = _in_levels(program, channels, lanes)
    order, flags = np.argsort(own, kind="stable"), program.adjoint[:, 3]
    depth, inputs = int(own.max()), 9 * channels
    number = np.full(len(old_level), -1, np.int64)  # of a block, by its number in the program
    number[:inputs] = np.arange(inputs)
    gates, firsts, count = [], {}, 0
    for index in order.tolist():
        out, width = int(triples[index, 2]), int(widths[index])
        number[out : out + width] = inputs + count + np.arange(width)
        gates.append((count, width, int(triples[index, 3]), 0))
        firsts[index] = count
        count += width
    entries = np.zeros((count, 4), np.int64)
    level = np.zeros(inputs + count, np.int64)
    readers: list[list[tuple[int, int, int]]] = [[] for _ in range(inputs + count)]
    outputs = number[program.full_outputs.astype(np.int64) // lanes]
    begins = np.full(inputs + count, NOTHING, np.uint8)
    begins[outputs] = GIVEN
    for index in range(len(triples) - 1, -1, -1):
        a, b, _, gate = triples[index].tolist()
        for c in range(int(widths[index])):
            entry = firsts[index] + c
            left, right = int(number[a + c]), int(number[b + c])
            entries[entry] = left, right, 0, gate
            level[inputs + entry] = own[index]
            for side, (mine, other, flag) in enumerate(((left, right, WRITES_A), (right, left, WRITES_B))):
                if not readers[mine] and flags[index] & flag:
                    begins[mine] = STORES
                readers[mine].append((inputs + entry, other, 2 * gate + side))
    starts = np.searchsorted(level[inputs:], np.arange(1, depth + 2))
    gate_starts = np.searchsorted(own[order], np.arange(1, depth + 2))
    waves = [[*range(inputs)], *([*range(inputs + first, inputs + last)] for first, last in pairwise(starts.tolist()))]

    last_read = np.array([max((int(level[out]) for out, _, _ in some), default=int(level[b]))
                          for b, some in enumerate(readers)])  # fmt: skip
    last_read[outputs] = depth + 1  # read after the last wave
    places = np.zeros(inputs + count, np.int64)
    room = share_places(waves, last_read, places, 0)

    # Backwards, wave w computes the adjoints of level depth − w, and sums over those of the wave before.
    lowest = np.minimum(level[entries[:, 0]], level[entries[:, 1]])
    adjoints = np.zeros(inputs + count, np.int64)
    adjoints[outputs] = np.arange(channels)
    given = set(outputs.tolist())
    back = [[block for block in blocks if block not in given] for blocks in waves[:0:-1]]
    last_back = np.zeros(inputs + count, np.int64)
    last_back[inputs:] = depth - np.minimum(lowest, level[inputs:] - 1)
    adjoint_room = share_places(back, last_back, adjoints, channels)

    flat = [(int(adjoints[out]), other, which, 0) for some in readers for out, other, which in some]
    sizes = np.cumsum([0, *(len(some) for some in readers)])

    def table(rows: Any) -> Array:
        return np.ascontiguousarray(rows, np.int32)

    return Levels(
        inputs, table(entries), table(starts), table(outputs), table(places), room, table(gates), table(gate_starts),
        table(flat), table(sizes), begins, table(adjoints), adjoint_room,
    )  # fmt: skip


class Rounds(NamedTuple):
    """The same as a group of threads goes through it (automaton.cl): so many entries at once."""

    width: int
    steps: Array  # (rounds · width, 4) places of a, b, the output, and ±(number + 1): − where all wait afterwards

    @property
    def many(self) -> int:
        return len(self.steps) // self.width


class Backward(NamedTuple):
    """… and back: the blocks from the last level down to the inputs, and the gates of the level above meanwhile."""

    width: int
    blocks: Array  # (rounds + 2 of nothing) · width, 4
    levels: Array  # (depth + 1, 4) end of its rounds, first gate, end of its gates, 0
    items: Array  # (entries, 4) a, b, the adjoint, 0
    readers: Array  # those of the levels, and a row that nobody uses


def in_rounds(starts: Array, width: int) -> list[tuple[Array, bool]]:
    """The numbers from starts[0] on, level by level, in runs of at most `width`; True: it ends its level."""
    found = []
    for first, last in pairwise(starts.tolist()):
        for begin in range(first, last, width):
            found.append((np.arange(begin, min(begin + width, last)), begin + width >= last))
    return found


def forward_rounds(own: Levels, places: Array, nowhere: int, width: int) -> Rounds:
    """For blocks at these places; `nowhere` is one that nobody reads."""
    a, b, _, number = own.entries.T
    out = own.inputs + np.arange(len(own.entries))
    rows = np.column_stack([places[a], places[b], places[out], number + 1])
    runs = in_rounds(own.levels, width)
    steps = np.full((len(runs), width, 4), (0, 0, nowhere, 1), np.int32)
    for run, (entries, ends) in zip(steps, runs, strict=True):
        run[: len(entries)] = rows[entries]
        if ends:
            run[:, 3] *= -1
    return Rounds(width, steps.reshape(-1, 4))


def backward_rounds(own: Levels, adjoints_at: int, nowhere: int, width: int) -> Backward:
    """Adjoints lie from adjoints_at on."""
    firsts, lasts = own.reader_starts[:-1], own.reader_starts[1:]
    places = np.where(np.arange(own.blocks) < own.inputs, -1 - np.arange(own.blocks), adjoints_at + own.adjoints)
    rows = np.column_stack([firsts, lasts, places, own.begins])
    edges = [0, own.inputs, *(own.inputs + own.levels[1:]).tolist()]
    gates = own.gate_levels.tolist()
    runs: list[Array] = []
    levels = []
    for level in range(own.depth, -1, -1):
        runs += [some for some, _ in in_rounds(np.array(edges[level : level + 2]), width)]
        above = (gates[level], gates[level + 1]) if level < own.depth else (0, 0)
        levels.append((len(runs), *above, 0))
    blocks = np.full((len(runs) + 2, width, 4), (0, 0, nowhere, 0), np.int32)
    for run, some in zip(blocks, runs, strict=False):
        run[: len(some)] = rows[some]
    a, b, _, _ = own.entries.T
    items = np.column_stack([a, b, adjoints_at + own.adjoints[own.inputs :], np.zeros_like(a)])
    readers = np.vstack([own.readers + np.array([adjoints_at, 0, 0, 0]), np.zeros((1, 4), np.int64)])
    return Backward(
        width, blocks.reshape(-1, 4), np.array(levels, np.int32), np.ascontiguousarray(items, np.int32),
        np.ascontiguousarray(readers, np.int32),
    )  # fmt: skip


class _Key:
    """A program as a key: compile_program returns the same object for the same circuit."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return id(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.program is self.program


@lru_cache(maxsize=4)
def _levels(key: _Key, channels: int, lanes: int) -> Levels:
    return _renumbered(key.program, channels, lanes)


def levels_of(config: LogicConfig, wires: Constants) -> Levels:
    return _levels(_Key(compile_program(config, wires)), config.channels, config.lanes)
