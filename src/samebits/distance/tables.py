"""Distances of many pairs, on all workers. Pairs are handed out one by one; who computes one changes nothing.

G, P          graphs, pairs
pairs (P, 2)  numbers of the graphs to compare, the largest first, so that no worker is left with one at the end
found (P, 2)  lower and upper bound of each pair
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.checks import refuse, row
from samebits.compiler.jit import kernel
from samebits.devices.cpu.sync import claim
from samebits.devices.cpu.workers import Workers, workers_for
from samebits.distance.costs import Costs, Prices, as_costs, prices, symmetric
from samebits.distance.exact import LONG_SLICE, MOST_NODES, TOO_LARGE, check_budget, load
from samebits.distance.graphs import coded
from samebits.distance.problem import Problem
from samebits.distance.search import NODES, UPPER, Search, proceed, proven, start
from samebits.distance.trees import SLICE, Comparison, TreePrices, coded_tree, compare_keys, comparison
from samebits.errors import SamebitsError

KINDS = ("graph", "tree")
DONE, MORE = -1, -2  # instead of a pair: there is none left; the slice's work is done


@dataclass(frozen=True)
class Distances:
    """lower ≤ true distance ≤ upper, one row a graph and one column a graph it is compared with."""

    lower: Array
    upper: Array

    @property
    def exact(self) -> Array:
        """Where the two are equal."""
        return self.lower == self.upper

    @property
    def distance(self) -> Array:
        """The exact distances, or the best known where the budget ended a search."""
        return self.upper


class Packed(NamedTuple):
    """Many graphs, or trees, as one row of labels and one of edge codes, or parents."""

    labels: Array
    links: Array
    label_start: Array  # (G+1)
    link_start: Array  # (G+1)


def pack(labels: Sequence[Array], links: Sequence[Array]) -> Packed:
    starts = [np.cumsum([0, *(part.size for part in parts)], dtype=np.int64) for parts in (labels, links)]
    return Packed(np.concatenate(labels), np.concatenate([link.ravel() for link in links]), starts[0], starts[1])


@kernel
def part(packed: Packed, g: int) -> tuple[Array, Array]:
    labels = packed.labels[packed.label_start[g] : packed.label_start[g + 1]]
    return labels, packed.links[packed.link_start[g] : packed.link_start[g + 1]]


@kernel
def graph_pairs(
    tickets: Array, found: Array, packed: Packed, pairs: Array, directed: bool, prices: Prices, budget: int, work: int
) -> tuple[int, Problem, Search]:
    """Compare pairs for about so much work. DONE, MORE, or a pair that takes longer, with its search so far."""
    last = found.shape[0] - 1
    while True:
        pair = claim(tickets)
        # When none is left the smallest is begun once more: a search must be returned, and one call compiles faster.
        a, links_a = part(packed, pairs[min(pair, last), 0])
        b, links_b = part(packed, pairs[min(pair, last), 1])
        cubic = max(a.size, b.size) ** 3
        nodes = min(budget, work // cubic) if pair <= last else 0
        edges_a, edges_b = links_a.reshape(a.size, a.size), links_b.reshape(b.size, b.size)
        p, s, ended = start(a, edges_a, b, edges_b, directed, prices, nodes)
        if pair > last:
            return DONE, p, s
        if not ended and s.state[NODES] < budget:
            return pair, p, s
        found[pair, 0], found[pair, 1] = proven(p, s), s.limits[UPPER]
        work -= cubic * (1 + s.state[NODES])
        if work <= 0:
            return MORE, p, s


@kernel
def tree_pairs(
    tickets: Array, found: Array, packed: Packed, pairs: Array, prices: Prices, cells: int
) -> tuple[int, Comparison, int]:
    """The same for trees; a pair that takes longer comes with its tables and the number of its next key pair."""
    insert, delete = prices.single[0], prices.single[1]
    last = found.shape[0] - 1
    while True:
        pair = claim(tickets)
        a, above = part(packed, pairs[min(pair, last), 0])
        b, over = part(packed, pairs[min(pair, last), 1])
        tree_prices = TreePrices(prices.nodes, prices.node_constant, 0.0, delete, insert)
        t = comparison(a, above, b, over, tree_prices)
        if pair > last:
            return DONE, t, 0
        following = compare_keys(t, 0, cells)
        if following >= 0:
            return pair, t, following
        found[pair, 0] = found[pair, 1] = t.tree[0, 0]
        cells -= t.key_a.size * t.key_b.size + a.size * b.size
        if cells <= 0:
            return MORE, t, 0


def shared(team: Workers, body: Callable[[Array, Array], None]) -> None:
    """Run body(tickets, stop) on every worker. An error in one, or Ctrl-C, stops the others at their next slice."""
    stop = np.zeros(1, np.bool_)
    tickets = team.tickets()

    def guarded(worker: int) -> None:
        try:
            body(tickets, stop)
        except BaseException:
            stop[0] = True
            raise

    team.run(guarded)


def compare_graphs(
    team: Workers, named: Sequence[tuple[str, Any]], pairing: Callable[[Array, bool], Array], costs: Costs, budget: int
) -> tuple[Array, Array]:
    graphs = coded(named, MOST_NODES, TOO_LARGE)
    found_prices = prices(costs, graphs.node_labels, graphs.edge_labels)
    load()
    pairs = pairing(np.array([nodes.size for nodes in graphs.nodes]), symmetric(found_prices))
    packed = pack(graphs.nodes, graphs.adjacency)
    found = np.empty(pairs.shape)

    def body(tickets: Array, stop: Array) -> None:
        while not stop[0]:
            pair, p, s = graph_pairs(tickets, found, packed, pairs, graphs.directed, found_prices, budget, LONG_SLICE)
            if pair == DONE:
                return
            nodes = max(1, LONG_SLICE // p.node.shape[0] ** 3)
            while pair != MORE and not stop[0]:
                left = budget - int(s.state[NODES])
                if proceed(p, s, min(nodes, left)) or left <= nodes:
                    found[pair] = proven(p, s), s.limits[UPPER]
                    break

    shared(team, body)
    return pairs, found


def compare_trees(
    team: Workers, named: Sequence[tuple[str, Any]], pairing: Callable[[Array, bool], Array], costs: Costs
) -> tuple[Array, Array]:
    known: dict[Any, int] = {}
    trees = [coded_tree(name, given, known) for name, given in named]
    found_prices = prices(costs, list(known), ())
    pairs = pairing(np.array([labels.size for labels, _ in trees]), symmetric(found_prices))
    packed = pack([labels for labels, _ in trees], [parents for _, parents in trees])
    found = np.empty(pairs.shape)

    def body(tickets: Array, stop: Array) -> None:
        while not stop[0]:
            pair, t, following = tree_pairs(tickets, found, packed, pairs, found_prices, SLICE)
            if pair == DONE:
                return
            while pair != MORE and not stop[0]:
                following = compare_keys(t, following, SLICE)
                if following < 0:
                    found[pair] = t.tree[0, 0]
                    break

    shared(team, body)
    return pairs, found


def matrix(
    graphs: Sequence[Any],
    others: Sequence[Any] | None = None,
    costs: Costs | None = None,
    *,
    kind: str = "graph",
    budget: int | None = None,
    workers: str | int | Workers = "auto",
) -> Distances:
    """Distances of every graph to every one of the others, or to every one of themselves.

    kind "tree" compares ordered trees. budget is in search nodes for each pair. The result is the same for any number
    of workers; that is why there is no time-out here.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise refuse("kind", kind, "'graph' or 'tree'")
    if kind == "tree" and budget is not None:
        raise SamebitsError("budget is for graphs; the distance of trees is always exact; leave it out")
    most, asked = check_budget(budget), as_costs(costs)
    named = [(str(i), graph) for i, graph in enumerate(row("graphs", graphs, f"a list of {kind}s"))]
    G = len(named)
    if others is not None:
        named += [(f"{i} of others", graph) for i, graph in enumerate(row("others", others, f"a list of {kind}s"))]
    H = len(named) - G
    if G == 0 or (others is not None and H == 0):
        raise SamebitsError(f"{'graphs' if G == 0 else 'others'} is empty; give at least one graph")

    def pairing(sizes: Array, same_both_ways: bool) -> Array:
        if others is not None:
            pairs = np.stack(np.divmod(np.arange(G * H), H), axis=1) + np.array([0, G])
        elif same_both_ways:
            pairs = np.stack(np.triu_indices(G), axis=1)
        else:
            pairs = np.stack(np.divmod(np.arange(G * G), G), axis=1)
        return np.ascontiguousarray(pairs[np.argsort(-sizes[pairs].prod(axis=1), kind="stable")])

    with workers_for(workers) as team:
        if kind == "graph":
            pairs, found = compare_graphs(team, named, pairing, asked, most)
        else:
            pairs, found = compare_trees(team, named, pairing, asked)
    result = np.empty((2, G, H or G))
    i, j = pairs[:, 0], pairs[:, 1] - (G if others is not None else 0)
    if others is None:
        result[:, j, i] = found.T
    result[:, i, j] = found.T
    return Distances(result[0], result[1])
