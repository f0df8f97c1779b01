"""Compiled operations on small circuits: their tables, an order to run them in, and which gates are needed.

Shapes: n inputs, m gates, W words of 64 patterns, C outputs.
  tables  (n + m, W)  the value of every node on every pattern of the inputs
  gates   (M, 3)      operation, node of a, node of b; the first m rows count, in an order that can be run
  outs    (C,)        node of every output
A literal is 2·node, or 2·node + 1 for its inverse; FALSE and TRUE are the literals of the constants.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.compiler.jit import kernel

FALSE, TRUE = -2, -1
ZERO = np.uint64(0)


class Netlist(NamedTuple):
    """A circuit; how many of its rows are gates is kept elsewhere."""

    gates: Array  # (M, 3)
    outs: Array  # (C,)


@kernel
def gate_word(op: int, p: Any, q: Any) -> Any:
    """64 patterns of an operation: its number is its truth table, 8 for neither, 4 for b, 2 for a, 1 for both."""
    found = ZERO
    if op & 8:
        found |= ~p & ~q
    if op & 4:
        found |= ~p & q
    if op & 2:
        found |= p & ~q
    if op & 1:
        found |= p & q
    return found


@kernel
def run_from(tables: Array, gates: Array, n: int, first: int, m: int) -> None:
    for g in range(first, m):
        op, a, b = gates[g, 0], gates[g, 1], gates[g, 2]
        for w in range(tables.shape[1]):
            tables[n + g, w] = gate_word(op, tables[a, w], tables[b, w])


@kernel
def inverted_a(op: int) -> int:
    return (op & 3) << 2 | op >> 2


@kernel
def inverted_b(op: int) -> int:
    return (op & 5) << 1 | (op & 10) >> 1


@kernel
def bound(op: int, a: int, b: int) -> tuple[int, int, int]:
    """The operation with its literals' inversions and constants taken in; a node in place of each literal."""
    if a < 0:
        op = op & 12 | op >> 2 if a == FALSE else op & 3 | (op & 3) << 2
        a = 0
    elif a & 1:
        op = inverted_a(op)
    if b < 0:
        op = op & 10 | (op & 10) >> 1 if b == FALSE else op & 5 | (op & 5) << 1
        b = 0
    elif b & 1:
        op = inverted_b(op)
    if a >> 1 == b >> 1:
        op = (12 if op & 8 else 0) | (3 if op & 1 else 0)
    return op, a >> 1, b >> 1


@kernel
def tidy(out: Array, out_outs: Array, gates: Array, outs: Array, n: int, m: int, order: Array, work: Array) -> int:
    """Wires, constants and what nobody reads removed: how many gates are left in `out`.

    `order` has all m gates in an order that can be run. work (3, n + 2·M) is scratch: literals, flips, new numbers.
    """
    literal, flip, number = work[0], work[1], work[2]
    for node in range(n):
        literal[node] = 2 * node
    made = 0
    for i in range(m):
        g = order[i]
        op, a, b = bound(gates[g, 0], literal[gates[g, 1]], literal[gates[g, 2]])
        if op == 0:
            found = FALSE
        elif op == 15:
            found = TRUE
        elif op == 3:
            found = 2 * a
        elif op == 12:
            found = 2 * a + 1
        elif op == 5:
            found = 2 * b
        elif op == 10:
            found = 2 * b + 1
        else:
            out[made, 0], out[made, 1], out[made, 2] = op, a, b
            found = 2 * (n + made)
            made += 1
        literal[n + g] = found
    # An inverted output turns its gate around, and whoever reads it; only an input or a constant needs a gate for it.
    for node in range(n + made + outs.size):
        flip[node] = 0
    for c in range(outs.size):
        found = literal[outs[c]]
        if found >= 2 * n and found & 1:
            flip[found >> 1] = 1
    built = made
    for c in range(outs.size):
        found = literal[outs[c]]
        if found < 0:
            out[made, 0], out[made, 1], out[made, 2] = (0 if found == FALSE else 15), 0, 0
            found, made = 2 * (n + made), made + 1
        elif (found & 1) != flip[found >> 1]:
            out[made, 0], out[made, 1], out[made, 2] = 12, found >> 1, found >> 1
            found, made = 2 * (n + made), made + 1
        out_outs[c] = found >> 1
    for g in range(built):
        op = out[g, 0]
        if flip[out[g, 1]]:
            op = inverted_a(op)
        if flip[out[g, 2]]:
            op = inverted_b(op)
        out[g, 0] = 15 - op if flip[n + g] else op
    # What reaches an output stays.
    for node in range(n + made):
        number[node] = 0
    for c in range(outs.size):
        number[out_outs[c]] = 1
    for g in range(made - 1, -1, -1):
        if number[n + g] and out[g, 0] != 0 and out[g, 0] != 15:
            number[out[g, 1]] = 1
            number[out[g, 2]] = 1
    left = 0
    for node in range(n):
        number[node] = node
    for g in range(made):
        if number[n + g]:
            out[left, 0] = out[g, 0]
            out[left, 1], out[left, 2] = number[out[g, 1]], number[out[g, 2]]
            number[n + g] = n + left
            left += 1
    for c in range(outs.size):
        out_outs[c] = number[out_outs[c]]
    return left


@kernel
def sorted_gates(gates: Array, n: int, m: int, order: Array, state: Array) -> None:
    """An order in which the gates can be run, after a change that may have turned it around: depth first."""
    for g in range(m):
        state[g] = 0
    found = 0
    for root in range(m):
        # state[m + …] is the stack; 0 new, 1 opened, 2 done
        top = m
        if state[root] == 2:
            continue
        state[top] = root
        while top >= m:
            g = state[top]
            if state[g] == 2:
                top -= 1
                continue
            if state[g] == 1:
                state[g] = 2
                order[found] = g
                found += 1
                top -= 1
                continue
            state[g] = 1
            for k in (1, 2):
                source = gates[g, k] - n
                if source >= 0 and state[source] == 0:
                    top += 1
                    state[top] = source


@kernel
def depth_of(gates: Array, outs: Array, n: int, m: int, levels: Array) -> int:
    """Gates on the longest way to an output."""
    for node in range(n):
        levels[node] = 0
    for g in range(m):
        levels[n + g] = 1 + max(levels[gates[g, 1]], levels[gates[g, 2]])
    found = 0
    for c in range(outs.size):
        found = max(found, levels[outs[c]])
    return found
