"""The learned circuit as an object: every gate decided, what is not needed removed.

The number of an operation is its truth table: bit 8 is its value for a = b = 0, 4 for b alone, 2 for a alone, 1 for
both. So inverting an input, or fixing it, or swapping the two, is a permutation of four bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array
from samebits.errors import SamebitsError
from samebits.families.logic_ca.config import POSITIONS, LogicConfig
from samebits.families.logic_ca.wiring import CENTRE

NAMES = (
    "false", "a and b", "a and not b", "a", "b and not a", "b", "a xor b", "a or b",
    "a nor b", "a xnor b", "not b", "b implies a", "not a", "a implies b", "a nand b", "true",
)  # fmt: skip
FALSE, PASS_A, ONLY_B, PASS_B, B_IMPLIES_A, NOT_A, TRUE = 0, 3, 4, 5, 11, 12, 15
COMPASS = ("NW", "N", "NE", "W", "C", "E", "SW", "S", "SE")
DROPPED = -1  # the output of a channel that was not kept

# The sixteen on machine words, one truth value a bit.
OPERATIONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a & ~a,
    lambda a, b: a & b,
    lambda a, b: a & ~b,
    lambda a, b: a,
    lambda a, b: b & ~a,
    lambda a, b: b,
    lambda a, b: a ^ b,
    lambda a, b: a | b,
    lambda a, b: ~(a | b),
    lambda a, b: ~(a ^ b),
    lambda a, b: ~b,
    lambda a, b: a | ~b,
    lambda a, b: ~a,
    lambda a, b: b | ~a,
    lambda a, b: ~(a & b),
    lambda a, b: a | ~a,
)

EXHAUSTIVE_INPUTS = 20  # up to here a comparison tries every pattern
RANDOM_PATTERNS = 1 << 20
CHUNK_WORDS = 256  # 16,384 patterns at a time: a few thousand nodes stay below 100 MB, whatever the circuit


@dataclass(frozen=True)
class Circuit:
    """The hard circuit of one cell. Nodes are numbered: inputs first, then the gates in an order that can be run."""

    inputs: Array  # (n, 2) int32: position in the 3×3 neighbourhood and channel of each input node
    ops: Array  # (m,) uint8: which of the sixteen operations (gates.MATRIX) each gate is
    a: Array  # (m,) int32: node number of input a
    b: Array  # (m,) int32: node number of input b
    outputs: Array  # (C,) int32: node number of each channel's next state


@dataclass(frozen=True)
class GateCounts:
    """Parameter gates by operation: a perceive gate counts once a kernel, though it serves every channel."""

    perceive: Array  # (16,)
    update: Array  # (16,)

    def rows(self) -> list[tuple[str, int, int]]:
        """Name, perceive gates, update gates of each operation."""
        return list(zip(NAMES, self.perceive.tolist(), self.update.tolist(), strict=True))

    @property
    def total(self) -> int:
        return int(self.perceive.sum() + self.update.sum())

    @property
    def active(self) -> int:
        """Gates that are more than a wire: neither pass-through a nor pass-through b."""
        both = self.perceive + self.update
        return self.total - int(both[PASS_A] + both[PASS_B])


@dataclass(frozen=True)
class Proof:
    """What a comparison of two circuits rests on."""

    exhaustive: bool
    inputs: int  # how many input bits the two read between them
    patterns: int  # how many patterns of those were tried

    def __str__(self) -> str:
        if self.exhaustive:
            return f"same outputs on all 2^{self.inputs} inputs, each tried: a proof"
        return f"same outputs on {self.patterns:,} random inputs of 2^{self.inputs}: a test, no proof"


def full_circuit(config: LogicConfig, logits: Array, wires: Mapping[str, Array]) -> Circuit:
    """Every gate as the operation with its largest logit, the first among equals; perceive gates once per channel."""
    C, K = config.channels, config.kernels
    kinds = np.argmax(logits.reshape(-1, 16), axis=1).astype(np.uint8)
    node = POSITIONS * C
    firsts, seconds = [], []
    seen = np.empty((C, config.perceive[-1], K), np.int64)
    for k in range(K):
        below = np.arange(POSITIONS * C).reshape(POSITIONS, C)
        for i, gates in enumerate(config.perceive):
            a, b = wires[f"perceive.{i}.wires"]
            firsts.append(below[a].ravel())
            seconds.append(below[b].ravel())
            below = node + np.arange(gates * C).reshape(gates, C)
            node += gates * C
        seen[:, :, k] = below.T
    line = np.concatenate([CENTRE * C + np.arange(C), seen.ravel()])
    for i, gates in enumerate(config.update):
        a, b = wires[f"update.{i}.wires"]
        firsts.append(line[a])
        seconds.append(line[b])
        line = node + np.arange(gates)
        node += gates
    position, channel = np.divmod(np.arange(POSITIONS * C), C)
    a, b = np.concatenate(firsts), np.concatenate(seconds)
    return make_circuit(np.column_stack([position, channel]), kinds[gate_numbers(config)], a, b, line)


def gate_numbers(config: LogicConfig) -> Array:
    """(m,) which gate of the parameters each of full_circuit's is: a perceive gate once per channel, side by side."""
    starts = np.cumsum([0, *(config.kernels * gates for gates in config.perceive)])
    kernels = [
        np.repeat(starts[i] + k * gates + np.arange(gates), config.channels)
        for k in range(config.kernels)
        for i, gates in enumerate(config.perceive)
    ]
    return np.concatenate([*kernels, starts[-1] + np.arange(sum(config.update))])


