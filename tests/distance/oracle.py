"""Random graphs, and what others say about them: networkx for distances, a plain sum for the cost of a mapping.

networkx 3.6 is wrong in two cases, which are held to the definition instead. Self-loops: of two nodes x and y, a loop
at x here and at y there, it says distance 0. Substitutions dearer than deleting and inserting: it misses cheaper paths.
"""

from __future__ import annotations

import itertools

import networkx as nx

from samebits.distance import Costs, Graph


def random_graph(rng, n, density=0.4, node_labels=3, edge_labels=1, directed=False, loops=False):
    def possible(i, j):
        return (i < j or (directed and i > j) or (loops and i == j)) and rng.random() < density

    edges = [(i, j) for i in range(n) for j in range(n) if possible(i, j)]
    labels = rng.integers(0, node_labels, n).tolist()
    return Graph(labels, edges, rng.integers(0, edge_labels, len(edges)).tolist(), directed)


def as_networkx(graph):
    found = nx.DiGraph() if graph.directed else nx.Graph()
    found.add_nodes_from((i, {"label": label}) for i, label in enumerate(graph.labels))
    labels = graph.edge_labels or [None] * len(graph.edges)
    found.add_edges_from((i, j, {"label": label}) for (i, j), label in zip(graph.edges, labels, strict=True))
    return found


def price(cost, a, b):
    """What a substitution costs by the definition in Costs."""
    if callable(cost):
        return cost(a, b)
    if hasattr(cost, "shape"):
        return cost[a, b]
    return cost * (a != b)


def networkx_distance(a, b, costs=None):
    costs = costs or Costs()
    return nx.graph_edit_distance(
        as_networkx(a),
        as_networkx(b),
        node_subst_cost=lambda x, y: price(costs.node_substitute, x["label"], y["label"]),
        node_del_cost=lambda x: costs.node_delete,
        node_ins_cost=lambda x: costs.node_insert,
        edge_subst_cost=lambda x, y: price(costs.edge_substitute, x["label"], y["label"]),
        edge_del_cost=lambda x: costs.edge_delete,
        edge_ins_cost=lambda x: costs.edge_insert,
    )


def edges_of(graph):
    """Edges as a dictionary; an undirected one under both of its directions."""
    labels = graph.edge_labels or [None] * len(graph.edges)
    found = dict(zip(map(tuple, graph.edges), labels, strict=True))
    return found if graph.directed else {**found, **{(j, i): label for (i, j), label in found.items()}}


def mapping_cost(a, b, mapping, costs=None):
    """The edit path a mapping stands for, added up edit by edit."""
    costs = costs or Costs()
    assert sorted(i for i, _ in mapping if i is not None) == list(range(len(a.labels)))
    assert sorted(j for _, j in mapping if j is not None) == list(range(len(b.labels)))
    image = {i: j for i, j in mapping if i is not None}
    total = 0.0
    for i, j in mapping:
        if i is None:
            total += costs.node_insert
        elif j is None:
            total += costs.node_delete
        else:
            total += price(costs.node_substitute, a.labels[i], b.labels[j])
    left, right = edges_of(a), edges_of(b)
    for (i, k), label in left.items():
        once = 1 if a.directed or i == k else 0.5
        target = (image[i], image[k])
        if target in right:
            both = costs.edge_delete + costs.edge_insert
            total += once * min(both, price(costs.edge_substitute, label, right[target]))
        else:
            total += once * costs.edge_delete
    kept = {(image[i], image[k]) for i, k in left}
    for i, k in right.keys() - kept:
        total += (1 if a.directed or i == k else 0.5) * costs.edge_insert
    return total


def least_mapping_cost(a, b, costs=None):
    """The distance by its definition: every way to map nodes, delete and insert."""
    n, m = len(a.labels), len(b.labels)
    found = []
    for columns in itertools.permutations([*range(m), *(None,) * n], n):
        rest = set(range(m)) - set(columns)
        found.append(mapping_cost(a, b, [*enumerate(columns), *((None, j) for j in rest)], costs))
    return min(found)
