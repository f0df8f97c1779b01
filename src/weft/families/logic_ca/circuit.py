"""The learned circuit as an object: every gate decided, what is not needed removed.

The number of an operation is its truth table: bit 8 is its value for a = b = 0, 4 for b alone, 2 for a alone, 1 for
both. So inverting an input, or fixing it, or swapping the two, is a permutation of four bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine import rng
from weft.engine.arrays import Array
from weft.errors import WeftError
from weft.families.logic_ca.config import POSITIONS, LogicConfig
from weft.families.logic_ca.wiring import CENTRE

if TYPE_CHECKING:
    from weft.families.logic_ca.model import LogicModel

NAMES = (
    "false", "a and b", "a and not b", "a", "b and not a", "b", "a xor b", "a or b",
    "a nor b", "a xnor b", "not b", "b implies a", "not a", "a implies b", "a nand b", "true",
)  # fmt: skip
FALSE, AND, ONLY_A, PASS_A, ONLY_B, PASS_B, B_IMPLIES_A, NOT_A, TRUE = 0, 1, 2, 3, 4, 5, 11, 12, 15
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
TABLE_INPUTS = 16  # up to here pruning knows every node's whole truth table


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
            return f"same outputs on all 2^{self.inputs} inputs"
        return f"same outputs on {self.patterns:,} random inputs of 2^{self.inputs}"


def full_circuit(config: LogicConfig, logits: Array, wires: Mapping[str, Array]) -> Circuit:
    """Every gate as the operation with its largest logit, the first among equals; perceive gates once per channel."""
    C, K = config.channels, config.kernels
    kinds = np.argmax(logits.reshape(-1, 16), axis=1).astype(np.uint8)
    starts = np.cumsum([0, *(K * gates for gates in config.perceive)])
    node = POSITIONS * C
    ops, firsts, seconds = [], [], []
    seen = np.empty((C, config.perceive[-1], K), np.int64)
    for k in range(K):
        below = np.arange(POSITIONS * C).reshape(POSITIONS, C)
        for i, gates in enumerate(config.perceive):
            a, b = wires[f"perceive.{i}.wires"]
            first = int(starts[i]) + k * gates
            ops.append(np.repeat(kinds[first : first + gates], C))
            firsts.append(below[a].ravel())
            seconds.append(below[b].ravel())
            below = node + np.arange(gates * C).reshape(gates, C)
            node += gates * C
        seen[:, :, k] = below.T
    line = np.concatenate([CENTRE * C + np.arange(C), seen.ravel()])
    first = int(starts[-1])
    for i, gates in enumerate(config.update):
        a, b = wires[f"update.{i}.wires"]
        ops.append(kinds[first : first + gates])
        firsts.append(line[a])
        seconds.append(line[b])
        line = node + np.arange(gates)
        node, first = node + gates, first + gates
    position, channel = np.divmod(np.arange(POSITIONS * C), C)
    a, b = np.concatenate(firsts), np.concatenate(seconds)
    return _circuit(np.column_stack([position, channel]), np.concatenate(ops), a, b, line)


def _circuit(inputs: Any, ops: Any, a: Any, b: Any, outputs: Any) -> Circuit:
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


def _invert_a(op: int) -> int:
    return (op & 3) << 2 | op >> 2


def _invert_b(op: int) -> int:
    return (op & 5) << 1 | (op & 10) >> 1


def _swap(op: int) -> int:
    return op & 9 | (op & 2) << 1 | (op & 4) >> 1


def _ordered(op: int, a: int, b: int) -> tuple[int, int, int]:
    """One way to write a gate: symmetric operations read the lower node first, the others are one of two kinds."""
    turned = op in (ONLY_B, B_IMPLIES_A) or (_swap(op) == op and a > b)
    return (_swap(op), b, a) if turned else (op, a, b)


READS_A = tuple(_invert_a(op) != op for op in range(16))
READS_B = tuple(_invert_b(op) != op for op in range(16))


def kept_channels(circuit: Circuit) -> tuple[int, ...]:
    """The channels whose next state the circuit still computes."""
    return tuple(int(channel) for channel in np.flatnonzero(circuit.outputs != DROPPED))


def cone(circuit: Circuit, channels: Iterable[int]) -> Array:
    """Which nodes these channels' next state depends on, (n + m,) bool: a pass-through reads one input, not two."""
    n = len(circuit.inputs)
    reached = np.zeros(n + len(circuit.ops), bool)
    reached[[_output(circuit, channel) for channel in channels]] = True
    for gate in range(len(circuit.ops) - 1, -1, -1):
        if reached[n + gate]:
            op = circuit.ops[gate]
            if READS_A[op]:
                reached[circuit.a[gate]] = True
            if READS_B[op]:
                reached[circuit.b[gate]] = True
    return reached


