"""The compiled part of repair.py: 64 variants of one hard circuit at a time, one in every bit of a word.

Shapes: C channels, H×W cells, T CA steps, m gates of the cell (circuit.full_circuit), G gates of the parameters.
  planes   a word a cell, rows of W + 2 with what lies around the grid; bit j is the cell in variant j's world
  masks    (m, 4)  m₀ … m₃ of every gate (packed_kernels.py), bit j as variant j has it
  counter  (BITS,) wrong cells of every variant, in binary: word i has bit i of all 64 counts
  memory   a worker's own: the planes of this CA step, those of the next, then the values of gates

Variants differ in a gate or two, so nearly all of the work is shared: only gates that can reach the picture in some of
them are run, and a gate that is a wire in all of them is none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.simd import SUMS
from samebits.compiler.jit import kernel, routine
from samebits.devices.cpu.sync import claim
from samebits.families.logic_ca.circuits.circuit import PASS_A, PASS_B
from samebits.families.logic_ca.data import KEEPS, TAKES
from samebits.families.logic_ca.simulation.packed_kernels import NOTHING, ONE, copy, packed_gate

VARIANTS = 64  # in a word
BITS = 40  # of a count
PASS = 128  # cells that the gates are run for at a time: their values stay in the cache
ALL = ~NOTHING


class Cell(NamedTuple):
    """The circuit of one cell: what no variant changes."""

    inputs: Array  # (n, 2) position and channel
    a: Array  # (m,)
    b: Array
    outputs: Array  # (C,)
    first: Array  # (G,) first gate of the cell that a gate of the parameters is …
    copies: Array  # (G,) … and how many it is: perceive gates serve every channel
    table: Array  # (16, 4) masks of the operations
    reads: Array  # (16, 2) bool: whether they read a, b


class Trials(NamedTuple):
    """What the variants are judged by."""

    starts: Array  # (B, C, H, W) uint8
    targets: Array  # (B, k, H, W) uint8
    fire: Array  # (M, T, H·W): start i has number i mod M; or M = 0
    judged: Array  # (T,) uint8: whether the picture counts after each step
    periodic: bool


class Variants(NamedTuple):
    """The gates of 64 variants."""

    masks: Array  # (m, 4) uint64
    reads: Array  # (m, 2) bool: whether a gate reads a, b in any of them
    wire: Array  # (m,) the operation of a gate that is the same wire in all of them; −1: it is none


class Placement(NamedTuple):
    """Where gates read and write in a worker's memory."""

    gates: Array  # (…, 6) place of a, whether it moves with the cells, the same of b, place of the result, number
    places: Array  # (n + m,) of every node
    moves: Array  # (n + m,) 1 where it moves with the cells: an input


class Planes(NamedTuple):
    """The shape of the planes."""

    plane: int  # words of one
    stride: int  # words of a row
    first: int  # the first cell in a plane
    cells: int  # from the first cell to the last, with what lies around the rows between them


class Candidates(NamedTuple):
    """The circuits that are judged: `ops` (G,), changed by flips (n, f, 2), gate and operation; −1: none."""

    ops: Array
    flips: Array


@kernel
def plane_words(height: int, width: int) -> int:
    return (height + 2) * (width + 2) + PASS  # the last pass reads past its rows


@kernel
def planes_of(height: int, width: int) -> Planes:
    return Planes(plane_words(height, width), width + 2, width + 3, height * (width + 2) - 2)


@kernel
def vary(variants: Variants, ops: Array, flips: Array, cell: Cell) -> None:
    """Fill in the variants of the circuit `ops` (G,): flips (variants, f, 2), gate and operation; −1: none."""
    masks, reads, wire = variants.masks, variants.reads, variants.wire
    for g in range(ops.size):
        for i in range(cell.first[g], cell.first[g] + cell.copies[g]):
            for k in range(4):
                masks[i, k] = cell.table[ops[g], k]
            reads[i, 0], reads[i, 1] = cell.reads[ops[g], 0], cell.reads[ops[g], 1]
            wire[i] = ops[g] if ops[g] == PASS_A or ops[g] == PASS_B else -1
    for j in range(flips.shape[0]):
        mine = ONE << np.uint64(j)
        for f in range(flips.shape[1]):
            g, op = flips[j, f, 0], flips[j, f, 1]
            if g >= 0:
                for i in range(cell.first[g], cell.first[g] + cell.copies[g]):
                    for k in range(4):
                        masks[i, k] = (masks[i, k] & ~mine) | (cell.table[op, k] & mine)
                    reads[i, 0] |= cell.reads[op, 0]
                    reads[i, 1] |= cell.reads[op, 1]
                    wire[i] = -1


