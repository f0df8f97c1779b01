"""Exact graph edit distance, stopped on request."""

from __future__ import annotations

import functools
import math
import time
from typing import Any

import numpy as np

from samebits.distance.assignment import MOST_NODES as MOST_BOUNDED
from samebits.distance.costs import UNIT, Costs, prices
from samebits.distance.graphs import coded, node_names
from samebits.distance.result import EditDistance, mapping_of
from samebits.distance.search import NODES, UPPER, proceed, proven, start
from samebits.errors import SamebitsError

MOST_NODES = 100  # a cost for every depth, row and column: 8 MB; an exact answer is likely only far below
TOO_LARGE = f"samebits.distance.bounds takes up to {MOST_BOUNDED}"
UNLIMITED = 1 << 62
LONG_SLICE, SHORT_SLICE = 40_000_000, 2_000_000  # between looks at Ctrl-C and at the clock: 100 ms, 5 ms


def check_budget(budget: int | None) -> int:
    if budget is None:
        return UNLIMITED
    if not isinstance(budget, int | np.integer) or isinstance(budget, bool) or budget < 0:
        raise SamebitsError(
            f"budget is {budget!r}; it must be a whole number of search nodes from 0; leave it out for none"
        )
    return min(int(budget), UNLIMITED)


def check_timeout(timeout: float | None) -> float:
    if timeout is None:
        return math.inf
    if isinstance(timeout, bool) or not isinstance(timeout, int | float | np.number) or not timeout >= 0:
        raise SamebitsError(f"timeout is {timeout!r}; it must be a number of seconds from 0; leave it out for none")
    return float(timeout)


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
    load()
    deadline = time.perf_counter() + check_timeout(timeout)
    left = check_budget(budget)
    found = coded((("a", a), ("b", b)), MOST_NODES, TOO_LARGE)
    table = prices(costs or UNIT, found.node_labels, found.edge_labels)
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