def _output(circuit: Circuit, channel: int) -> int:
    if not 0 <= channel < len(circuit.outputs) or circuit.outputs[channel] == DROPPED:
        kept = ", ".join(map(str, kept_channels(circuit)))
        raise WeftError(f"channel is {channel}; the circuit computes channels {kept}; choose among them")
    return int(circuit.outputs[channel])


def live_channels(circuit: Circuit, visible: Sequence[int] = (0,)) -> tuple[int, ...]:
    """The channels that can ever influence the visible ones, those included: a closure over time."""
    live: set[int] = set()
    new = set(visible)
    while new:
        live |= new
        reached = cone(circuit, new)[: len(circuit.inputs)]
        new = {int(channel) for channel in circuit.inputs[reached, 1]} - live
    return tuple(sorted(live))


def evaluate(circuit: Circuit, inputs: Array) -> Array:
    """inputs (n, W) uint64, 64 cells a word → the next state (C, W); channels not kept are 0."""
    if inputs.ndim != 2 or len(inputs) != len(circuit.inputs) or inputs.dtype != np.uint64:
        raise WeftError(
            f"inputs are {inputs.dtype} {inputs.shape}; they must be uint64 (n, words) with n = {len(circuit.inputs)}"
        )
    return _run(circuit, inputs, cone(circuit, kept_channels(circuit)))


def _run(circuit: Circuit, inputs: Array, needed: Array) -> Array:
    n = len(inputs)
    values = np.empty((n + len(circuit.ops), inputs.shape[1]), np.uint64)
    values[:n] = inputs
    for gate in np.flatnonzero(needed[n:]):
        values[n + gate] = OPERATIONS[circuit.ops[gate]](values[circuit.a[gate]], values[circuit.b[gate]])
    out = np.zeros((len(circuit.outputs), inputs.shape[1]), np.uint64)
    kept = circuit.outputs != DROPPED
    out[kept] = values[circuit.outputs[kept]]
    return out


def prune(circuit: Circuit, outputs: Sequence[int] | None = None) -> Circuit:
    """The same next state with fewer gates: of all channels, or of `outputs` only; the others become DROPPED.

    Folds constants, removes wires, absorbs inverters into the gates that read them, merges equal sub-circuits, and
    removes what reaches no kept output, until nothing changes. Inputs that nobody reads go too; one stays at least,
    because constants are gates and read node 0.
    """
    kept = tuple(outputs) if outputs is not None else kept_channels(circuit)
    for channel in kept:
        _output(circuit, channel)
    chosen = np.full_like(circuit.outputs, DROPPED)
    chosen[list(kept)] = circuit.outputs[list(kept)]
    found = Circuit(circuit.inputs, circuit.ops, circuit.a, circuit.b, chosen)
    while True:
        before, found = found, _simplify(found)
        if _same(before, found):
            return found


def _same(one: Circuit, other: Circuit) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in Circuit.__dataclass_fields__)


def _simplify(circuit: Circuit) -> Circuit:
    n = len(circuit.inputs)
    needed = cone(circuit, kept_channels(circuit))  # or a gate could be merged into one that nobody needs
    builder = _Builder(n)
    literals = [2 * (1 + node) for node in range(n)] + [0] * len(circuit.ops)
    for gate, (op, a, b) in enumerate(zip(circuit.ops.tolist(), circuit.a.tolist(), circuit.b.tolist(), strict=True)):
        if needed[n + gate]:
            literals[n + gate] = builder.gate(op, literals[a], literals[b])
    outputs = [literals[node] if node != DROPPED else DROPPED for node in circuit.outputs.tolist()]
    return _write(builder, circuit.inputs, outputs)


