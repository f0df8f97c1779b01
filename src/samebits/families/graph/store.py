"""Graphs and sizes as the kernels see them: flat arrays."""

from __future__ import annotations

from typing import NamedTuple

from samebits.arithmetic.arrays import Array
from samebits.compiler.jit import kernel


class Store(NamedTuple):
    """Graphs, one after the other. Edges name nodes by their number in the graph."""

    nodes: Array  # (graphs + 1,) where each graph's nodes begin
    row_starts: Array  # (nodes + 1,) CSR over …
    rows: Array  # … feature rows of `embed`: one for each place a node stands in
    edge_starts: Array  # (M, nodes + 1) CSR over …
    edges: Array  # (M, edges) … neighbours
    targets: Array  # (nodes, 4) the class each head should choose
    labels: Array  # (nodes,) label numbers
    parents: Array  # (nodes,) parents in the tree, −1 for its root
    next_nodes: Array  # (graphs + 1,) the same of the graphs they should become …
    next_labels: Array
    next_parents: Array


class Sizes(NamedTuple):
    """What the kernels need to know of a config."""

    width: int
    layers: int
    kinds: int
    embed: int  # rows
    heads: tuple[int, int, int, int]
    classes: int  # C
    relu: bool
    sinkhorn: float
    sinkhorn_steps: int
    temperature: float
    gives: Array  # (labels,) the action head's class, less FIRST_LABEL, that gives a label; −1 where none does


@kernel
def unit_size(store: Store, chosen: Array, first: int, last: int) -> int:
    n = 0
    for g in chosen[first:last]:
        n += store.nodes[g + 1] - store.nodes[g]
    return n
