"""Fewer gates for the same circuit: constants folded, wires and inverters absorbed, equal parts merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.families.logic_ca.circuits.circuit import (
    DROPPED,
    FALSE,
    NOT_A,
    OPERATIONS,
    PASS_A,
    PASS_B,
    TRUE,
    Circuit,
    cone,
    input_table,
    invert_a,
    invert_b,
    kept_channels,
    make_circuit,
    ordered,
    output_node,
    swap,
)

TABLE_INPUTS = 16  # up to here pruning knows every node's whole truth table


def prune(circuit: Circuit, outputs: Sequence[int] | None = None) -> Circuit:
    """The same next state with fewer gates: of all channels, or of `outputs` only; the others become DROPPED.

    Folds constants, removes wires, absorbs inverters into the gates that read them, merges equal sub-circuits, and
    removes what reaches no kept output, until nothing changes. Inputs that nobody reads go too; one stays at least,
    because constants are gates and read node 0.
    """
    kept = tuple(outputs) if outputs is not None else kept_channels(circuit)
    for channel in kept:
        output_node(circuit, channel)
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
            self.tables = [0, *(input_table(i, n) for i in range(n))]
            self.known = {table: 2 * node for node, table in enumerate(self.tables)}

    def gate(self, op: int, x: int, y: int) -> int:
        """The literal of op(x, y)."""
        a, b = x >> 1, y >> 1
        op = invert_a(op) if x & 1 else op
        op = invert_b(op) if y & 1 else op
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
        return self._node(*ordered(15 - op if inverted else op, a, b)) ^ inverted

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
                return op if a == u else swap(op)
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
            op = invert_a(op) if a in flipped else op
            op = invert_b(op) if b in flipped else op
            number[node] = add(*ordered(15 - op if node in flipped else op, number[a], number[b]))
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
    return make_circuit(chosen, ops, firsts, seconds, [places[literal] for literal in outputs])
