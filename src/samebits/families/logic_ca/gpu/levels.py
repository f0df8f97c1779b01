"""A cell's circuit in levels, for devices where a group of threads computes one at once: its gates do not read each
other. passes.py says what is done when."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.gpu.fingerprints import Frozen
from samebits.families.logic_ca.config import LogicConfig
from samebits.families.logic_ca.program import WRITES_A, WRITES_B, Program, compile_program
from samebits.training.contract import Constants

NOTHING, STORES, GIVEN = 0, 1, 2  # what the adjoint of a block begins with: zero, its first reader, what the loss says


Reader = tuple[int, int, int]  # its block, that of its other input, 2 · number + side


class Levels(NamedTuple):
    """A block is a number of every cell. Inputs come first, then a block for every entry: gates level by level, one
    over all channels an entry for each."""

    inputs: int
    entries: Array  # (entries, 3) blocks a and b, number of the gate
    level: Array  # (blocks,) 0 for inputs
    outputs: Array  # (channels,) blocks
    gates: Array  # (gates, 3) first entry, how many, number
    readers: tuple[tuple[Reader, ...], ...]  # of each block, last first
    begins: Array  # (blocks,) NOTHING, STORES or GIVEN

    @property
    def depth(self) -> int:
        return int(self.level.max())

    @property
    def blocks(self) -> int:
        return len(self.level)


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
    inputs = 9 * channels
    number = np.full(len(old_level), -1, np.int64)  # of a block, by its number in the program
    number[:inputs] = np.arange(inputs)
    gates, firsts, count = [], {}, 0
    for index in order.tolist():
        out, width = int(triples[index, 2]), int(widths[index])
        number[out : out + width] = inputs + count + np.arange(width)
        gates.append((count, width, int(triples[index, 3])))
        firsts[index] = count
        count += width
    entries = np.zeros((count, 3), np.int64)
    level = np.zeros(inputs + count, np.int64)
    readers: list[list[Reader]] = [[] for _ in range(inputs + count)]
    outputs = number[program.full_outputs.astype(np.int64) // lanes]
    begins = np.full(inputs + count, NOTHING, np.uint8)
    begins[outputs] = GIVEN
    for index in range(len(triples) - 1, -1, -1):
        a, b, _, gate = triples[index].tolist()
        for c in range(int(widths[index])):
            entry = firsts[index] + c
            left, right = int(number[a + c]), int(number[b + c])
            entries[entry] = left, right, gate
            level[inputs + entry] = own[index]
            for side, (mine, other, flag) in enumerate(((left, right, WRITES_A), (right, left, WRITES_B))):
                if not readers[mine] and flags[index] & flag:
                    begins[mine] = STORES
                readers[mine].append((inputs + entry, other, 2 * gate + side))
    return Levels(inputs, entries, level, outputs, np.array(gates, np.int64), tuple(map(tuple, readers)), begins)


class ById:
    """A key for what is made once and never changed: it keeps the object alive, so no other one can have its id."""

    def __init__(self, one: Any) -> None:
        self.one = one

    def __hash__(self) -> int:
        return id(self.one)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and other.one is self.one


@lru_cache(maxsize=4)
def _levels(key: ById, channels: int, lanes: int) -> Frozen[Levels]:
    return Frozen(_renumbered(key.one, channels, lanes))


def levels_of(config: LogicConfig, wires: Constants) -> Frozen[Levels]:
    return _levels(ById(compile_program(config, wires)), config.channels, config.lanes)
