"""The search for an exact graph edit distance: depth-first branch and bound over the rows of a Problem.

d          depth: d rows are mapped; r = R - d rows and c = K - d columns are free
rows, columns (R+1, …)   the free ones at each depth
base (R+1, R, K)         cost of mapping a free row to a free column: its node and its edges to all mapped rows
lost (R+1, K)            the same for leaving a free column to padding: its insertion
edges_a, edges_b (K, 2, L+1)   counts of edges, as in assignment.py, but only between free nodes

Edges to mapped nodes are priced exactly, edges between free nodes by half stars. The cheapest assignment of free rows
to free columns bounds from below everything that can follow, its prices bound every single choice, and the mapping it
spells is a candidate. The row with the fewest choices left is mapped next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.compiler.jit import kernel
from samebits.distance.assignment import assign, count_edge, edge_counts, rounded_up, star
from samebits.distance.costs import Prices
from samebits.distance.problem import TOLERANCE, Problem, build, improve, permutation_cost

EFFORT = 100_000  # terms of the first local search: 1 ms, so that a short time-out is honoured


class Search(NamedTuple):
    """Everything a stopped search needs to go on."""

    rows: Array
    columns: Array
    base: Array
    lost: Array
    spent: Array  # (R+1) cost of the mapped rows among themselves
    edges_a: Array
    edges_b: Array
    children: Array  # (R+1, K) columns to try for the branching row
    bounds: Array  # (R+1, K) and what they cost at least
    branch: Array  # (R+1, 4): position of the branching row, children, next child, position of the child below
    best: Array  # (K) the best permutation known
    limits: Array  # upper bound; a branch that costs at least the second is cut
    state: Array  # depth, nodes searched
    cost: Array
    row: Array
    column: Array
    u: Array
    v: Array
    reach: Array
    via: Array
    seen: Array
    trial: Array


UPPER, CUT = range(2)
DEPTH, NODES = range(2)
ENDED, NOT_BEGUN = -1, -2  # depths
ROW, CHILDREN, NEXT, CHILD = range(4)


@kernel
def new_search(p: Problem) -> Search:
    R, K, L = p.rows, p.node.shape[0], p.edge.shape[0]
    s = Search(
        np.empty((R + 1, R), np.int64),
        np.empty((R + 1, K), np.int64),
        np.empty((R + 1, R, K)),
        np.empty((R + 1, K)),
        np.empty(R + 1),
        edge_counts(p.a, L),
        edge_counts(p.b, L),
        np.empty((R + 1, K), np.int64),
        np.empty((R + 1, K)),
        np.empty((R + 1, 4), np.int64),
        np.empty(K, np.int64),
        np.empty(2),
        np.zeros(2, np.int64),
        np.empty((R, K)),
        np.empty(K, np.int64),
        np.empty(K, np.int64),
        np.empty(K),
        np.empty(K),
        np.empty(K),
        np.empty(K, np.int64),
        np.empty(K, np.int64),
        np.empty(K, np.int64),
    )
    s.spent[0] = 0.0
    s.limits[UPPER] = s.limits[CUT] = np.inf
    s.state[DEPTH] = NOT_BEGUN
    for j in range(K):
        s.best[j] = s.columns[0, j] = j
        s.lost[0, j] = p.node[R, j] if R < K else 0.0
    # Nodes of many edges first: among rows with equally few choices they decide most.
    for i in range(R):
        x = i
        while x > 0 and degree(s, s.rows[0, x - 1]) < degree(s, i):
            s.rows[0, x] = s.rows[0, x - 1]
            x -= 1
        s.rows[0, x] = i
    for x in range(R):
        for j in range(K):
            s.base[0, x, j] = p.node[s.rows[0, x], j]
    return s


@kernel
def degree(s: Search, i: int) -> int:
    return s.edges_a[i, 0, 0] + s.edges_a[i, 1, 0]


@kernel
def count_edges(p: Problem, s: Search, d: int, i: int, j: int, change: int) -> None:
    """Row i and column j are taken (change -1) or free again (1): what is free at depth d loses or regains edges."""
    for x in range(p.rows - d):
        k = s.rows[d, x]
        count_edge(s.edges_a, k, p.a[k, i], p.a[i, k], change)
    for y in range(p.node.shape[0] - d):
        k = s.columns[d, y]
        count_edge(s.edges_b, k, p.b[k, j], p.b[j, k], change)


@kernel
def lower_bound(p: Problem, s: Search, d: int) -> float:
    """Of all mappings that go on from depth d; leaves the assignment and its prices in the search."""
    r, c = p.rows - d, p.node.shape[0] - d
    total = s.spent[d]
    cost = s.cost[:r, :c]
    for y in range(c):
        j = s.columns[d, y]
        free = s.edges_b[j, 0, 0]
        if p.directed:
            free += s.edges_b[j, 1, 0]
        gone = s.lost[d, y] + 0.5 * p.insert * free
        total += gone
        for x in range(r):
            cost[x, y] = s.base[d, x, y] + 0.5 * star(p, s.edges_a[s.rows[d, x]], s.edges_b[j]) - gone
    return total + assign(cost, s.row, s.column, s.u, s.v, s.reach, s.via, s.seen)


@kernel
def cut_above(p: Problem, upper: float) -> float:
    """A branch is worth nothing unless its lower bound stays below: it must beat the best by a whole step."""
    slack = TOLERANCE * upper
    return upper - slack if p.step == 0.0 else upper - p.step + slack


@kernel
def offer(p: Problem, s: Search, column: Array) -> None:
    """Keep a permutation if it is the best so far."""
    cost = permutation_cost(p, column)
    if cost < s.limits[UPPER]:
        s.limits[UPPER] = cost
        s.limits[CUT] = cut_above(p, cost)
        for i in range(column.size):
            s.best[i] = column[i]


@kernel
def spell(p: Problem, s: Search, d: int) -> None:
    """The whole permutation that the assignment at depth d means, in trial."""
    r, c = p.rows - d, p.node.shape[0] - d
    for above in range(d):
        x, y = s.branch[above, ROW], s.branch[above, CHILD]
        s.trial[s.rows[above, x]] = s.columns[above, y]
    for x in range(r):
        s.trial[s.rows[d, x]] = s.columns[d, s.column[x]]
    at = p.rows
    for y in range(c):
        if s.row[y] < 0:
            s.trial[at] = s.columns[d, y]
            at += 1


@kernel
def evaluate(p: Problem, s: Search, d: int) -> bool:
    """Bound the node at depth d, and if it is worth it choose a row to branch on and list its children."""
    r, c = p.rows - d, p.node.shape[0] - d
    bound = lower_bound(p, s, d)
    if bound >= s.limits[CUT]:
        return False
    spell(p, s, d)
    if d == 0:
        improve(p, s.trial, EFFORT)
    offer(p, s, s.trial)
    cut = s.limits[CUT]
    if bound >= cut or r == 1:  # with one row left the bound was the cost
        return False

    # A choice that cannot beat the best here cannot further down either. Padding columns are all alike: one choice.
    fewest, at = c + 1, 0
    for x in range(r):
        alive = padding = 0
        for y in range(c):
            if bound + s.cost[x, y] - s.u[x] - s.v[y] >= cut:
                s.base[d, x, y] = np.inf
            elif s.columns[d, y] >= p.columns:
                padding = 1
            else:
                alive += 1
        if alive + padding < fewest:
            fewest, at = alive + padding, x
    if fewest == 0:
        return False
    count = padding = 0
    for y in range(c):
        if s.base[d, at, y] == np.inf:
            continue
        if s.columns[d, y] >= p.columns:
            padding += 1
            if padding > 1:
                continue
        value = bound + s.cost[at, y] - s.u[at] - s.v[y]
        k = count
        while k > 0 and s.bounds[d, k - 1] > value:
            s.bounds[d, k] = s.bounds[d, k - 1]
            s.children[d, k] = s.children[d, k - 1]
            k -= 1
        s.bounds[d, k] = value
        s.children[d, k] = y
        count += 1
    s.branch[d, ROW] = at
    s.branch[d, CHILDREN] = count
    s.branch[d, NEXT] = 0
    return True


@kernel
def descend(p: Problem, s: Search, d: int) -> None:
    """Map the branching row of depth d to its next child; what is free then stands at depth d + 1."""
    x, y = s.branch[d, ROW], s.children[d, s.branch[d, NEXT]]
    s.branch[d, NEXT] += 1
    s.branch[d, CHILD] = y
    i, j = s.rows[d, x], s.columns[d, y]
    s.spent[d + 1] = s.spent[d] + s.base[d, x, y]
    r, c = p.rows - d - 1, p.node.shape[0] - d - 1
    for v in range(c):
        w = v + (v >= y)
        z = s.columns[d, w]
        s.columns[d + 1, v] = z
        extra = p.edge[0, p.b[j, z]]
        if p.directed:
            extra += p.edge[0, p.b[z, j]]
        s.lost[d + 1, v] = s.lost[d, w] + extra
    for u in range(r):
        w = u + (u >= x)
        k = s.rows[d, w]
        s.rows[d + 1, u] = k
        for v in range(c):
            z = s.columns[d + 1, v]
            extra = p.edge[p.a[i, k], p.b[j, z]]
            if p.directed:
                extra += p.edge[p.a[k, i], p.b[z, j]]
            s.base[d + 1, u, v] = s.base[d, w, v + (v >= y)] + extra
    count_edges(p, s, d + 1, i, j, -1)


@kernel
def ascend(p: Problem, s: Search, d: int) -> None:
    """Undo descend to depth d."""
    i, j = s.rows[d - 1, s.branch[d - 1, ROW]], s.columns[d - 1, s.branch[d - 1, CHILD]]
    count_edges(p, s, d, i, j, 1)


@kernel
def proceed(p: Problem, s: Search, nodes: int) -> bool:
    """Search at most so many more nodes, the root not counted; whether the search has ended."""
    d = s.state[DEPTH]
    while d == NOT_BEGUN or (d != ENDED and nodes > 0):
        if d == NOT_BEGUN:
            if p.rows == p.columns:
                offer(p, s, s.best)  # the nodes as they are numbered: a graph is at once found equal to itself
            below = 0
        elif s.branch[d, NEXT] < s.branch[d, CHILDREN] and s.bounds[d, s.branch[d, NEXT]] < s.limits[CUT]:
            descend(p, s, d)
            below = d + 1
            nodes -= 1
            s.state[NODES] += 1
        else:
            if d > 0:
                ascend(p, s, d)
            d -= 1
            continue
        if evaluate(p, s, below):
            d = below
        elif below > 0:
            ascend(p, s, below)
        else:
            d = ENDED
    s.state[DEPTH] = d
    return d == ENDED


@kernel
def proven(p: Problem, s: Search) -> float:
    """The lower bound known so far: the least of all branches still open, or the upper bound when there are none."""
    lower = s.limits[UPPER]
    for d in range(s.state[DEPTH] + 1):
        for k in range(s.branch[d, NEXT], s.branch[d, CHILDREN]):
            lower = min(lower, s.bounds[d, k])
    return min(rounded_up(p, lower), s.limits[UPPER])


@kernel
def start(
    nodes_a: Array, edges_a: Array, nodes_b: Array, edges_b: Array, directed: bool, prices: Prices, nodes: int
) -> tuple[Problem, Search, bool]:
    """Build the problem of two coded graphs and search its first nodes."""
    p = build(nodes_a, edges_a, nodes_b, edges_b, directed, prices)
    s = new_search(p)
    return p, s, proceed(p, s, nodes)
