"""The compiled part of packed.py: bands of rows, 64 cells in a word.

Shapes: B samples of H×W cells, C channels, T steps. A row of cells is V = ⌈W / 64⌉ words: cell x is bit x mod 64 of
word x // 64, and the bits past the last cell are 0.
  planes   (2, B, C, (H + 2)·V)  the grids; step t lives at t mod 2; a row above and one below, wrapped around or 0
  fire     (T, H·V)              the cells that take their new state; T = 0: all do
  damage   (T, 4)                y, x, height, width of what is zeroed after each step; T = 0: nothing is
  keep     (T, V)                the columns outside that rectangle
  scratch                        a worker's own: shifted planes of its band, then the values of the gates

A task is a *band*, some rows of one sample, for one step. It copies its rows, one above and one below, moved by a cell
to the west or the east where a gate looks there; a neighbour to the north or south is then found V words further back
or on. So no gate sees an edge, and a row of 65 cells is no different from one of 64.

A gate is c₀ + c₁a + c₂b + c₃ab (gates.py), modulo 2 m₀ ^ (m₁ & a) ^ (m₂ & b) ^ (m₃ & a & b): four masks, no branch.
The list of gates is walked once for every PASS words; a value's place is free again when nobody reads it any more, so
that the values stay in the L1 cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.simd import SUMS
from samebits.compiler.jit import kernel
from samebits.devices.cpu.sync import FORWARD, WAITING, Levels, finish, take, ticks, unit_at, wait_for

WORD = 64  # cells
VECTOR = 8  # words of a vector instruction
PASS = 128  # words in a pass over the gates, whole blocks (gate_kernels.py): 1 KB a value
ONE, TOP, NOTHING = np.uint64(1), np.uint64(WORD - 1), np.uint64(0)


class Placement(NamedTuple):
    """A circuit placed in scratch memory. Offsets are in words; `moves` is 1 where they move along with the pass."""

    shifted: Array  # (k, 2) int64: channel and dx of the planes a band prepares
    gates: Array  # (m, 5) int64: offset of a, moves, offset of b, moves, offset of the result
    masks: Array  # (m, 4) uint64
    stores: Array  # (n, 3) int64: channel, offset of its next state, moves
    stride: int  # words of a shifted plane
    size: int  # words of scratch


class Board(NamedTuple):
    """The grids around the cells: how they are cut, and what happens to them at each step."""

    bands: Array  # (n + 1,) first row of each band of a sample
    words: int  # a row
    width: int
    periodic: bool
    fire: Array
    damage: Array
    keep: Array  # (T, words) 0 where damage strikes


if numba.config.DISABLE_JIT:  # the same in NumPy, so that coverage can see the kernels

    def packed_gate(scratch: Any, a: int, b: int, out: int, masks: Any, number: int, width: int) -> None:
        x, y, m = scratch[a : a + width], scratch[b : b + width], masks[number]
        scratch[out : out + width] = m[0] ^ (m[1] & x) ^ (y & (m[2] ^ (m[3] & x)))

else:
    from samebits.arithmetic.simd import Emitter
    from samebits.families.logic_ca.gate_kernels import coefficients, each_vector

    @intrinsic
    def packed_gate(typing: Any, scratch: Any, a: Any, b: Any, out: Any, masks: Any, number: Any, width: Any) -> Any:
        """scratch[out : out + width] = the gate with masks[number] on the words at a and b; out may be a or b."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, signature.args[0].dtype, VECTOR)
            base = e.start(signature.args[0], args[0])
            row_a, row_b, row_out = (e.at(base, offset) for offset in args[1:4])
            four = builder.mul(args[5], args[5].type(4))
            m0, m1, m2, m3 = coefficients(e, e.at(e.start(signature.args[4], args[4]), four))

            def body(word: Any, place: int) -> None:
                x, y = e.load(e.at(row_a, word)), e.load(e.at(row_b, word))
                with_b = builder.xor(m2, builder.and_(m3, x))
                without_b = builder.xor(m0, builder.and_(m1, x))
                e.store(builder.xor(without_b, builder.and_(with_b, y)), e.at(row_out, word))

            each_vector(e, args[6], tuple(range(0, SUMS, VECTOR)), body)
            return context.get_dummy_value()

        offset = types.int64
        return types.void(scratch, offset, offset, offset, masks, types.int64, types.int64), codegen


@kernel
def shift_plane(out: Array, rows: Array, dx: int, words: int, width: int, periodic: bool) -> None:
    """Bit x of a row of `out` = bit x + dx of that row; the bits past the last cell may hold anything."""
    last, top = words - 1, np.uint64((width - 1) % WORD)
    wrap = ONE if periodic else NOTHING
    # All rows as one long row, then the ends of each. Views, because an index like i − 1 would not be vectorised.
    before, after = rows[:-1], rows[1:]
    if dx == 0:
        for i in range(rows.size):
            out[i] = rows[i]
    elif dx < 0:
        rest = out[1:]
        if words > 1:
            for i in range(after.size):
                rest[i] = after[i] << ONE | before[i] >> TOP
        for i in range(0, rows.size, words):
            out[i] = rows[i] << ONE | (rows[i + last] >> top & wrap)
    else:
        if words > 1:
            for i in range(before.size):
                out[i] = before[i] >> ONE | after[i] << TOP
        for i in range(0, rows.size, words):
            out[i + last] = rows[i + last] >> ONE | (rows[i] & wrap) << top


