"""Hard simulation with 64 cells in a machine word: one instruction runs a gate for 64 cells, or for 512 in a vector.

Here a circuit is placed in memory, grids are packed and cut into bands, and steps are run; shapes and kernels are in
packed_kernels.py.
"""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter
from typing import NamedTuple, overload

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.cpu.sync import Levels
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families.logic_ca.circuits.circuit import (
    DROPPED,
    PASS_A,
    PASS_B,
    READS_A,
    READS_B,
    Circuit,
    kept_channels,
)
from samebits.families.logic_ca.config import POSITIONS
from samebits.families.logic_ca.gates import MATRIX
from samebits.families.logic_ca.program import Shelf
from samebits.families.logic_ca.simulation.packed_kernels import NOTHING, PASS, WORD, Board, Placement, packed_worker
from samebits.training.units import near_equal

BAND_WORDS = 512  # in a band, unless one row has more
UNREAD = -1  # stands for the input that a gate ignores
MASKS = np.where(MATRIX.T % 2 == 1, ~NOTHING, NOTHING)  # (16, 4): m₀ … m₃ of every operation


def place_circuit(circuit: Circuit, words: int, rows: int) -> Placement:
    """The gates that an output depends on, placed for bands of at most `rows` rows of `words` words."""
    n, ops = len(circuit.inputs), circuit.ops.tolist()
    pairs = np.stack([circuit.a, circuit.b], axis=1).tolist()
    through = list(range(n + len(pairs)))  # a gate that only passes its input on is that input
    for g, op in enumerate(ops):
        if op in (PASS_A, PASS_B):
            through[n + g] = through[pairs[g][op == PASS_B]]
    targets = {c: through[circuit.outputs[c]] for c in kept_channels(circuit)}

    # From the outputs back: which gates are needed, and which of them is the last to read each value.
    last_use = dict.fromkeys(targets.values(), len(pairs))
    reads: dict[int, list[int]] = {}  # two nodes a gate, or UNREAD
    for g in range(len(pairs) - 1, -1, -1):
        if n + g in last_use:
            used = READS_A[ops[g]], READS_B[ops[g]]
            reads[g] = [through[node] if matters else UNREAD for node, matters in zip(pairs[g], used, strict=True)]
            for node in reads[g]:
                last_use.setdefault(node, g)
    order = sorted(reads)

    seen = [(node, *divmod(int(p), 3), int(c)) for node, (p, c) in enumerate(circuit.inputs) if node in last_use]
    shifted = sorted({(c, x - 1) for _, _, x, c in seen})
    numbers = {plane: k for k, plane in enumerate(shifted)}
    stride = (rows + 2) * words
    places = {node: (numbers[c, x - 1] * stride + y * words, 1) for node, y, x, c in seen}
    places[UNREAD] = (0, 0)  # any words will do
    values = -(-(len(shifted) * stride + PASS) // 8) * 8  # the last pass reads past its rows; on a cache line
    shelf = Shelf(0)
    gates = np.zeros((len(order), 5), np.int64)
    for index, g in enumerate(order):
        a, b = reads[g]
        dead = [node for node in sorted({a, b}) if node >= n and last_use[node] == g]
        shelf.free += [(places[node][0] - values) // PASS for node in dead]
        places[n + g] = (values + shelf.take() * PASS, 0)
        gates[index] = *places[a], *places[b], places[n + g][0]
    return Placement(
        shifted=np.array(shifted, np.int64).reshape(-1, 2),
        gates=gates,
        masks=MASKS[circuit.ops[order]] if order else np.empty((0, 4), np.uint64),
        stores=np.array([(c, *places[node]) for c, node in targets.items()], np.int64).reshape(-1, 3),
        stride=stride,
        size=values + shelf.end * PASS,
    )


def pack(cells: Array) -> Array:
    """(..., W) of 0 and 1 → (..., ⌈W / 64⌉) words."""
    width = cells.shape[-1]
    raw = np.zeros((*cells.shape[:-1], -(-width // WORD) * 8), np.uint8)
    raw[..., : -(-width // 8)] = np.packbits(cells, axis=-1, bitorder="little")
    return raw.view("<u8").astype(np.uint64, copy=False)


def unpack(words: Array, width: int) -> Array:
    """The reverse, as uint8."""
    raw = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return np.unpackbits(raw, axis=-1, count=width, bitorder="little")


class Setup(NamedTuple):
    """Packed grids, the circuit they run and what happens at each step: all that a worker needs but the scratch."""

    placement: Placement
    board: Board
    planes: Array
    dropped: Array  # (C,) bool: channels without a next state


def set_up(circuit: Circuit, grids: Array, periodic: bool, fire: Array, damage: Array) -> Setup:
    """Checked arrays in: fire (T, H, W) and damage (T, 4), where T = 0 stands for none."""
    B, H, W, C = grids.shape
    words = -(-W // WORD)
    planes = np.zeros((2, B, C, H + 2, words), np.uint64)
    first = planes[0]
    first[:, :, 1:-1] = pack(np.moveaxis(grids, 3, 1))
    if periodic:
        first[:, :, 0], first[:, :, -1] = first[:, :, -2], first[:, :, 1]
    bands = near_equal(H, -(-H // max(1, BAND_WORDS // words))).astype(np.int64)
    x, left, right = np.arange(W), damage[:, 1, None], damage[:, 1, None] + damage[:, 3, None]
    fires, keep = pack(fire).reshape(len(fire), H * words), pack((x < left) | (x >= right))
    return Setup(
        place_circuit(circuit, words, int(np.diff(bands).max())),
        Board(bands, words, W, periodic, fires, damage, keep),
        planes.reshape(2, B, C, -1),
        circuit.outputs == DROPPED,
    )


def advance(setup: Setup, first_step: int, steps: int, workers: Workers) -> None:
    """Run `steps` steps: the grids of step first_step become those of first_step + steps."""
    bands, samples = len(setup.board.bands) - 1, setup.planes.shape[1]
    tasks = Levels(workers.counters(samples * bands), workers.counters(samples), workers.schedule)
    workers.run(
        packed_worker, tasks, setup.planes,
        workers.scratch("logic_ca.packed").per_worker("words", setup.placement.size, np.uint64), setup.placement,
        setup.board, first_step, steps,
    )  # fmt: skip


def grids_at(setup: Setup, step: int, channels: int) -> Array:
    """The first channels, when the last step run was the one before `step`, (B, H, W, channels) uint8."""
    planes = setup.planes[step % 2, :, :channels].copy()
    if step:
        planes[:, setup.dropped[:channels]] = 0  # nobody writes them
    rows = planes.reshape(*planes.shape[:2], -1, setup.board.words)[:, :, 1:-1]
    return np.ascontiguousarray(np.moveaxis(unpack(rows, setup.board.width), 1, 3))


@overload
def simulate(
    circuit: Circuit, grids: Array, steps: int, periodic: bool, workers: Workers,
    fire: Array | None = None, damage: Array | None = None, *, every: None = None, visible: int = 1,
) -> Array: ...  # fmt: skip


@overload
def simulate(
    circuit: Circuit, grids: Array, steps: int, periodic: bool, workers: Workers,
    fire: Array | None = None, damage: Array | None = None, *, every: int, visible: int = 1,
) -> tuple[Array, Array]: ...  # fmt: skip


def simulate(
    circuit: Circuit, grids: Array, steps: int, periodic: bool, workers: Workers,
    fire: Array | None = None, damage: Array | None = None, *, every: int | None = None, visible: int = 1,
) -> Array | tuple[Array, Array]:  # fmt: skip
    """The grids (B, H, W, C) of 0 and 1 after `steps` steps of a hard circuit, as uint8, bit for bit as the model's.

    fire (steps, H, W): a cell takes its new state where true and keeps all its channels elsewhere, in every sample.
    damage (steps, 4): y, x, height, width of a rectangle zeroed in all channels after that step; what lies outside the
    grid is cut off. With `every`, also the first `visible` channels at steps 0, every, 2·every …:
    (frames, B, H, W, visible). Channels that the circuit dropped are 0 from step 1 on.
    """
    found = _check_grids(circuit, grids)
    H, W, C = found.shape[1:]
    if steps < 0:
        raise SamebitsError(f"steps is {steps}; it must be at least 0")
    if every is not None and every < 1:
        raise SamebitsError(f"every is {every}; it must be at least 1, or None for no frames")
    if not 1 <= visible <= C:
        raise SamebitsError(f"visible is {visible}; it must be from 1 to the number of channels, {C}")
    _check_circuit(circuit)
    fires = np.empty((0, H, W), bool) if fire is None else np.asarray(fire, bool)
    hurts = np.empty((0, 4), np.int64) if damage is None else np.ascontiguousarray(damage, np.int64)
    if fire is not None and fires.shape != (steps, H, W):
        raise SamebitsError(f"fire has shape {fires.shape}; it must be (steps, H, W) = {(steps, H, W)}")
    if damage is not None and (hurts.shape != (steps, 4) or (hurts < 0).any()):
        raise SamebitsError(
            f"damage has shape {hurts.shape}; it must be (steps, 4) = {(steps, 4)}, each row y, x, height, width, "
            "none of them negative; a height of 0 stands for no damage"
        )

    setup = set_up(circuit, found, periodic, fires, hurts)
    missing = np.flatnonzero(setup.dropped[setup.placement.shifted[:, 0]])
    if steps > 1 and len(missing):
        raise SamebitsError(
            f"the circuit reads channel {setup.placement.shifted[missing[0], 0]} but does not compute it; it can make "
            f"1 step, not {steps}; prune it to its live channels"
        )
    # All at once: what does not fit into memory is then known before hours go by.
    frames = np.empty((1 + steps // every if every else 0, *found.shape[:3], visible), np.uint8)
    frames[:1] = grids_at(setup, 0, visible)
    stops = [*range(0, steps, every or max(1, steps)), steps]
    for start, stop in pairwise(stops):
        advance(setup, start, stop - start, workers)
        if every is not None and stop % every == 0:
            frames[stop // every] = grids_at(setup, stop, visible)
    final = grids_at(setup, steps, C)
    return final if every is None else (final, frames)


def throughput(circuit: Circuit, side: int, steps: int, workers: Workers) -> float:
    """Cell updates per second on a torus of side × side random cells: the steps alone, not packing and unpacking."""
    if side < 1 or steps < 1:
        raise SamebitsError(f"side is {side} and steps is {steps}; both must be at least 1")
    _check_circuit(circuit)
    C = len(circuit.outputs)
    grids = np.random.default_rng(0).integers(0, 2, (1, side, side, C), np.uint8)
    setup = set_up(circuit, grids, True, np.empty((0, side, side), bool), np.empty((0, 4), np.int64))
    advance(setup, 0, 2, workers)  # compiles, and touches both halves of the planes
    begin = perf_counter()
    advance(setup, 0, steps, workers)
    return side * side * steps / (perf_counter() - begin)


def are_bits(cells: Array) -> bool:
    return bool(cells.dtype.kind == "b" or ((cells == 0) | (cells == 1)).all())


def _check_grids(circuit: Circuit, grids: Array) -> Array:
    found, channels = np.asarray(grids), len(circuit.outputs)
    if found.ndim != 4 or found.shape[3] != channels or 0 in found.shape:
        raise SamebitsError(
            f"grids have shape {found.shape}; they must be (B, H, W, C) with C = {channels}, the circuit's channels"
        )
    if not are_bits(found):
        raise SamebitsError("grids hold values that are neither 0 nor 1; a packed cell is one bit; round them first")
    return found.astype(np.uint8)


def _check_circuit(circuit: Circuit) -> None:
    """The kernels trust what they are given, so a wrong number must not come so far."""
    n, m, C = len(circuit.inputs), len(circuit.ops), len(circuit.outputs)
    position, channel = circuit.inputs.T if n else np.empty((2, 0), np.int64)
    if (position < 0).any() or (position >= POSITIONS).any() or (channel < 0).any() or (channel >= C).any():
        raise SamebitsError(f"the circuit has inputs outside 9 positions and {C} channels; give it those of this model")
    before = n + np.arange(m)
    for nodes, reads in ((circuit.a, READS_A), (circuit.b, READS_B)):
        wrong = np.array(reads, bool)[circuit.ops] & ((nodes < 0) | (nodes >= before))
        if wrong.any():
            g = int(np.argmax(wrong))
            raise SamebitsError(
                f"gate {g} of the circuit reads node {nodes[g]}; it may read only nodes 0 to {n + g - 1}"
            )
    if ((circuit.outputs < DROPPED) | (circuit.outputs >= n + m)).any():
        raise SamebitsError(f"the circuit's outputs are {circuit.outputs}; they must be nodes, below {n + m}")
