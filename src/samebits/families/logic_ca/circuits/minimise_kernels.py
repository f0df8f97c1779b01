"""The compiled part of minimise.py: a random walk through circuits that compute the same, towards fewer gates.

Shapes are those of netlist_kernels.py.

One move: a gate is chosen, and what the outputs would notice if it were wrong (its care set). It may become any
operation on any two nodes that do not depend on it, as long as it stays right on the care set. What nobody reads any
more goes. A move that leaves more gates is made too now and then, or the walk would soon be stuck.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.compiler.jit import kernel, routine
from samebits.families.logic_ca.circuits.netlist_kernels import (
    ZERO,
    Netlist,
    depth_of,
    gate_word,
    run_from,
    sorted_gates,
    tidy,
)

SHIFT_A, SHIFT_B, SHIFT_C = np.uint64(13), np.uint64(7), np.uint64(17)
TOP_BITS = np.uint64(33)
TRIES = 12  # new gates that a move of the second kind tries as a partner


class Scratch(NamedTuple):
    """Memory that every move overwrites."""

    changed: Netlist  # the circuit after a move …
    trial: Netlist  # … and without the gates that nobody reads
    flipped: Array  # (n + M, W) tables with the gate inverted
    above: Array  # (n + M,) bool: whether a node depends on the gate
    on: Array  # (W,) patterns of the care set where the gate is 1 …
    off: Array  # … and where it is 0
    partner: Array  # (W,) the table of a new gate
    free: Array  # (n + M,) nodes that do not depend on the gate
    order: Array
    stack: Array
    work: Array


class Choice(NamedTuple):
    """What the gate becomes: `fits` of nodes a and b. a is −1 for a new gate, operation new_op of new_a and new_b."""

    choices: int  # how many there were; 0: none
    fit: int
    a: int
    b: int
    new_op: int
    new_a: int
    new_b: int


@kernel
def draw(state: Array, below: int) -> Any:
    """A random number from 0 to below − 1 (xorshift; below is far less than 2³¹)."""
    x = state[0]
    x ^= x << SHIFT_A
    x ^= x >> SHIFT_B
    x ^= x << SHIFT_C
    state[0] = x
    return np.int64((x >> TOP_BITS) % np.uint64(below))


@kernel
def fits(p: Array, q: Array, on: Array, off: Array) -> int:
    """Which operation of p and q is `on` there and not `off` there: its ones, 16 × its zeros; −1 if none is."""
    ones = zeros = 0
    for w in range(p.size):
        x, y, s, r = p[w], q[w], on[w], off[w]
        if (s | r) == ZERO:
            continue
        both, first, second, none = x & y, x & ~y, ~x & y, ~x & ~y
        if both & s:
            ones |= 1
        if first & s:
            ones |= 2
        if second & s:
            ones |= 4
        if none & s:
            ones |= 8
        if both & r:
            zeros |= 1
        if first & r:
            zeros |= 2
        if second & r:
            zeros |= 4
        if none & r:
            zeros |= 8
        if ones & zeros:
            return -1
    return ones | zeros << 4


@kernel
def new_scratch(current: Netlist, tables: Array, n: int) -> Scratch:
    M, C, W = current.gates.shape[0], current.outs.size, tables.shape[1]
    return Scratch(
        Netlist(np.empty((M, 3), np.int64), np.empty(C, np.int64)),
        Netlist(np.empty((M, 3), np.int64), np.empty(C, np.int64)),
        tables.copy(), np.empty(n + M, np.bool_),
        np.empty(W, np.uint64), np.empty(W, np.uint64), np.empty(W, np.uint64),
        np.empty(n + M, np.int64), np.empty(M, np.int64), np.empty(4 * M + 4, np.int64),
        np.empty((3, n + 2 * M + C), np.int64),
    )  # fmt: skip


@kernel
def invert_gate(scratch: Scratch, gates: Array, tables: Array, g: int, n: int, m: int) -> None:
    """Fill in above, and flipped where it is true: the tables of gate g inverted and of what depends on it."""
    flipped, above, W = scratch.flipped, scratch.above, tables.shape[1]
    for w in range(W):
        flipped[n + g, w] = ~tables[n + g, w]
    for node in range(n + m):
        above[node] = False
    above[n + g] = True
    for h in range(g + 1, m):
        a, b = gates[h, 1], gates[h, 2]
        if above[a] or above[b]:
            above[n + h] = True
            for w in range(W):
                p = flipped[a, w] if above[a] else tables[a, w]
                q = flipped[b, w] if above[b] else tables[b, w]
                flipped[n + h, w] = gate_word(gates[h, 0], p, q)


@kernel
def find_care_set(scratch: Scratch, outs: Array, tables: Array, seen: Array, node: int) -> None:
    """Fill in on and off: an output changes if the node is inverted there."""
    flipped, on, off = scratch.flipped, scratch.on, scratch.off
    for w in range(seen.size):
        on[w] = ZERO
    for c in range(outs.size):
        if scratch.above[outs[c]]:
            for w in range(seen.size):
                on[w] |= flipped[outs[c], w] ^ tables[outs[c], w]
    for w in range(seen.size):
        care = on[w] & seen[w]
        on[w], off[w] = tables[node, w] & care, ~tables[node, w] & care


@kernel
def find_free(scratch: Scratch, nodes: int) -> int:
    """Fill in free; how many."""
    count = 0
    for node in range(nodes):
        if not scratch.above[node]:
            scratch.free[count] = node
            count += 1
    return count


@kernel
def choose_pair(scratch: Scratch, tables: Array, count: int, gate: Array, random: Array) -> Choice:
    """One of the pairs of nodes that would do, other than the gate's own, each as likely as any other."""
    free, on, off = scratch.free, scratch.on, scratch.off
    met = chosen = chosen_a = chosen_b = 0
    start = draw(random, count)
    for k in range(count):
        i = k + start - count if k + start >= count else k + start
        u = free[i]
        for j in range(i):
            v = free[j]
            found = fits(tables[u], tables[v], on, off)
            if found >= 0 and not ((u == gate[1] and v == gate[2]) or (v == gate[1] and u == gate[2])):
                met += 1
                if draw(random, met) == 0:
                    chosen, chosen_a, chosen_b = found, u, v
    return Choice(met, chosen, chosen_a, chosen_b, 0, 0, 0)