@kernel
def run_gates(scratch: Array, gates: Array, masks: Array, start: int, width: int) -> None:
    for g in range(gates.shape[0]):
        a, b = gates[g, 0] + gates[g, 1] * start, gates[g, 2] + gates[g, 3] * start
        packed_gate(scratch, a, b, gates[g, 4], masks, g, width)


@kernel
def copy(out: Array, found: Array) -> None:
    for i in range(out.size):
        out[i] = found[i]


@kernel
def keep_unfired(out: Array, before: Array, fire: Array) -> None:
    for i in range(out.size):
        out[i] = before[i] ^ ((before[i] ^ out[i]) & fire[i])


@kernel
def clear_tail(out: Array, words: int, width: int) -> None:
    """A gate that says 1 says so past the last cell too."""
    mask = (ONE << np.uint64(width % WORD)) - ONE
    for i in range(words - 1, out.size, words):
        out[i] &= mask


@kernel
def zero_rectangle(out: Array, words: int, y: int, damage: Array, keep: Array) -> None:
    """Damage to the rows from y on."""
    for r in range(max(0, damage[0] - y), min(out.size // words, damage[0] + damage[2] - y)):
        row = out[r * words : (r + 1) * words]
        for w in range(words):
            row[w] &= keep[w]


@kernel
def run_band(
    state_out: Array, state: Array, scratch: Array, circuit: Placement, board: Board, y: int, rows: int
) -> None:
    """One step of the rows y … y + rows."""
    words, width, periodic = board.words, board.width, board.periodic
    shifted, stores, stride = circuit.shifted, circuit.stores, circuit.stride
    first, count = (y + 1) * words, rows * words
    for k in range(shifted.shape[0]):
        around = state[shifted[k, 0], first - words : first + count + words]
        shift_plane(scratch[k * stride : (k + 1) * stride], around, shifted[k, 1], words, width, periodic)
    for start in range(0, count, PASS):
        now = min(PASS, count - start)
        # Whole blocks: past the band's last word a gate works on whatever is there, and nobody stores it.
        run_gates(scratch, circuit.gates, circuit.masks, start, (now + SUMS - 1) // SUMS * SUMS)
        for n in range(stores.shape[0]):
            place = stores[n, 1] + stores[n, 2] * start
            copy(state_out[stores[n, 0], first + start : first + start + now], scratch[place : place + now])


@kernel
def packed_worker(
    worker: int, tasks: Levels, planes: Array, scratch: Array, circuit: Placement, board: Board, first_step: int,
    steps: int,
) -> None:  # fmt: skip
    """Run `steps` steps from first_step on; the bands of a sample are a group."""
    claims, progress, schedule = tasks.claims, tasks.progress, tasks.schedule
    bands, words, width, periodic, stores = board.bands, board.words, board.width, board.periodic, circuit.stores
    per_sample, height, mine = bands.size - 1, bands[-1], scratch[worker]
    units = planes.shape[1] * per_sample
    first = worker * units // schedule.workers
    level = cursor = 0
    while level < steps:
        cursor = take(claims, level, cursor, first)
        if cursor == units:
            level, cursor = level + 1, 0
            continue
        u = unit_at(cursor, first, units)
        sample, band = u // per_sample, u % per_sample
        begin = ticks()
        wait_for(progress, sample, level * per_sample)
        ready = ticks()
        t, y = first_step + level, bands[band]
        rows = bands[band + 1] - y
        state, state_out = planes[t % 2, sample], planes[(t + 1) % 2, sample]
        run_band(state_out, state, mine, circuit, board, y, rows)
        start, end = (y + 1) * words, (y + 1 + rows) * words
        for n in range(stores.shape[0]):
            plane = state_out[stores[n, 0]]
            out = plane[start:end]
            if width % WORD:
                clear_tail(out, words, width)
            if board.fire.shape[0]:
                keep_unfired(out, state[stores[n, 0], start:end], board.fire[t, y * words : (y + rows) * words])
            if board.damage.shape[0]:
                zero_rectangle(out, words, y, board.damage[t], board.keep[t])
            if periodic and y == 0:  # the owner of a border row also writes its copy on the other side
                copy(plane[(height + 1) * words :], out[:words])
            if periodic and y + rows == height:
                copy(plane[:words], out[out.size - words :])
        finish(progress, sample)
        schedule.clock[worker, WAITING] += ready - begin
        schedule.clock[worker, FORWARD] += ticks() - ready
