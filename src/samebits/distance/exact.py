"""Exact graph edit distance, stopped on request."""

from __future__ import annotations

import functools
import math
import time
from typing import Any

import numpy as np

from samebits.checks import index_of, real, refuse
from samebits.distance.assignment import MOST_NODES as MOST_BOUNDED
from samebits.distance.costs import UNIT, Costs, as_costs, prices
from samebits.distance.graphs import coded, node_names
from samebits.distance.result import EditDistance, mapping_of
from samebits.distance.search import NODES, UPPER, proceed, proven, start

MOST_NODES = 100  # a cost for every depth, row and column: 8 MB; an exact answer is likely only far below
TOO_LARGE = f"samebits.distance.bounds takes up to {MOST_BOUNDED}"
UNLIMITED = 1 << 62
LONG_SLICE, SHORT_SLICE = 40_000_000, 2_000_000  # between looks at Ctrl-C and at the clock: 100 ms, 5 ms


def check_budget(budget: int | None) -> int:
    if budget is None:
        return UNLIMITED
    found = index_of(budget)
    if found is None or found < 0:
        raise refuse("budget", budget, "a whole number of search nodes from 0", "leave it out for none")
    return min(found, UNLIMITED)


def check_timeout(timeout: float | None) -> float:
    if timeout is None or (isinstance(timeout, float) and timeout == math.inf):
        return math.inf
    rule, remedy = "a number of seconds from 0", "leave it out for none"
    found = real("timeout", timeout, rule, remedy)
    if found < 0:
        raise refuse("timeout", timeout, rule, remedy)
    return found


@functools.cache
def load() -> None:
    """Load or compile the machine code once, so that a time-out counts the search and not the compiler."""
    node, edge = np.zeros(1, np.int64), np.zeros((1, 1), np.int64)
    p, s, _ = start(node, edge, node, edge, False, prices(UNIT, (), ()), 0)
    proceed(p, s, 1)
    proven(p, s)


def graph_edit_distance(
    a: Any, b: Any, costs: Costs | None = None, *, timeout: float | None = None, budget: int | None = None
) -> EditDistance:
    """The exact edit distance of two graphs, or its bounds when the search is stopped.

    timeout is in seconds; what is found by then depends on the machine. budget is in search nodes; what is found by
    then is always the same.
    """
    seconds, left, asked = check_timeout(timeout), check_budget(budget), as_costs(costs)
    found = coded((("a", a), ("b", b)), MOST_NODES, TOO_LARGE)
    table = prices(asked, found.node_labels, found.edge_labels)
    load()
    deadline = time.perf_counter() + seconds
    largest = max(nodes.size for nodes in found.nodes)
    nodes = max(1, (LONG_SLICE if timeout is None else SHORT_SLICE) // largest**3)
    first = 0 if timeout is not None else min(nodes, left)
    p, s, ended = start(
        found.nodes[0], found.adjacency[0], found.nodes[1], found.adjacency[1], found.directed, table, first
    )
    while not ended and s.state[NODES] < left and time.perf_counter() < deadline:
        ended = proceed(p, s, min(nodes, left - int(s.state[NODES])))
    upper = float(s.limits[UPPER])
    lower = upper if ended else proven(p, s)
    mapping = mapping_of(p, s.best, node_names(a), node_names(b))
    return EditDistance(lower, upper, lower == upper, mapping, int(s.state[NODES]))
