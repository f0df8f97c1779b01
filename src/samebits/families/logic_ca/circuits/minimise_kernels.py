"""The compiled part of minimise.py: a random walk through circuits that compute the same, towards fewer gates.

Shapes: n inputs, m gates, W words of 64 patterns, C outputs.
  tables  (n + m, W)  what every node says on every pattern of the inputs
  gates   (M, 3)      operation, node of a, node of b; the first m rows count, in an order that can be run
  outs    (C,)        node of every output
A literal is 2·node, or 2·node + 1 for its inverse; FALSE and TRUE are the literals of the constants.

One move: a gate is chosen, and what the outputs would notice if it were wrong (its care set). It may become any
operation on any two nodes that do not depend on it, as long as it stays right on the care set. What nobody reads any
more goes. A move that leaves more gates is made too now and then, or the walk would soon be stuck.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.compiler.jit import kernel, routine

FALSE, TRUE = -2, -1
ZERO = np.uint64(0)
SHIFT_A, SHIFT_B, SHIFT_C = np.uint64(13), np.uint64(7), np.uint64(17)
TOP_BITS = np.uint64(33)
TRIES = 12  # new gates that a move of the second kind tries as a partner


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


@routine
def walk(
    best: Array, best_outs: Array, gates: Array, outs: Array, tables: Array, seen: Array, sizes: Array, moves: int,
    warmth: int, random: Array,
) -> int:  # fmt: skip
    """`moves` moves from the circuit in gates and outs; the smallest met is left in best. Returns the moves made.

    sizes: inputs, gates of the walk's circuit, gates and depth of the best (the least deep of equals). tables has the
    inputs' words in its first n rows; seen (W,) is 1 where a pattern counts. warmth: of 1,000 moves that add a gate, so
    many are made.
    """
    n, m = sizes[0], sizes[1]
    M, W = gates.shape[0], tables.shape[1]
    trial, trial_outs = np.empty((M, 3), np.int64), np.empty(outs.size, np.int64)
    changed = np.empty((M, 3), np.int64)
    flipped = tables.copy()
    care, on, off = np.empty(W, np.uint64), np.empty(W, np.uint64), np.empty(W, np.uint64)
    partner = np.empty(W, np.uint64)
    order, stack = np.empty(M, np.int64), np.empty(4 * M + 4, np.int64)
    work = np.empty((3, n + 2 * M + outs.size), np.int64)
    above = np.empty(n + M, np.bool_)
    free = np.empty(n + M, np.int64)
    run_from(tables, gates, n, 0, m)
    for move in range(moves):
        if m == 0:
            return move
        g = draw(random, m)
        # Its care set: where an output changes if the gate is inverted.
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
        for w in range(W):
            care[w] = ZERO
        for c in range(outs.size):
            if above[outs[c]]:
                for w in range(W):
                    care[w] |= flipped[outs[c], w] ^ tables[outs[c], w]
        for w in range(W):
            on[w] = tables[n + g, w] & care[w] & seen[w]
            off[w] = ~tables[n + g, w] & care[w] & seen[w]
        count = 0
        for node in range(n + m):
            if not above[node]:
                free[count] = node
                count += 1
        # One of the pairs that would do, each as likely as any other; or a new gate beside one node.
        met = 0
        chosen = chosen_a = chosen_b = 0
        extra = draw(random, 4) == 0
        extra_op = extra_a = extra_b = 0
        if extra:
            for _ in range(TRIES):
                u, v = free[draw(random, count)], free[draw(random, count)]
                op = 1 + draw(random, 14)
                if u == v or op == 3 or op == 5 or op == 10 or op == 12:
                    continue
                for w in range(W):
                    partner[w] = gate_word(op, tables[u, w], tables[v, w])
                for i in range(count):
                    found = fits(partner, tables[free[i]], on, off)
                    if found >= 0:
                        met += 1
                        if draw(random, met) == 0:
                            chosen, chosen_a, chosen_b = found, -1, free[i]
                            extra_op, extra_a, extra_b = op, u, v
        else:
            start = draw(random, count)
            for k in range(count):
                i = k + start - count if k + start >= count else k + start
                u = free[i]
                for j in range(i):
                    v = free[j]
                    found = fits(tables[u], tables[v], on, off)
                    if found >= 0 and not (
                        (u == gates[g, 1] and v == gates[g, 2]) or (v == gates[g, 1] and u == gates[g, 2])
                    ):
                        met += 1
                        if draw(random, met) == 0:
                            chosen, chosen_a, chosen_b = found, u, v
        if met == 0:
            continue
        ones, zeros = chosen & 15, chosen >> 4
        op = ones | (draw(random, 16) & ~(ones | zeros))  # where nobody cares, either will do
        for h in range(m):
            changed[h, 0], changed[h, 1], changed[h, 2] = gates[h, 0], gates[h, 1], gates[h, 2]
        length = m
        if chosen_a < 0:
            changed[m, 0], changed[m, 1], changed[m, 2] = extra_op, extra_a, extra_b
            chosen_a, length = n + m, m + 1
        changed[g, 0], changed[g, 1], changed[g, 2] = op, chosen_a, chosen_b
        sorted_gates(changed, n, length, order, stack)
        left = tidy(trial, trial_outs, changed, outs, n, length, order, work)
        if left > m and (left + outs.size + 2 > M or draw(random, 1000) >= warmth):
            continue
        gates[:left] = trial[:left]
        outs[:] = trial_outs
        m = left
        run_from(tables, gates, n, 0, m)
        if m <= sizes[2]:
            depth = depth_of(gates, outs, n, m, work[0])
            if m < sizes[2] or depth < sizes[3]:
                best[:m] = gates[:m]
                best_outs[:] = outs
                sizes[2], sizes[3] = m, depth
    sizes[1] = m
    return moves