@kernel
def reach(needed: Array, live: Array, reads: Array, cell: Cell, visible: int) -> None:
    """needed (n + m,), live (C,): what can ever influence the visible channels, a closure over time."""
    n, m = cell.inputs.shape[0], cell.a.size
    live[:], needed[:] = False, False
    live[:visible] = True
    grows = True
    while grows:
        grows = False
        for c in range(live.size):
            if live[c]:
                needed[cell.outputs[c]] = True
        for i in range(m - 1, -1, -1):
            if needed[n + i]:
                if reads[i, 0]:
                    needed[cell.a[i]] = True
                if reads[i, 1]:
                    needed[cell.b[i]] = True
        for i in range(n):
            c = cell.inputs[i, 1]
            if needed[i] and not live[c]:
                live[c] = grows = True


@kernel
def lay_out(placement: Placement, needed: Array, variants: Variants, cell: Cell, planes: Planes, values: int) -> int:
    """Fill in the placement, gates from the place `values` on: how many gates are run. A wire is its source."""
    gates, places, moves = placement.gates, placement.places, placement.moves
    reads, wire = variants.reads, variants.wire
    n, count = cell.inputs.shape[0], 0
    for i in range(n):
        position = cell.inputs[i, 0]
        places[i] = cell.inputs[i, 1] * planes.plane + (position // 3) * planes.stride + position % 3
        moves[i] = 1
    for i in range(cell.a.size):
        if not needed[n + i]:
            continue
        a, b = cell.a[i], cell.b[i]
        if wire[i] >= 0:
            source = a if wire[i] == PASS_A else b
            places[n + i], moves[n + i] = places[source], moves[source]
            continue
        places[n + i], moves[n + i] = values + count * PASS, 0
        gates[count, 0], gates[count, 1] = (places[a], moves[a]) if reads[i, 0] else (values, 0)
        gates[count, 2], gates[count, 3] = (places[b], moves[b]) if reads[i, 1] else (values, 0)
        gates[count, 4], gates[count, 5] = places[n + i], i
        count += 1
    return count


@kernel
def surround(plane: Array, height: int, width: int, periodic: bool) -> None:
    """What lies around the grid: zeros, or its other side."""
    stride = width + 2
    for y in range(1, height + 1):
        row = plane[y * stride : (y + 1) * stride]
        row[0], row[width + 1] = (row[width], row[1]) if periodic else (NOTHING, NOTHING)
    for x in range(stride):
        plane[x] = plane[height * stride + x] if periodic else NOTHING
        plane[(height + 1) * stride + x] = plane[stride + x] if periodic else NOTHING


@kernel
def count_wrong(counter: Array, plane: Array, wanted: Array) -> None:
    """Add the cells where a plane (with its surroundings) is not what is wanted (H, W)."""
    height, width = wanted.shape
    for y in range(height):
        for x in range(width):
            word = plane[(y + 1) * (width + 2) + x + 1]
            carry = ~word if wanted[y, x] else word
            i = 0
            while carry:
                counter[i], carry = counter[i] ^ carry, counter[i] & carry
                i += 1


@kernel
def fewest(counts: Array, counter: Array) -> Any:
    """counts (variants,) out of the counter; the smallest."""
    least = np.int64(1) << BITS
    for j in range(counts.size):
        counts[j] = 0
        for i in range(BITS):
            counts[j] |= np.int64((counter[i] >> np.uint64(j)) & ONE) << i
        least = min(least, counts[j])
    return least


@kernel
def begin(planes: Array, start: Array, live: Array, periodic: bool) -> None:
    """planes (C, plane) = a start (C, H, W), the same for all variants."""
    channels, height, width = start.shape
    for c in range(channels):
        if live[c]:
            for y in range(height):
                for x in range(width):
                    planes[c, (y + 1) * (width + 2) + x + 1] = ALL if start[c, y, x] else NOTHING
            surround(planes[c], height, width, periodic)


@kernel
def act(planes: Array, before: Array, live: Array, fire: Array, width: int) -> None:
    """What cells do that do not take their new state: fire (H·W,)."""
    for c in range(live.size):
        if live[c]:
            for i in range(fire.size):
                if fire[i] != TAKES:
                    place = (i // width + 1) * (width + 2) + i % width + 1
                    planes[c, place] = before[c, place] if fire[i] == KEEPS else NOTHING


@kernel
def run_step(
    memory: Array, now: int, then: int, placement: Placement, masks: Array, live: Array, outputs: Array, shape: Planes
) -> None:
    """One CA step of all cells, from the planes at `now` to those at `then`."""
    gates, places, moves = placement.gates, placement.places, placement.moves
    for start in range(0, shape.cells, PASS):
        some = min(PASS, shape.cells - start)
        whole = (some + SUMS - 1) // SUMS * SUMS
        here = now + start
        for g in range(gates.shape[0]):
            a, b = gates[g, 0] + gates[g, 1] * here, gates[g, 2] + gates[g, 3] * here
            packed_gate(memory, a, b, gates[g, 4], masks, gates[g, 5], whole)
        for c in range(live.size):
            if live[c]:
                place = places[outputs[c]] + moves[outputs[c]] * here
                out = then + c * shape.plane + shape.first + start
                copy(memory[out : out + some], memory[place : place + some])


@routine
def judge(counts: Array, memory: Array, ops: Array, flips: Array, cell: Cell, trials: Trials, limit: int) -> None:
    """counts (variants,) = wrong cells of each; once all of them have more than `limit`, what they had so far."""
    samples, channels, height, width = trials.starts.shape
    m, n = cell.a.size, cell.inputs.shape[0]
    shape = planes_of(height, width)
    variants = Variants(np.empty((m, 4), np.uint64), np.empty((m, 2), np.bool_), np.empty(m, np.int64))
    vary(variants, ops, flips, cell)
    needed, live = np.empty(n + m, np.bool_), np.empty(channels, np.bool_)
    reach(needed, live, variants.reads, cell, trials.targets.shape[1])
    half = channels * shape.plane
    room = Placement(np.empty((m, 6), np.int64), np.empty(n + m, np.int64), np.empty(n + m, np.int64))
    active = lay_out(room, needed, variants, cell, shape, 2 * half)
    placement = Placement(room.gates[:active], room.places, room.moves)
    counter = np.zeros(BITS, np.uint64)
    for sample in range(samples):
        now, then = 0, half
        begin(memory[:half].reshape(channels, shape.plane), trials.starts[sample], live, trials.periodic)
        for t in range(trials.judged.size):
            run_step(memory, now, then, placement, variants.masks, live, cell.outputs, shape)
            planes = memory[then : then + half].reshape(channels, shape.plane)
            before = memory[now : now + half].reshape(channels, shape.plane)
            if trials.fire.shape[0]:
                act(planes, before, live, trials.fire[sample % trials.fire.shape[0], t], width)
            for c in range(channels):
                if live[c]:
                    surround(planes[c], height, width, trials.periodic)
            if trials.judged[t]:
                for c in range(trials.targets.shape[1]):
                    count_wrong(counter, planes[c], trials.targets[sample, c])
            now, then = then, now
        if fewest(counts, counter) > limit:
            break


@kernel
def judge_worker(
    worker: int, tickets: Array, counts: Array, memory: Array, candidates: Candidates, cell: Cell, trials: Trials,
    limit: int,
) -> None:  # fmt: skip
    """counts (n,) of all variants, 64 a ticket."""
    flips = candidates.flips
    while True:
        start = claim(tickets) * VARIANTS
        if start >= flips.shape[0]:
            break
        end = min(start + VARIANTS, flips.shape[0])
        judge(counts[start:end], memory[worker], candidates.ops, flips[start:end], cell, trials, limit)


@kernel
def each_start_worker(
    worker: int, tickets: Array, counts: Array, memory: Array, ops: Array, cell: Cell, trials: Trials
) -> None:
    """counts (B,): wrong cells of the circuit `ops` from every start, one a ticket."""
    none = np.empty((1, 0, 2), np.int64)
    while True:
        i = claim(tickets)
        if i >= counts.size:
            break
        masks = trials.fire.shape[0]
        fire = trials.fire[i % masks : i % masks + 1] if masks else trials.fire
        alone = Trials(trials.starts[i : i + 1], trials.targets[i : i + 1], fire, trials.judged, trials.periodic)
        judge(counts[i : i + 1], memory[worker], ops, none, cell, alone, 0)