@kernel
def choose_new_gate(scratch: Scratch, tables: Array, count: int, random: Array) -> Choice:
    """One of the pairs of a node and a new gate that would do; TRIES gates are tried."""
    free, on, off, partner = scratch.free, scratch.on, scratch.off, scratch.partner
    met = chosen = chosen_b = new_op = new_a = new_b = 0
    for _ in range(TRIES):
        u, v = free[draw(random, count)], free[draw(random, count)]
        op = 1 + draw(random, 14)
        if u == v or op == 3 or op == 5 or op == 10 or op == 12:
            continue
        for w in range(partner.size):
            partner[w] = gate_word(op, tables[u, w], tables[v, w])
        for i in range(count):
            found = fits(partner, tables[free[i]], on, off)
            if found >= 0:
                met += 1
                if draw(random, met) == 0:
                    chosen, chosen_b = found, free[i]
                    new_op, new_a, new_b = op, u, v
    return Choice(met, chosen, -1, chosen_b, new_op, new_a, new_b)


@kernel
def make_change(scratch: Scratch, current: Netlist, choice: Choice, g: int, n: int, m: int, random: Array) -> int:
    """The circuit after the move, in scratch.trial: how many gates it has."""
    changed, gates = scratch.changed.gates, current.gates
    ones, zeros = choice.fit & 15, choice.fit >> 4
    op = ones | (draw(random, 16) & ~(ones | zeros))  # where nobody cares, either will do
    for h in range(m):
        changed[h, 0], changed[h, 1], changed[h, 2] = gates[h, 0], gates[h, 1], gates[h, 2]
    a, length = choice.a, m
    if a < 0:
        changed[m, 0], changed[m, 1], changed[m, 2] = choice.new_op, choice.new_a, choice.new_b
        a, length = n + m, m + 1
    changed[g, 0], changed[g, 1], changed[g, 2] = op, a, choice.b
    sorted_gates(changed, n, length, scratch.order, scratch.stack)
    trial = scratch.trial
    return tidy(trial.gates, trial.outs, changed, current.outs, n, length, scratch.order, scratch.work)


@kernel
def keep_best(best: Netlist, current: Netlist, sizes: Array, m: int, levels: Array) -> None:
    """Copy the circuit to best if it has fewer gates, or as many and less depth."""
    if m > sizes[2]:
        return
    depth = depth_of(current.gates, current.outs, sizes[0], m, levels)
    if m < sizes[2] or depth < sizes[3]:
        best.gates[:m] = current.gates[:m]
        best.outs[:] = current.outs
        sizes[2], sizes[3] = m, depth


@routine
def walk(
    best: Netlist, current: Netlist, tables: Array, seen: Array, sizes: Array, moves: int, warmth: int, random: Array
) -> int:
    """`moves` moves from the current circuit; the smallest met is left in best. Returns the moves made.

    sizes: inputs, gates of the walk's circuit, gates and depth of the best (the least deep of equals). tables has the
    inputs' words in its first n rows; seen (W,) is 1 where a pattern counts. warmth: of 1,000 moves that add a gate, so
    many are made.
    """
    n, m, M = sizes[0], sizes[1], current.gates.shape[0]
    gates, outs = current.gates, current.outs
    scratch = new_scratch(current, tables, n)
    run_from(tables, gates, n, 0, m)
    for move in range(moves):
        if m == 0:
            return move
        g = draw(random, m)
        invert_gate(scratch, gates, tables, g, n, m)
        find_care_set(scratch, outs, tables, seen, n + g)
        count = find_free(scratch, n + m)
        if draw(random, 4) == 0:
            choice = choose_new_gate(scratch, tables, count, random)
        else:
            choice = choose_pair(scratch, tables, count, gates[g], random)
        if choice.choices == 0:
            continue
        left = make_change(scratch, current, choice, g, n, m, random)
        if left > m and (left + outs.size + 2 > M or draw(random, 1000) >= warmth):
            continue
        gates[:left] = scratch.trial.gates[:left]
        outs[:] = scratch.trial.outs
        m = left
        run_from(tables, gates, n, 0, m)
        keep_best(best, current, sizes, m, scratch.work[0])
    sizes[1] = m
    return moves
