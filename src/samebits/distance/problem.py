"""One pair of graphs as the search sees it: a square assignment of rows to columns.

R      nodes of the smaller graph: the rows that are searched
K      columns: the larger graph's nodes. The rows are filled up with padding, and a node mapped to it is inserted.
       Where deleting and inserting may be cheaper than substituting, R padding columns follow, and a row mapped there
       is deleted
node (K, K)      cost of mapping a row to a column, self-loops included
a, b (K, K)      edge codes of the smaller and the larger graph; 0 for no edge, on the diagonal and in padding
edge (L+1, L+1)  cost of turning one edge code into another

The cost of a permutation p is Σ node[i, p(i)] + Σ over pairs i < k of edge[a[i, k], b[p(i), p(k)]], and for directed
graphs the same against the arrows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.compiler.jit import kernel
from samebits.distance.costs import Prices

TOLERANCE = 1e-9  # relative: sums of costs nearer than this are equal


class Problem(NamedTuple):
    rows: int
    columns: int  # nodes of the larger graph
    swapped: bool
    directed: bool
    node: Array
    a: Array
    b: Array
    edge: Array
    same: float  # least cost of an edge substitution that keeps the label
    other: float  # and of one that changes it
    delete: float
    insert: float
    step: float  # all sums of costs are multiples of this; 0 if unknown


@kernel
def substitution(table: Array, constant: bool, a: int, b: int) -> float:
    if constant:
        return 0.0 if a == b else table[0, 0]
    return table[a, b]


@kernel
def build(nodes_a: Array, edges_a: Array, nodes_b: Array, edges_b: Array, directed: bool, prices: Prices) -> Problem:
    """The problem of two coded graphs; the smaller one becomes the rows."""
    swapped = nodes_a.size > nodes_b.size
    small, large = (nodes_b, nodes_a) if swapped else (nodes_a, nodes_b)
    small_edges, large_edges = (edges_b, edges_a) if swapped else (edges_a, edges_b)
    n, m = small.size, large.size
    node_insert, node_delete, insert, delete = prices.single[0], prices.single[1], prices.single[2], prices.single[3]
    if swapped:
        node_delete, node_insert, delete, insert = node_insert, node_delete, insert, delete

    # Edge labels of this pair, numbered from 1.
    most = 0
    for i in range(n):
        for k in range(n):
            most = max(most, small_edges[i, k])
    for j in range(m):
        for k in range(m):
            most = max(most, large_edges[j, k])
    local, codes = np.zeros(most + 1, np.uint8), np.zeros(most + 1, np.int64)
    count = 0
    for edges in (small_edges, large_edges):
        for i in range(edges.shape[0]):
            for k in range(edges.shape[0]):
                code = edges[i, k]
                if code > 0 and local[code] == 0:
                    codes[count] = code - 1
                    count += 1
                    local[code] = count
    edge = np.zeros((count + 1, count + 1))
    same = other = delete + insert
    for p in range(count):
        edge[p + 1, 0], edge[0, p + 1] = delete, insert
        for q in range(count):
            first, second = (codes[q], codes[p]) if swapped else (codes[p], codes[q])
            price = substitution(prices.edges, prices.edge_constant, first, second)
            edge[p + 1, q + 1] = min(price, delete + insert)
            if p == q:
                same = min(same, price)
            else:
                other = min(other, price)
    same = min(same, other)

    # Where no substitution costs more than deleting and inserting, some optimal mapping deletes no row at all.
    node = np.empty((n, m))
    out, into = np.empty(n), np.empty(m)
    for i in range(n):
        out[i] = node_delete + edge[local[small_edges[i, i]], 0]
    for j in range(m):
        into[j] = node_insert + edge[0, local[large_edges[j, j]]]
    whole = True
    for i in range(n):
        for j in range(m):
            first, second = (large[j], small[i]) if swapped else (small[i], large[j])
            price = substitution(prices.nodes, prices.node_constant, first, second)
            node[i, j] = price + edge[local[small_edges[i, i]], local[large_edges[j, j]]]
            whole = whole and node[i, j] <= out[i] + into[j]
    K = m if whole else m + n
    square = np.zeros((K, K))
    a, b = np.zeros((K, K), np.uint8), np.zeros((K, K), np.uint8)
    for i in range(K):
        for j in range(K):
            if i < n and j < m:
                square[i, j] = node[i, j]
            elif i < n:
                square[i, j] = out[i]
            elif j < m:
                square[i, j] = into[j]
            if i < n and j < n and i != j:
                a[i, j] = local[small_edges[i, j]]
            if i < m and j < m and i != j:
                b[i, j] = local[large_edges[i, j]]
    return Problem(n, m, swapped, directed, square, a, b, edge, same, other, delete, insert, prices.step)


@kernel
def permutation_cost(p: Problem, column: Array) -> float:
    """What mapping every row i to column[i] costs, padding included: a valid edit path, so an upper bound."""
    total = 0.0
    K = column.size
    for i in range(K):
        j = column[i]
        total += p.node[i, j]
        for k in range(i):
            total += p.edge[p.a[i, k], p.b[j, column[k]]]
            if p.directed:
                total += p.edge[p.a[k, i], p.b[column[k], j]]
    return total


@kernel
def swap_gain(p: Problem, column: Array, i: int, k: int) -> float:
    """How much cheaper the permutation becomes when rows i and k change places."""
    x, y = column[i], column[k]
    gain = p.node[i, x] + p.node[k, y] - p.node[i, y] - p.node[k, x]
    for w in range(column.size):
        if w in (i, k):
            continue
        z = column[w]
        gain += p.edge[p.a[i, w], p.b[x, z]] + p.edge[p.a[k, w], p.b[y, z]]
        gain -= p.edge[p.a[i, w], p.b[y, z]] + p.edge[p.a[k, w], p.b[x, z]]
        if p.directed:
            gain += p.edge[p.a[w, i], p.b[z, x]] + p.edge[p.a[w, k], p.b[z, y]]
            gain -= p.edge[p.a[w, i], p.b[z, y]] + p.edge[p.a[w, k], p.b[z, x]]
    if p.directed:
        gain += p.edge[p.a[i, k], p.b[x, y]] + p.edge[p.a[k, i], p.b[y, x]]
        gain -= p.edge[p.a[i, k], p.b[y, x]] + p.edge[p.a[k, i], p.b[x, y]]
    return gain


@kernel
def improve(p: Problem, column: Array, effort: int) -> None:
    """Swap pairs of rows while that helps, for at most `effort` terms looked at."""
    K = column.size
    slack = TOLERANCE * permutation_cost(p, column)
    better = True
    while better:
        better = False
        for i in range(p.rows):
            for k in range(i + 1, K):
                effort -= K
                if effort < 0:
                    return
                if swap_gain(p, column, i, k) > slack:
                    column[i], column[k] = column[k], column[i]
                    better = True