class _Builder:
    """Gates without inverters, wires or constants between them.

    A literal is 2·node, or 2·node + 1 for its inverse; node 0 is the constant false, 1 to n are the inputs. A gate is
    stored such that it gives 0 where its inputs are 0, so a function and its inverse are one node.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.gates: list[tuple[int, int, int]] = []
        self.known: dict[Any, int] = {}
        self.tables: list[int] = []  # of every node, one bit for each of the 2ⁿ patterns, the all-zero one lowest
        if n <= TABLE_INPUTS:
            self.tables = [0, *(_input_table(i, n) for i in range(n))]
            self.known = {table: 2 * node for node, table in enumerate(self.tables)}

    def gate(self, op: int, x: int, y: int) -> int:
        """The literal of op(x, y)."""
        a, b = x >> 1, y >> 1
        op = _invert_a(op) if x & 1 else op
        op = _invert_b(op) if y & 1 else op
        if a == 0:
            op = op & 12 | op >> 2
        if b == 0:
            op = op & 10 | (op & 10) >> 1
        if a == b:
            op = (12 if op & 8 else 0) | (3 if op & 1 else 0)
        for wire, literal in ((FALSE, 0), (TRUE, 1), (PASS_A, 2 * a), (NOT_A, 2 * a + 1), (PASS_B, 2 * b)):
            if op == wire:
                return literal
        if op == 15 - PASS_B:
            return 2 * b + 1
        for u, v in self._pairs(a, b):
            over = [self._over(node, u, v) for node in (a, b)]
            if None not in over:
                return self.gate(OPERATIONS[op](*over) & 15, 2 * u, 2 * v)
        inverted = op >> 3
        return self._node(*_ordered(15 - op if inverted else op, a, b)) ^ inverted

    def _pairs(self, a: int, b: int) -> Iterable[tuple[int, int]]:
        """What could lie under both inputs: a gate that reads a node and another gate of it is one gate of less."""
        return [self.gates[node - self.n - 1][1:] for node in (a, b) if node > self.n]

    def _over(self, node: int, u: int, v: int) -> int | None:
        """The node as an operation on u and v, if it is one."""
        if node in (u, v):
            return PASS_A if node == u else PASS_B
        if node > self.n:
            op, a, b = self.gates[node - self.n - 1]
            if {a, b} == {u, v}:
                return op if a == u else _swap(op)
        return None

    def _node(self, op: int, a: int, b: int) -> int:
        """The literal of a gate: an old one if it computes the same, by its truth table or else by its form."""
        key: Any = OPERATIONS[op](self.tables[a], self.tables[b]) if self.tables else (op, a, b)
        if key not in self.known:
            self.gates.append((op, a, b))
            self.known[key] = 2 * (self.n + len(self.gates))
            if self.tables:
                self.tables.append(key)
        return self.known[key]


def _input_table(i: int, n: int) -> int:
    """Bit p is bit i of p."""
    table = ((1 << (1 << i)) - 1) << (1 << i)
    for size in range(i + 1, n):
        table |= table << (1 << size)
    return table


def _write(builder: _Builder, inputs: Array, outputs: Sequence[int]) -> Circuit:
    """A circuit again: unread nodes left out, and inverters only where two outputs, or an input, need one."""
    n = builder.n
    wanted = {literal for literal in outputs if literal != DROPPED}
    used = {literal >> 1 for literal in wanted}
    for node in range(n + len(builder.gates), n, -1):
        if node in used:
            used.update(builder.gates[node - n - 1][1:])
    # A gate that outputs need only inverted is stored inverted; whoever else reads it absorbs that.
    flipped = {literal >> 1 for literal in wanted if literal >> 1 > n and literal & 1 and literal ^ 1 not in wanted}
    read = [node for node in range(1, n + 1) if node in used] or [1][:n]
    number = {node: i for i, node in enumerate(read)}
    gates: list[tuple[int, int, int]] = []

    def add(op: int, a: int, b: int) -> int:
        gates.append((op, a, b))
        return len(read) + len(gates) - 1

    for node in sorted(used - {0}):
        if node > n:
            op, a, b = builder.gates[node - n - 1]
            op = _invert_a(op) if a in flipped else op
            op = _invert_b(op) if b in flipped else op
            number[node] = add(*_ordered(15 - op if node in flipped else op, number[a], number[b]))
    places = {DROPPED: DROPPED}
    for literal in sorted(wanted):
        node, inverted = literal >> 1, literal & 1
        if node == 0:
            places[literal] = add(TRUE if inverted else FALSE, 0, 0)
        elif inverted and node not in flipped:
            places[literal] = add(NOT_A, number[node], number[node])
        else:
            places[literal] = number[node]
    ops, firsts, seconds = np.array(gates, np.int32).reshape(-1, 3).T
    chosen = inputs[[node - 1 for node in read]]
    return _circuit(chosen, ops, firsts, seconds, [places[literal] for literal in outputs])


def equivalent(before: Circuit, after: Circuit, patterns: int = RANDOM_PATTERNS, seed: int = 0) -> Proof:
    """Hold `after` to `before`: every output that `after` kept, on all patterns of the inputs they read, or on many.

    Up to 20 input bits every pattern is tried, which proves it; beyond, at least `patterns` random ones.
    """
    if len(before.outputs) != len(after.outputs):
        raise WeftError(f"the circuits have {len(before.outputs)} and {len(after.outputs)} channels; they must agree")
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
            _run(circuit, _rows(circuit, bits, words), reached)[kept]
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
        within = _input_table(i, 6) if i < 6 else 0
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


def _difference(kept: Sequence[int], bits: Sequence[tuple[int, int]], words: Array, wrong: Array) -> WeftError:
    output, word = (int(i) for i in np.argwhere(wrong)[0])
    bit = np.uint64((int(wrong[output, word]) & -int(wrong[output, word])).bit_length() - 1)
    ones = [
        f"c{channel} {COMPASS[position]}" for i, (channel, position) in enumerate(bits) if words[i, word] >> bit & 1
    ]
    pattern = f"{', '.join(ones)} = 1 and the rest 0" if ones else "all inputs 0"
    return WeftError(
        f"channel {kept[output]} differs for {pattern}; a circuit and its pruned form must agree on every output; "
        "please report this run as a bug"
    )


@dataclass(frozen=True)
class CircuitReport:
    """What `weft circuit` says about a trained model."""

    counts: GateCounts
    visible: tuple[int, ...]  # the channels the loss looks at
    live: tuple[int, ...]  # the channels that can ever influence those
    cell: int  # gates of one cell: perceive gates once per channel
    reaching: int  # those of them that the kept channels' next state depends on
    reaching_active: int  # … and that are more than a wire
    circuit: Circuit  # what is left
    proof: Proof
    paths: list[Path]
    not_drawn: str  # why there is no picture; empty if there is one


def circuit_verb(model: LogicModel, folder: Path, all_channels: bool = False) -> CircuitReport:
    """Extract, prune and check the circuit of a trained model; circuit.json, .svg and .png in `folder`.

    Keeps the channels that can ever influence the visible ones, or with `all_channels` every one.
    """
    from weft.report.circuits import TooManyGatesError, draw_circuit

    config = model.config
    logits = model.weights.reshape(-1, 16)
    full = full_circuit(config, logits, model.constants)
    pruned = prune(full)
    visible = tuple(range(getattr(config, "target_channels", 1)))
    live = live_channels(pruned, visible)
    keep = tuple(range(config.channels)) if all_channels else live
    small = prune(pruned, keep)
    proof = equivalent(full, small)
    reached = full.ops[cone(full, keep)[len(full.inputs) :]]

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "circuit.json"]
    paths[0].write_text(json.dumps(as_json(small), indent=1) + "\n", encoding="utf-8")
    not_drawn = ""
    try:
        paths += draw_circuit(
            folder / "circuit", small.inputs, small.ops, small.a, small.b, small.outputs[list(keep)], NAMES,
            [f"c{channel} next" for channel in keep],
        )  # fmt: skip
    except TooManyGatesError as error:
        not_drawn = str(error)
        for old in ("circuit.svg", "circuit.png"):  # of another checkpoint: they would contradict the JSON
            (folder / old).unlink(missing_ok=True)
    return CircuitReport(
        counts(config, logits), visible, live, len(full.ops), len(reached),
        int((~np.isin(reached, (PASS_A, PASS_B))).sum()), small, proof, paths, not_drawn,
    )  # fmt: skip


def as_json(circuit: Circuit) -> dict[str, Any]:
    """The circuit in words and numbers: a and b are node numbers, inputs first; an output that was not kept is null."""
    return {
        "inputs": [
            {"channel": channel, "position": COMPASS[position]} for position, channel in circuit.inputs.tolist()
        ],
        "ops": [NAMES[op] for op in circuit.ops],
        "a": circuit.a.tolist(),
        "b": circuit.b.tolist(),
        "outputs": [node if node != DROPPED else None for node in circuit.outputs.tolist()],
    }