def make_circuit(inputs: Any, ops: Any, a: Any, b: Any, outputs: Any) -> Circuit:
    return Circuit(
        np.asarray(inputs, np.int32).reshape(-1, 2), np.asarray(ops, np.uint8), np.asarray(a, np.int32),
        np.asarray(b, np.int32), np.asarray(outputs, np.int32),
    )  # fmt: skip


def counts(config: LogicConfig, logits: Array) -> GateCounts:
    """How many gates of the parameters became which operation."""
    kinds = np.argmax(logits.reshape(-1, 16), axis=1)
    first_update = config.kernels * sum(config.perceive)
    by_kind = [np.bincount(part, minlength=16) for part in (kinds[:first_update], kinds[first_update:])]
    return GateCounts(*by_kind)


def invert_a(op: int) -> int:
    return (op & 3) << 2 | op >> 2


def invert_b(op: int) -> int:
    return (op & 5) << 1 | (op & 10) >> 1


def swap(op: int) -> int:
    return op & 9 | (op & 2) << 1 | (op & 4) >> 1


def ordered(op: int, a: int, b: int) -> tuple[int, int, int]:
    """One way to write a gate: symmetric operations read the lower node first, the others are one of two kinds."""
    turned = op in (ONLY_B, B_IMPLIES_A) or (swap(op) == op and a > b)
    return (swap(op), b, a) if turned else (op, a, b)


READS_A = tuple(invert_a(op) != op for op in range(16))
READS_B = tuple(invert_b(op) != op for op in range(16))


def kept_channels(circuit: Circuit) -> tuple[int, ...]:
    """The channels whose next state the circuit still computes."""
    return tuple(int(channel) for channel in np.flatnonzero(circuit.outputs != DROPPED))


def cone(circuit: Circuit, channels: Iterable[int]) -> Array:
    """Which nodes these channels' next state depends on, (n + m,) bool: a pass-through reads one input, not two."""
    n = len(circuit.inputs)
    reached = np.zeros(n + len(circuit.ops), bool)
    reached[[output_node(circuit, channel) for channel in channels]] = True
    for gate in range(len(circuit.ops) - 1, -1, -1):
        if reached[n + gate]:
            op = circuit.ops[gate]
            if READS_A[op]:
                reached[circuit.a[gate]] = True
            if READS_B[op]:
                reached[circuit.b[gate]] = True
    return reached


def output_node(circuit: Circuit, channel: int) -> int:
    if not 0 <= channel < len(circuit.outputs) or circuit.outputs[channel] == DROPPED:
        kept = ", ".join(map(str, kept_channels(circuit)))
        raise SamebitsError(f"channel is {channel}; the circuit computes channels {kept}; choose among them")
    return int(circuit.outputs[channel])


def depth_of(circuit: Circuit) -> int:
    """Gates on the longest way from an input to an output."""
    levels = [0] * len(circuit.inputs)
    for op, a, b in zip(circuit.ops.tolist(), circuit.a.tolist(), circuit.b.tolist(), strict=True):
        below = [levels[node] for node, reads in ((a, READS_A[op]), (b, READS_B[op])) if reads]
        levels.append(1 + max(below) if below else 0)
    return max((levels[node] for node in circuit.outputs.tolist() if node >= 0), default=0)


def live_channels(circuit: Circuit, visible: Sequence[int] = (0,)) -> tuple[int, ...]:
    """The channels that can ever influence the visible ones, those included: a closure over time."""
    live: set[int] = set()
    new = set(visible)
    while new:
        live |= new
        reached = cone(circuit, new)[: len(circuit.inputs)]
        new = {int(channel) for channel in circuit.inputs[reached, 1]} - live
    return tuple(sorted(live))


