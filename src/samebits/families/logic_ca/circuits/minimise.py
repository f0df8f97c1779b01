"""Fewer gates than pruning leaves: a random walk through equal circuits (minimise_kernels.py).

The walk knows every node's whole truth table, so each of its moves is exact. Where a circuit has too many inputs for
that, it walks through parts of the circuit, each on the values its own inputs could have.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numba
import numpy as np

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array
from samebits.families.logic_ca.circuits.circuit import (
    DROPPED,
    Circuit,
    cone,
    depth_of,
    input_table,
    kept_channels,
    make_circuit,
)
from samebits.families.logic_ca.circuits.minimise_kernels import walk
from samebits.families.logic_ca.circuits.netlist_kernels import Netlist
from samebits.families.logic_ca.circuits.pruning import prune

TABLE_INPUTS = 14  # up to here the walk sees the whole circuit at once
WINDOW_INPUTS = 9  # of a part of a larger one
WINDOW_GATES = 60
# Hot turns and cold ones by turns: of 1,000 moves that add a gate so many are made (docs/LOG.md has what was tried).
WARMTHS = (1000, 0)
ROOM = 40  # gates by which a walk may grow
TURN = 1 << 17  # words · moves between two looks at the clock: some tenths of a second
PATIENCE = (
    600  # turns without a gain, after which the walk begins anew: gains come late, 24 gates after 15 million moves
)
USUAL_TURNS, USUAL_SEEDS = 20, 3  # what a circuit gets without being asked for: a few seconds for Life
if numba.config.DISABLE_JIT:
    TURN, USUAL_TURNS = 1 << 7, 1  # as plain Python, a hundred times slower

Found = Callable[[int, int, float], None]  # is told of every gain: gates, depth, seconds since the beginning


def usual(circuit: Circuit) -> Circuit:
    """The same for everybody: a fixed number of moves, whatever the clock says. The best of a few walks."""
    found = (minimise(circuit, turns=USUAL_TURNS, seed=seed) for seed in range(USUAL_SEEDS))
    return min(found, key=lambda one: (len(one.ops), depth_of(one)))


def least_gates(circuit: Circuit) -> int:
    """No circuit can do with fewer: k inputs need k − 1 gates, and every output that is no input needs one."""
    n, kept = len(circuit.inputs), kept_channels(circuit)
    widest = max((int(cone(circuit, [channel])[:n].sum()) - 1 for channel in kept), default=0)
    return max(widest, len({node for node in circuit.outputs.tolist() if node >= n}))


def minimise(
    circuit: Circuit, seconds: float | None = None, turns: int | None = None, found: Found | None = None, seed: int = 0
) -> Circuit:
    """The smallest circuit that computes the same, of those met in so many seconds or turns; the least deep of equals.

    Ctrl-C ends the search, and what it found is kept.
    """
    start = best = prune(circuit)
    least = least_gates(start)
    began = time.perf_counter()
    turn = _whole_turn if len(start.inputs) <= TABLE_INPUTS else _window_turn
    now, turn_number, since = start, 0, 0
    try:
        while len(best.ops) > least and not _over(turn_number, turns, began, seconds):
            number = int(rng.words((1, 1), seed, rng.Purpose.EVALUATION, step=turn_number, extra=3)[0, 0])
            now, smallest = turn(now, number | 1, WARMTHS[turn_number % len(WARMTHS)])
            turn_number, since = turn_number + 1, since + 1
            gates, fewer = len(smallest.ops), len(smallest.ops) < len(best.ops)
            if fewer or (gates == len(best.ops) and depth_of(smallest) < depth_of(best)):
                best, since = smallest, 0 if fewer else since
                if found:
                    found(gates, depth_of(best), time.perf_counter() - began)
            elif since >= PATIENCE:
                now, since = start if turn is _whole_turn else best, 0
    except KeyboardInterrupt:
        if seconds is None:  # nobody asked for a search
            raise
    return best


def _over(turn: int, turns: int | None, began: float, seconds: float | None) -> bool:
    if turns is not None and turn >= turns:
        return True
    return seconds is not None and time.perf_counter() - began >= seconds


def _whole_turn(circuit: Circuit, number: int, warmth: int) -> tuple[Circuit, Circuit]:
    """Where the walk went, and the smallest circuit it met."""
    kept = list(kept_channels(circuit))
    inputs = len(circuit.inputs)
    gates = np.column_stack([circuit.ops, circuit.a, circuit.b]).astype(np.int64)
    ends = []
    for part, outputs in _walk(inputs, gates, circuit.outputs[kept].astype(np.int64), number, warmth):
        chosen = np.full(len(circuit.outputs), DROPPED)
        chosen[kept] = outputs
        ends.append(make_circuit(circuit.inputs, part[:, 0], part[:, 1], part[:, 2], chosen))
    return ends[0], prune(ends[1])


def _walk(inputs: int, gates: Array, outputs: Array, number: int, warmth: int) -> list[tuple[Array, Array]]:
    """Gates (m, 3) and outputs where the walk ended, and the same of the smallest circuit it met."""
    m, words = len(gates), max(1, (1 << inputs) // 64)
    room = m + 2 * len(outputs) + ROOM
    now = np.zeros((room, 3), np.int64)
    now[:m] = gates
    tables = np.zeros((inputs + room, words), np.uint64)
    for i in range(inputs):
        table = input_table(i, inputs) & ((1 << 64 * words) - 1)
        tables[i] = np.frombuffer(table.to_bytes(8 * words, "little"), "<u8")
    seen = np.full(words, 2**64 - 1 if inputs >= 6 else (1 << (1 << inputs)) - 1, np.uint64)
    current, best = Netlist(now, outputs.copy()), Netlist(now.copy(), outputs.copy())
    sizes = np.array([inputs, m, m, m])
    walk(best, current, tables, seen, sizes, max(1, TURN // words), warmth, np.array([number], np.uint64))
    return [(current.gates[: sizes[1]], current.outs), (best.gates[: sizes[2]], best.outs)]


def _window_turn(circuit: Circuit, number: int, warmth: int) -> tuple[Circuit, Circuit]:
    """Walk through one part of the circuit, and put back what became of it."""
    n, nodes = len(circuit.inputs), len(circuit.inputs) + len(circuit.ops)
    leaves, inside = _window(circuit, np.random.default_rng(number))
    outside = np.ones(nodes, bool)
    outside[inside] = False
    read = np.zeros(nodes, bool)  # by somebody outside the part
    read[circuit.a[outside[n:]]] = read[circuit.b[outside[n:]]] = True
    read[circuit.outputs[circuit.outputs != DROPPED]] = True
    roots = [node for node in inside if read[node]]
    place = {node: i for i, node in enumerate([*leaves, *inside])}
    gates = [(int(circuit.ops[i]), place[int(circuit.a[i])], place[int(circuit.b[i])]) for i in np.subtract(inside, n)]
    ends = np.array([place[root] for root in roots], np.int64)
    _, (part, outputs) = _walk(len(leaves), np.array(gates, np.int64), ends, number, warmth)
    if len(part) >= len(inside):
        return circuit, circuit
    smaller = prune(_put_back(circuit, leaves, inside, part, dict(zip(roots, outputs.tolist(), strict=True))))
    return smaller, smaller


def _window(circuit: Circuit, draw: np.random.Generator) -> tuple[list[int], list[int]]:
    """A gate and what lies under it, as far as few enough nodes are read from outside: those, and the gates."""
    n = len(circuit.inputs)
    sources = np.column_stack([circuit.a, circuit.b]).tolist()
    root = n + int(draw.integers(len(circuit.ops)))
    inside, leaves = {root}, set(sources[root - n])
    while len(inside) < WINDOW_GATES:
        options = [node for node in sorted(leaves) if node >= n]
        draw.shuffle(options)
        for node in options:
            wider = (leaves | set(sources[node - n])) - inside - {node}
            if len(wider) <= WINDOW_INPUTS and not _comes_back(n, sources, inside | {node}, wider):
                inside.add(node)
                leaves = wider
                break
        else:
            break
    return sorted(leaves), sorted(inside)


def _comes_back(n: int, sources: list[list[int]], inside: set[int], leaves: set[int]) -> bool:
    """Whether a leaf depends on a gate of the part: what becomes of the part may then go round in a circle."""
    after = set(inside)
    for node in range(min(inside) + 1, max(leaves) + 1):
        if node >= n and (sources[node - n][0] in after or sources[node - n][1] in after):
            after.add(node)
    return not leaves.isdisjoint(after - inside)


def _put_back(circuit: Circuit, leaves: list[int], inside: list[int], part: Array, outputs: dict[int, int]) -> Circuit:
    """The circuit with the gates of `inside` replaced by those of `part`, whose node of every old root is given."""
    nodes = len(circuit.inputs) + len(circuit.ops)
    n, k = len(circuit.inputs), len(leaves)

    def named(node: int) -> int:
        """A node of the part: a leaf, or a gate with a number after all others."""
        return leaves[node] if node < k else nodes + node - k

    gates = {nodes + i: (int(op), named(a), named(b)) for i, (op, a, b) in enumerate(part.tolist())}
    stands_for = {root: named(node) for root, node in outputs.items()}
    for i, (op, a, b) in enumerate(zip(circuit.ops.tolist(), circuit.a.tolist(), circuit.b.tolist(), strict=True)):
        if n + i not in inside:
            gates[n + i] = (op, stands_for.get(a, a), stands_for.get(b, b))
    number = {node: node for node in range(n)}
    rows: list[tuple[int, int, int]] = []
    pending = list(gates)
    while pending:
        node = pending[-1]
        op, a, b = gates[node] if node not in number else (0, 0, 0)
        missing = [source for source in (a, b) if source not in number]
        if node in number or not missing:
            pending.pop()
        if node not in number and not missing:
            rows.append((op, number[a], number[b]))
            number[node] = n + len(rows) - 1
        pending += missing
    ends = [number[stands_for.get(node, node)] if node != DROPPED else DROPPED for node in circuit.outputs.tolist()]
    ops, firsts, seconds = np.array(rows, np.int64).reshape(-1, 3).T
    return make_circuit(circuit.inputs, ops, firsts, seconds, ends)
