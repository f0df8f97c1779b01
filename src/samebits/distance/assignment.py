"""The assignment problem, and what it says about a pair of graphs: a lower and an upper bound.

edges_a (K, 2, L+1), edges_b (K, 2, L+1)   how many edges of each code leave and reach a node; [:, :, 0] their sum

An edge is charged half to each of its ends. What a row's edges cost at least against a column's depends only on how
many there are of each code (a star). So the cheapest assignment of stars to stars costs no more than any edit path: the
lower bound. The mapping it spells, costed in full, is an edit path: the upper bound (Riesen and Bunke, 2009).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.compiler.jit import kernel
from samebits.distance.costs import Costs, as_costs, prices
from samebits.distance.graphs import coded, node_names
from samebits.distance.problem import TOLERANCE, Problem, build, improve, permutation_cost
from samebits.distance.result import EditDistance, mapping_of

MOST_NODES = 1000  # a cost for every pair of nodes, and an assignment in cubic time: about a second
EFFORT = 2_000_000  # terms of the local search: 10 to 20 ms


@kernel
def assign(cost: Array, row: Array, column: Array, u: Array, v: Array, reach: Array, via: Array, seen: Array) -> float:
    """The cheapest way to give each of r rows a column of its own, r ≤ c; its cost, or infinity.

    cost (r, c); column (r) is filled with each row's column, row (c) with each column's row or -1. u (r), v (c) are
    filled with prices: cost[i, j] - u[i] - v[j] ≥ 0, and 0 where assigned; v ≤ 0, and 0 where a column stays free. So
    cost + that difference is a lower bound for every assignment that uses i, j. reach, via, seen (c) are scratch.
    """
    r, c = cost.shape
    for j in range(c):
        v[j] = 0.0
        row[j] = -1
    for i in range(r):
        least = cost[i, 0]
        at = 0
        for j in range(1, c):
            if cost[i, j] < least:
                least = cost[i, j]
                at = j
        u[i] = least
        column[i] = -1
        if row[at] < 0:
            row[at] = i
            column[i] = at
    for start in range(r):
        if column[start] >= 0:
            continue
        # Dijkstra over columns, from the row that has none to a column that has no row.
        for j in range(c):
            reach[j] = np.inf
            seen[j] = 0
        i, far, end = start, 0.0, -1
        while end < 0:
            nearest, at = np.inf, -1
            base = far - u[i]
            for j in range(c):
                if seen[j] == 0:
                    d = base + cost[i, j] - v[j]
                    if d < reach[j]:
                        reach[j] = d
                        via[j] = i
                    if reach[j] < nearest or (reach[j] == nearest and at >= 0 and row[j] < 0):
                        nearest = reach[j]
                        at = j
            if at < 0:
                return np.inf
            far = nearest
            seen[at] = 1
            if row[at] < 0:
                end = at
            else:
                i = row[at]
        u[start] += far
        for j in range(c):
            if seen[j] == 1 and row[j] >= 0:
                u[row[j]] += far - reach[j]
                v[j] -= far - reach[j]
        while True:
            i = via[end]
            row[end] = i
            column[i], end = end, column[i]
            if i == start:
                break
    total = 0.0
    for i in range(r):
        total += cost[i, column[i]]
    return total


@kernel
def count_edge(edges: Array, i: int, out: int, into: int, change: int) -> None:
    """Add an edge each way to node i's counts, or take it away (change -1)."""
    if out > 0:
        edges[i, 0, out] += change
        edges[i, 0, 0] += change
    if into > 0:
        edges[i, 1, into] += change
        edges[i, 1, 0] += change


@kernel
def edge_counts(codes: Array, most: int) -> Array:
    K = codes.shape[0]
    edges = np.zeros((K, 2, most), np.int64)
    for i in range(K):
        for k in range(K):
            count_edge(edges, i, codes[i, k], codes[k, i], 1)
    return edges


@kernel
def star(p: Problem, mine: Array, its: Array) -> float:
    """The least that a row's edges cost, turned into a column's. mine, its (2, L+1) are their counts."""
    total = 0.0
    for way in range(1 + p.directed):
        pairs = min(mine[way, 0], its[way, 0])
        equal = 0
        for code in range(1, mine.shape[1]):
            equal += min(mine[way, code], its[way, code])
        total += equal * p.same + (pairs - equal) * p.other
        total += (mine[way, 0] - pairs) * p.delete + (its[way, 0] - pairs) * p.insert
    return total


@kernel
def star_costs(p: Problem, share: float) -> Array:
    """Cost of every row and column: its node, and this share of its star."""
    K = p.node.shape[0]
    edges_a, edges_b = edge_counts(p.a, p.edge.shape[0]), edge_counts(p.b, p.edge.shape[0])
    cost = np.empty((K, K))
    for i in range(K):
        for j in range(K):
            cost[i, j] = p.node[i, j] + share * star(p, edges_a[i], edges_b[j])
    return cost


@kernel
def rounded_up(p: Problem, lower: float) -> float:
    """A lower bound, raised to the next sum of costs that is possible."""
    if p.step == 0.0:
        return lower
    steps = lower / p.step
    return np.ceil(steps - TOLERANCE * steps) * p.step


def bounds(a: Any, b: Any, costs: Costs | None = None) -> EditDistance:
    """A lower and an upper bound of the graph edit distance, in polynomial time and always the same.

    Two assignments are costed as edit paths, of half stars (which gives the lower bound) and of whole stars; the
    cheaper one is improved by swapping pairs for a fixed number of steps.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import, and needed nowhere else

    asked = as_costs(costs)
    found = coded((("a", a), ("b", b)), MOST_NODES, "compare smaller parts")
    table = prices(asked, found.node_labels, found.edge_labels)
    p = build(found.nodes[0], found.adjacency[0], found.nodes[1], found.adjacency[1], found.directed, table)
    half = star_costs(p, 0.5)
    rows, best = linear_sum_assignment(half)
    lower = rounded_up(p, math.fsum(half[rows, best]))
    other = linear_sum_assignment(star_costs(p, 1.0))[1]
    if permutation_cost(p, other) < permutation_cost(p, best):
        best = other
    improve(p, best, EFFORT)
    upper = permutation_cost(p, best)
    lower = min(lower, upper)  # without a step the two may differ by rounding
    return EditDistance(lower, upper, lower == upper, mapping_of(p, best, node_names(a), node_names(b)), 0)