def evaluate(circuit: Circuit, inputs: Array, needed: Array) -> Array:
    """inputs (n, W) uint64, 64 cells a word → the next state (C, W), by the needed nodes; channels not kept are 0."""
    n = len(inputs)
    values = np.empty((n + len(circuit.ops), inputs.shape[1]), np.uint64)
    values[:n] = inputs
    for gate in np.flatnonzero(needed[n:]):
        values[n + gate] = OPERATIONS[circuit.ops[gate]](values[circuit.a[gate]], values[circuit.b[gate]])
    out = np.zeros((len(circuit.outputs), inputs.shape[1]), np.uint64)
    kept = circuit.outputs != DROPPED
    out[kept] = values[circuit.outputs[kept]]
    return out


def input_table(i: int, n: int) -> int:
    """Bit p is bit i of p."""
    table = ((1 << (1 << i)) - 1) << (1 << i)
    for size in range(i + 1, n):
        table |= table << (1 << size)
    return table


def equivalent(before: Circuit, after: Circuit, patterns: int = RANDOM_PATTERNS, seed: int = 0) -> Proof:
    """Hold `after` to `before`: every output that `after` kept, on all patterns of the inputs they read, or on many.

    Up to 20 input bits every pattern is tried, which proves it; beyond, at least `patterns` random ones.
    """
    if len(before.outputs) != len(after.outputs):
        raise SamebitsError(
            f"the circuits have {len(before.outputs)} and {len(after.outputs)} channels; they must agree"
        )
    kept = list(kept_channels(after))
    cones = [cone(circuit, kept) for circuit in (before, after)]
    bits = sorted({
        (int(channel), int(position))
        for circuit, reached in zip((before, after), cones, strict=True)
        for position, channel in circuit.inputs[reached[: len(circuit.inputs)]]
    })  # fmt: skip
    exhaustive = len(bits) <= EXHAUSTIVE_INPUTS
    total = -(-(1 << len(bits) if exhaustive else patterns) // 64)
    for chunk, start in enumerate(range(0, total, CHUNK_WORDS)):
        if exhaustive:
            words = _counting_words(len(bits), start, min(total, start + CHUNK_WORDS))
        else:
            shape = len(bits), CHUNK_WORDS
            words = rng.words(shape, seed, rng.Purpose.EVALUATION, step=chunk, extra=1)
        found = [
            evaluate(circuit, _rows(circuit, bits, words), reached)[kept]
            for circuit, reached in zip((before, after), cones, strict=True)
        ]
        wrong = found[0] ^ found[1]
        if wrong.any():
            raise _difference(kept, bits, words, wrong)
    chunks = -(-total // CHUNK_WORDS)
    return Proof(exhaustive, len(bits), 1 << len(bits) if exhaustive else 64 * CHUNK_WORDS * chunks)


def _counting_words(bits: int, start: int, stop: int) -> Array:
    """(bits, stop − start): pattern p of the words counted from 0 has bit i of p at input i."""
    words = np.empty((bits, stop - start), np.uint64)
    index = np.arange(start, stop)
    for i in range(bits):
        within = input_table(i, 6) if i < 6 else 0
        words[i] = within if i < 6 else np.where(index >> (i - 6) & 1, np.uint64(2**64 - 1), np.uint64(0))
    return words


def _rows(circuit: Circuit, bits: Sequence[tuple[int, int]], words: Array) -> Array:
    """The words of each of the circuit's inputs; one that neither circuit reads is 0."""
    place = {bit: i for i, bit in enumerate(bits)}
    rows = np.zeros((len(circuit.inputs), words.shape[1]), np.uint64)
    for row, (position, channel) in enumerate(circuit.inputs.tolist()):
        if (channel, position) in place:
            rows[row] = words[place[channel, position]]
    return rows


def _difference(kept: Sequence[int], bits: Sequence[tuple[int, int]], words: Array, wrong: Array) -> SamebitsError:
    output, word = (int(i) for i in np.argwhere(wrong)[0])
    bit = np.uint64((int(wrong[output, word]) & -int(wrong[output, word])).bit_length() - 1)
    ones = [
        f"c{channel} {COMPASS[position]}" for i, (channel, position) in enumerate(bits) if words[i, word] >> bit & 1
    ]
    pattern = f"{', '.join(ones)} = 1 and the rest 0" if ones else "all inputs 0"
    return SamebitsError(
        f"channel {kept[output]} differs for {pattern}; a circuit and its pruned form must agree on every output; "
        "please report this run as a bug"
    )
