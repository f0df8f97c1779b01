"""Graphs as users give them, checked and turned into arrays.

labels (n)       number of each node's label
adjacency (n, n) 0 where there is no edge, else 1 + the number of its label; symmetric if undirected
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.checks import flag, index_of, refuse, row, text
from samebits.errors import SamebitsError
from samebits.printing import shown

EDGES_REMEDY = "write edges=[(0, 1), (1, 2)]"
MOST_EDGE_LABELS = 100  # different ones in one graph: a pair's are numbered in a byte


@dataclass(frozen=True)
class Graph:
    """A graph of nodes 0 … n - 1. Labels are anything hashable; without edge_labels all edges are alike.

    Self-loops are edges like others. Two edges between the same nodes (in the same direction) are refused.
    Labels are equal where Python says so: 1 and 1.0 are, 1 and "1" are not, nor 2**53 + 1 and 2.0**53. One exception:
    NaN is equal to NaN, in tuples too, and so is whatever else is unequal to itself.
    """

    labels: Sequence[Hashable]
    edges: Sequence[tuple[int, int]] = ()
    edge_labels: Sequence[Hashable] | None = None
    directed: bool = False

    def __post_init__(self) -> None:
        listed = {
            "labels": label_row("labels", self.labels, "node"),
            "edges": row("edges", self.edges, "a list of pairs of node numbers", EDGES_REMEDY),
            "edge_labels": None if self.edge_labels is None else label_row("edge_labels", self.edge_labels, "edge"),
        }
        # What can be read again stays what it is; the items of an iterator are kept.
        vars(self).update({name: found for name, found in listed.items() if isinstance(getattr(self, name), Iterator)})
        vars(self)["directed"] = flag("directed", self.directed)


def label_row(name: str, labels: Any, owner: str) -> list[Any]:
    rule = "a list of labels"
    if is_networkx(labels):  # its nodes would do for labels, and are not meant
        raise refuse(name, labels, rule, "turn a networkx graph into a Graph with from_networkx")
    return row(name, labels, rule, f"give one for each {owner}", letters=True)


def is_networkx(given: Any) -> bool:
    """networkx graphs are known by their methods: networkx need not be installed."""
    methods = ("is_multigraph", "is_directed", "nodes", "edges")
    return not isinstance(given, type) and all(hasattr(given, method) for method in methods)


def from_networkx(graph: Any, node_label: str = "label", edge_label: str = "label") -> Graph:
    """A Graph from a networkx graph: nodes in its order, labels from these attributes, None where there is none."""
    if not is_networkx(graph):
        raise refuse("graph", graph, "a networkx graph", "build others with Graph(labels, edges)")
    node_label, edge_label = text("node_label", node_label), text("edge_label", edge_label)
    if graph.is_multigraph():
        raise SamebitsError(
            "the graph is a multigraph; two nodes may have one edge between them, or one each way; join parallel edges"
        )
    number = {node: i for i, node in enumerate(graph)}
    labels = [data.get(node_label) for _, data in graph.nodes(data=True)]
    edges, edge_labels = [], []
    for a, b, data in graph.edges(data=True):
        edges.append((number[a], number[b]))
        edge_labels.append(data.get(edge_label))
    return Graph(labels, edges, edge_labels, bool(graph.is_directed()))


def as_graph(name: str, given: Any) -> Graph:
    """What a user gave, as a Graph."""
    if isinstance(given, Graph):
        return given
    if is_networkx(given):
        return from_networkx(given)
    raise SamebitsError(
        f"graph {name} is a {type(given).__name__}; it must be a samebits.distance.Graph or a networkx graph; "
        "build one with Graph(labels, edges)"
    )


def node_names(given: Any) -> list[Any]:
    """What the user calls the nodes, in our order."""
    return list(range(len(given.labels))) if isinstance(given, Graph) else list(given)


class Coded(NamedTuple):
    """Graphs as arrays, with labels numbered over all of them."""

    nodes: list[Array]
    adjacency: list[Array]
    directed: bool
    node_labels: list[Hashable]
    edge_labels: list[Hashable]


def coded(named: Iterable[tuple[str, Any]], most_nodes: int, remedy: str) -> Coded:
    """Check graphs and number their labels."""
    node_codes: dict[Hashable, int] = {}
    edge_codes: dict[Hashable, int] = {}
    nodes, adjacency = [], []
    first: tuple[str, bool] | None = None
    for name, given in named:
        graph = as_graph(name, given)
        first = first or (name, graph.directed)
        if graph.directed != first[1]:
            kinds = ("undirected", "directed")
            raise SamebitsError(
                f"graph {name} is {kinds[graph.directed]} and graph {first[0]} is {kinds[first[1]]}; a distance needs "
                "graphs of one kind; convert one of them"
            )
        check_size(f"graph {name}", len(graph.labels), most_nodes, remedy)
        nodes.append(np.array(codes_of(f"a node of graph {name}", graph.labels, node_codes), np.int64))
        adjacency.append(_adjacency(name, graph, edge_codes))
    return Coded(nodes, adjacency, first is not None and first[1], list(node_codes), list(edge_codes))


def check_size(what: str, nodes: int, most: int, remedy: str) -> None:
    if nodes == 0:
        raise SamebitsError(f"{what} has no nodes; it must have 1 to {most}; leave empty graphs out")
    if nodes > most:
        raise SamebitsError(f"{what} has {nodes} nodes; it must have 1 to {most}; {remedy}")


def codes_of(what: str, labels: Iterable[Hashable], known: dict[Hashable, int]) -> list[int]:
    """Labels as numbers in order of appearance, equal where the labels are; known is added to."""
    found = []
    for label in labels:
        try:
            number = known.get(label)
            found.append(known.setdefault(_key(label), len(known)) if number is None else number)
        except TypeError:
            raise SamebitsError(
                f"{what} has the label {shown(label)}; a label must be hashable; use text or a tuple"
            ) from None
    return found


def _key(label: Any) -> Any:
    """The label as a dictionary can find it: every NaN by the same one, for it finds others by identity alone."""
    if isinstance(label, tuple):
        keys = tuple(map(_key, label))
        return label if all(map(is_, keys, label)) else keys
    unequal = label != label
    return math.nan if isinstance(unequal, bool | np.bool_) and unequal else label


def edge_ends(name: str, graph: Graph) -> Iterator[tuple[int, int]]:
    """The edges as pairs of node numbers that exist."""
    n = len(graph.labels)
    for edge in graph.edges:
        try:
            first, second = edge
            i, j = index_of(first), index_of(second)
        except (TypeError, ValueError):
            i = j = None
        if i is None or j is None:
            raise SamebitsError(
                f"graph {name} has the edge {shown(edge)}; an edge must be two node numbers; {EDGES_REMEDY}"
            )
        if not (0 <= i < n and 0 <= j < n):
            raise SamebitsError(
                f"graph {name} has the edge ({shown(i)}, {shown(j)}); its nodes are 0 to {n - 1}; number them from 0"
            )
        yield i, j


def _adjacency(name: str, graph: Graph, known: dict[Hashable, int]) -> Array:
    n, count = len(graph.labels), len(graph.edges)
    edge_labels = (None,) * count if graph.edge_labels is None else graph.edge_labels
    if len(edge_labels) != count:
        raise SamebitsError(
            f"graph {name} has {count} edges and {len(edge_labels)} edge labels; give one label an edge"
        )
    codes = codes_of(f"an edge of graph {name}", edge_labels, known)
    different = len(set(codes))
    if different > MOST_EDGE_LABELS:
        raise SamebitsError(
            f"graph {name} has {different} different edge labels; it may have {MOST_EDGE_LABELS}; round or group them"
        )
    at: dict[int, int] = {}
    for (i, j), code in zip(edge_ends(name, graph), codes, strict=True):
        if i * n + j in at:
            raise SamebitsError(
                f"graph {name} has the edge ({i}, {j}) twice; two nodes may have one; join parallel edges"
            )
        at[i * n + j] = code + 1
        if not graph.directed:
            at[j * n + i] = code + 1
    found = np.zeros(n * n, np.int64)
    found[list(at.keys())] = list(at.values())
    return found.reshape(n, n)


def as_tree(name: str, given: Any) -> tuple[Any, Any]:
    """Labels and parents in pre-order, of a directed graph whose edges run from parents to children in order.

    A pair (labels, parents) is taken as it is.
    """
    if isinstance(given, tuple) and len(given) == 2:
        return given
    graph, names = as_graph(name, given), node_names(given)
    if not graph.directed:
        raise SamebitsError(
            f"tree {name} is an undirected graph, so nothing says which node is its root; give a directed one whose "
            "edges run from parents to children"
        )
    children: list[list[int]] = [[] for _ in graph.labels]
    parent: dict[int, int] = {}
    for above, below in edge_ends(name, graph):
        if above == below:
            raise _cycle(name, names[below])
        if below in parent:
            raise SamebitsError(
                f"node {names[below]!r} of tree {name} has two parents, {names[parent[below]]!r} and "
                f"{names[above]!r}; a tree's nodes have one; copy what is shared"
            )
        parent[below] = above
        children[above].append(below)
    roots = [i for i in range(len(children)) if i not in parent]
    if len(roots) > 1:
        raise SamebitsError(
            f"tree {name} has {len(roots)} roots, {names[roots[0]]!r} and {names[roots[1]]!r} among them; "
            "a tree has one; join them under a new root"
        )
    order: list[int] = []
    above_of: list[int] = []
    waiting = [(root, -1) for root in roots]
    while waiting:
        node, above = waiting.pop()
        waiting += [(child, len(order)) for child in reversed(children[node])]
        order.append(node)
        above_of.append(above)
    if len(order) < len(children):
        looped = min(set(range(len(children))) - set(order))
        raise _cycle(name, names[looped])
    return [graph.labels[node] for node in order], np.array(above_of, np.int64)


def _cycle(name: str, node: Any) -> SamebitsError:
    return SamebitsError(f"tree {name} has a cycle around node {node!r}; a tree has none; remove an edge of it")
