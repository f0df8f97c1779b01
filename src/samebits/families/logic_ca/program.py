"""The whole cell, perceive and update, as one list of gates over a buffer of lanes.

Shapes: a *block* is `lanes` floats, one per cell of a tile. An input row or a perceive gate holds all C channels, C
blocks side by side, because the kernels see every channel alike; an update gate holds one block. So each gate appears
once, with one width, and its position in the parameters is its number here.

Three placements of the same gates, as offsets into a buffer of floats:
  full     every value has its own place: the backward pass reads them all (recomputed, never stored between steps)
  live     values die as soon as nobody reads them: the forward pass then runs in the L1 cache
  adjoint  the same for the gradients of the values, walked in reverse
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.families.logic_ca.config import POSITIONS, LogicConfig
from samebits.families.logic_ca.wiring import CENTRE

WRITES_A, WRITES_B = 1, 2  # this gate is the first to touch the adjoint of its input: it stores, later ones add


class Program(NamedTuple):
    """What the kernels run; they take it as it is."""

    wide: int  # how many gates span all channels; they come first
    full: Array  # (gates, 4) uint32: a, b, out, number of the gate in the parameters
    live: Array  # (gates, 3) uint32: a, b, out
    adjoint: Array  # (gates, 4) uint32: a, b, out, WRITES_… flags
    unread: Array  # adjoint blocks that no gate writes: the outputs nobody reads, to be set to 0
    full_outputs: Array  # (C,) where the cell's next state ends up
    live_outputs: Array
    adjoint_outputs: Array
    full_size: int  # floats
    live_size: int
    adjoint_size: int


class Shelf:
    """Hands out block offsets, reusing what was given back last: that is still in the cache."""

    def __init__(self, start: int) -> None:
        self.end = start
        self.free: list[int] = []

    def take(self) -> int:
        if self.free:
            return self.free.pop()
        return self.take_new()

    def take_new(self) -> int:
        self.end += 1
        return self.end - 1


# The config, wires and program of the last call: every training step asks for the same one. Always replaced as a whole,
# and looked at through a local name: another thread may be training something else.
_recent: tuple[LogicConfig, Mapping[str, Array], Program] | None = None


def compile_program(config: LogicConfig, wires: Mapping[str, Array]) -> Program:
    """The program for a config and its wires; built once, as it depends on nothing else."""
    global _recent
    last = _recent
    if last is not None and last[0] is config and last[1] is wires:
        return last[2]
    key = tuple((name, array.tobytes()) for name, array in sorted(wires.items()))
    program = _compile(config.channels, config.kernels, config.perceive, config.update, config.lanes, key)
    _recent = config, wires, program
    return program


@lru_cache(maxsize=8)
def _compile(
    channels: int,
    kernels: int,
    perceive: tuple[int, ...],
    update: tuple[int, ...],
    lanes: int,
    key: tuple[tuple[str, bytes], ...],
) -> Program:
    wires = {name: np.frombuffer(raw, np.int32).reshape(2, -1) for name, raw in key}
    triples, wide, outputs = _list_gates(channels, kernels, perceive, update, wires)
    rows = int(outputs.max()) + 1
    inputs = POSITIONS * channels
    # Rows that live through the whole pass: the inputs, and the perceive outputs, which the update reads by the block.
    hidden = sum(perceive[:-1]) * channels
    per_kernel = sum(perceive) * channels
    persistent = np.arange(rows)
    k, within = np.divmod(np.arange(inputs, inputs + kernels * per_kernel) - inputs, per_kernel)
    kept = kernels * (per_kernel - hidden)
    persistent[inputs : inputs + kernels * per_kernel] = inputs + np.where(
        within < hidden, kept + within, k * (per_kernel - hidden) + within - hidden
    )
    first_update = inputs + kernels * per_kernel
    start = inputs + kept + hidden

    live, live_size = _place_forward(triples, wide, persistent, first_update, start, outputs)
    adjoint, adjoint_size, flags, unread = _place_backward(
        triples, wide, persistent, first_update, start, outputs, channels
    )

    def offsets(places: Array, columns: Array) -> Array:
        return np.ascontiguousarray(places[columns] * lanes, dtype=np.uint32)

    full = np.column_stack([triples[:, :3] * lanes, triples[:, 3]]).astype(np.uint32)
    return Program(
        wide=wide,
        full=np.ascontiguousarray(full),
        live=offsets(live, triples[:, :3]),
        adjoint=np.ascontiguousarray(np.column_stack([offsets(adjoint, triples[:, :3]), flags]), dtype=np.uint32),
        unread=offsets(adjoint, np.array(unread, np.int64)),
        full_outputs=offsets(np.arange(rows), outputs),
        live_outputs=offsets(live, outputs),
        adjoint_outputs=offsets(adjoint, outputs),
        full_size=rows * lanes,
        live_size=live_size * lanes,
        adjoint_size=adjoint_size * lanes,
    )


def _list_gates(
    channels: int, kernels: int, perceive: tuple[int, ...], update: tuple[int, ...], wires: Mapping[str, Array]
) -> tuple[Array, int, Array]:
    """(gates, 4): rows a, b, out (in blocks) and parameter number, in an order that can be run; the output rows."""
    found: list[tuple[int, int, int, int]] = []
    row = POSITIONS * channels
    numbers = np.cumsum([0, *(kernels * gates for gates in perceive)])
    seen = np.empty((perceive[-1], kernels, channels), np.int64)
    for k in range(kernels):  # kernel by kernel: a kernel's few rows stay in the L1 cache
        below = np.arange(POSITIONS) * channels
        for i, gates in enumerate(perceive):
            above = row + channels * np.arange(gates)
            a, b = wires[f"perceive.{i}.wires"]
            found += zip(below[a], below[b], above, numbers[i] + k * gates + np.arange(gates), strict=True)
            row += channels * gates
            below = above
        seen[:, k] = below[:, None] + np.arange(channels)
    wide, number = len(found), int(numbers[-1])
    below = np.concatenate([CENTRE * channels + np.arange(channels), seen.transpose(2, 0, 1).ravel()])
    for i, gates in enumerate(update):
        above = row + np.arange(gates)
        a, b = wires[f"update.{i}.wires"]
        # Neighbours in the wiring's ring share an input: walking along the ring reads each row once from the cache.
        order = np.lexsort((b, a))
        found += zip(below[a][order], below[b][order], above[order], number + order, strict=True)
        row, number, below = row + gates, number + gates, above
    return np.array(found, np.int64), wide, below


def _place_forward(
    triples: Array, wide: int, persistent: Array, first_update: int, start: int, outputs: Array
) -> tuple[Array, int]:
    places = persistent.copy()
    last_use = np.full(len(places), -1)
    for index, (a, b, _, _) in enumerate(triples):
        last_use[[a, b]] = index
    last_use[outputs] = len(triples)
    shelf = Shelf(start)
    for index in range(wide, len(triples)):
        a, b, out, _ = triples[index]
        places[out] = shelf.take()
        shelf.free += [int(places[row]) for row in (a, b) if row >= first_update and last_use[row] == index]
    return places, shelf.end


def _place_backward(
    triples: Array, wide: int, persistent: Array, first_update: int, start: int, outputs: Array, channels: int
) -> tuple[Array, int, Array, list[int]]:
    places = persistent.copy()
    shelf = Shelf(start)
    unread: list[int] = []
    touched = np.zeros(len(places), bool)
    for row in outputs:
        places[row] = shelf.take()
    touched[outputs] = True
    flags = np.zeros(len(triples), np.int64)
    for index in range(len(triples) - 1, -1, -1):
        a, b, out, _ = triples[index]
        width = channels if index < wide else 1
        unread += _claim_untouched(touched, places, shelf, range(out, out + width), first_update)
        for row, flag in ((a, WRITES_A), (b, WRITES_B)):
            if not touched[row : row + width].any():
                touched[row : row + width] = True
                flags[index] |= flag
                if row >= first_update:
                    places[row] = shelf.take()
            else:  # the update may read some channels of the centre and not others
                unread += _claim_untouched(touched, places, shelf, range(row, row + width), first_update)
        if index >= wide and out not in unread:
            shelf.free.append(int(places[out]))
    return places, shelf.end, flags, unread


def _claim_untouched(touched: Array, places: Array, shelf: Shelf, blocks: range, first_update: int) -> list[int]:
    """Blocks of this row that no gate has written: they get a place of their own that stays 0."""
    found = [row for row in blocks if not touched[row]]
    for row in found:
        touched[row] = True
        if row >= first_update:
            places[row] = shelf.take_new()
    return found
