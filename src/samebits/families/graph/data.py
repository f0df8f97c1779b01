"""Training pairs as flat CSR arrays, made once; a batch is a list of numbers, drawn by (seed, step)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array, frozen
from samebits.arithmetic.rng import Purpose
from samebits.compiler.jit import kernel
from samebits.families.graph import userdata
from samebits.families.graph.config import BIND_ROW, FIRST_POSITION, ROOT_ROW, GraphConfig
from samebits.families.graph.edits import FIXED, Edits, no_edits
from samebits.families.graph.expressions import Tree, bindings, text_of
from samebits.families.graph.series import Series, split_series
from samebits.families.graph.store import Store
from samebits.training.contract import Batch


class Graph(NamedTuple):
    """Any DAG: label numbers, and links (parent, child, feature row of the child) in argument order."""

    labels: Sequence[int]
    links: Sequence[tuple[int, int, int]]


class Pairs(NamedTuple):
    """What a batch's arrays are: which graphs, cut into units, of which store."""

    store: Store
    chosen: Array  # (B,)
    cuts: Array  # (units + 1,) places in `chosen`
    nodes: int  # of all of them
    most_nodes: int  # of the largest unit


class GraphData(NamedTuple):
    train: Store
    evaluation: Store


def graph_of(config: GraphConfig, tree: Tree) -> Graph:
    """The tree's edges with their argument positions, and an edge from every bound occurrence to its value."""
    numbers = {label: index for index, label in enumerate(config.labels)}
    last = config.positions - 1
    links = [
        (parent, child, FIRST_POSITION + min(position, last))
        for parent, children in enumerate(tree.children)
        for position, child in enumerate(children)
    ]
    links += [(occurrence, value, BIND_ROW) for occurrence, value in bindings(tree)]
    return Graph([numbers[label] for label in tree.labels], links)


def class_tables(config: GraphConfig) -> list[dict[str | None, int]]:
    """For each head: what it can say → class."""
    return [
        {word: index for index, word in enumerate((*fixed, *names))}
        for fixed, names in zip(FIXED, config.head_labels, strict=True)
    ]


def encode(config: GraphConfig, edits: Edits) -> list[tuple[int, ...]]:
    """(nodes, 4) classes."""
    tables = class_tables(config)
    return list(zip(*([table[word] for word in head] for table, head in zip(tables, edits, strict=True)), strict=True))


def decode(config: GraphConfig, choices: Array) -> Edits:
    """The reverse."""
    words = [(*fixed, *names) for fixed, names in zip(FIXED, config.head_labels, strict=True)]
    return Edits(*([words[head][c] for c in choices[:, head].tolist()] for head in range(len(FIXED))))


def _csr(lists: Iterable[Sequence[int]], dtype: type = np.int32) -> tuple[Array, Array]:
    lengths: list[int] = [0]
    flat: list[int] = []
    for items in lists:
        lengths.append(len(items))
        flat += items
    return np.cumsum(lengths), np.array(flat, dtype)


def store_of(
    config: GraphConfig,
    graphs: Sequence[Graph],
    targets: Sequence[Sequence[tuple[int, ...]]],
    parents: Sequence[Sequence[int]],
    nexts: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> Store:
    """Graphs, the classes wanted for their nodes, their trees' parents, and (labels, parents) of what they become."""
    places = config.positions + FIRST_POSITION
    rows: list[list[int]] = []
    below: list[list[int]] = []
    above: list[list[int]] = []
    for graph in graphs:
        first = len(rows)
        n = len(graph.labels)
        rows += [[] for _ in range(n)]
        below += [[] for _ in range(n)]
        above += [[] for _ in range(n)]
        for parent, child, row in graph.links:
            below[first + parent].append(child)
            above[first + child].append(parent)
            rows[first + child].append(graph.labels[child] * places + row)
        for node in range(n):
            if not rows[first + node]:
                rows[first + node].append(graph.labels[node] * places + ROOT_ROW)
    row_starts, flat_rows = _csr(rows)
    kinds = (below, above) if config.directed else ([down + up for down, up in zip(below, above, strict=True)],)
    starts, edges = zip(*(_csr(kind) for kind in kinds), strict=True)
    nodes, labels = _csr([graph.labels for graph in graphs])
    next_nodes, next_labels = _csr([found[0] for found in nexts])
    return frozen(Store(
        nodes, row_starts, flat_rows, np.stack(starts), np.stack(edges),
        np.array([row for graph in targets for row in graph], np.int32).reshape(-1, len(FIXED)), labels,
        _csr(parents)[1], next_nodes, next_labels, _csr([found[1] for found in nexts])[1],
    ))  # fmt: skip


def pairs_of(config: GraphConfig, series: Sequence[Series]) -> Store:
    """Every different tree of the series with its edits: consecutive members, and fixed points that stay."""
    found: dict[str, tuple[Tree, Edits, Tree]] = {}
    for trees, edits in series:
        for index, tree in enumerate(trees):
            found.setdefault(text_of(tree), (tree, edits[index], trees[min(index + 1, len(trees) - 1)]))
    numbers = {label: index for index, label in enumerate(config.labels)}
    return store_of(
        config,
        [graph_of(config, tree) for tree, _, _ in found.values()],
        [encode(config, edits) for _, edits, _ in found.values()],
        [tree.parents for tree, _, _ in found.values()],
        [([numbers[label] for label in after.labels], after.parents) for _, _, after in found.values()],
    )


def inputs_of(config: GraphConfig, trees: Sequence[Tree]) -> Store:
    """Graphs to run the network on; their targets say nothing."""
    empty = [no_edits(tree) for tree in trees]
    return pairs_of_trees(config, trees, empty)


def pairs_of_trees(config: GraphConfig, trees: Sequence[Tree], edits: Sequence[Edits]) -> Store:
    return store_of(
        config,
        [graph_of(config, tree) for tree in trees],
        [encode(config, found) for found in edits],
        [tree.parents for tree in trees],
        [([], [])] * len(trees),
    )


def shuffled(store: Store, seed: int) -> Store:
    """The same edits, dealt to random nodes of the store: what a network learns from this, it did not learn."""
    order = np.argsort(rng.words((1, len(store.targets)), seed, Purpose.EVALUATION, 1)[0], kind="stable")
    return frozen(store._replace(targets=store.targets[order]))


def series_of(config: GraphConfig, split: str, count: int) -> list[Series]:
    """Series of a split, from the task's generator or from the user's pairs."""
    if not config.from_pairs:
        return split_series(config, split, count)
    return userdata.read(config).series[split][:count]


def random_store(config: GraphConfig) -> Store:
    """Graphs of one size and random targets, to time: a random tree, and more edges between random nodes."""
    nodes, edges = config.random_graphs
    classes = [max(1, size) for size in config.head_sizes]
    drawn = rng.words((config.expressions, nodes + 2 * edges + 4 * nodes), config.seed, Purpose.EVALUATION, 2).tolist()
    graphs, targets = [], []
    for words in drawn:
        labels = [word % len(config.labels) for word in words[:nodes]]
        ends = [(words[nodes + child] % child, child) for child in range(1, nodes)]
        for a, b in zip(words[2 * nodes : nodes + edges + 1], words[nodes + edges + 1 :], strict=False):
            low = a % (nodes - 1)
            ends.append((low, low + 1 + b % (nodes - 1 - low)))
        graphs.append(Graph(labels, [(parent, child, FIRST_POSITION) for parent, child in ends]))
        rest = iter(words[-4 * nodes :])
        targets.append([tuple(next(rest) % size for size in classes) for _ in range(nodes)])
    chains = [list(range(-1, nodes - 1))] * len(graphs)
    store = store_of(config, graphs, targets, chains, [(graph.labels, chains[0]) for graph in graphs])
    one_each = store.rows[store.row_starts[:-1]]  # as the peers have it
    return frozen(store._replace(row_starts=np.arange(len(one_each) + 1), rows=one_each))


def load(config: GraphConfig) -> GraphData:
    if config.from_pairs:
        userdata.read(config)  # says so where the file has changed, whatever was made of it before
    return _load(config)


@lru_cache(maxsize=4)
def _load(config: GraphConfig) -> GraphData:
    if config.random_graphs != (0, 0):
        store = random_store(config)
        return GraphData(store, store)
    train = pairs_of(config, series_of(config, "train", config.expressions))
    if config.shuffle_targets:
        train = shuffled(train, config.seed)
    # A user's file may be too small to hold anything back.
    unseen = series_of(config, "unseen", config.eval_samples) or series_of(config, "train", config.eval_samples)
    return GraphData(train, pairs_of(config, unseen))


# A worker takes neighbouring units, and those who are done help it with its last ones: of every eight, they are the
# smaller ones. Where each of the eight begins, in 64ths.
OCTET = np.array([0, 9, 18, 27, 36, 44, 52, 59])
TAPERED = 16  # with fewer units than this all are alike


@kernel
def share_before(unit: int, units: int) -> int:
    """How much of a step is in the units before this one."""
    return 8 * unit if units < TAPERED else 64 * (unit // 8) + OCTET[unit % 8]


@kernel
def plan_units(chosen: Array, nodes: Array, unit_nodes: int) -> tuple[Array, int, int]:
    """Cut the chosen graphs, in their order, into units of about `unit_nodes` nodes: (units + 1,) places; the nodes of
    all, and of the largest unit."""
    total = 0
    for g in chosen:
        total += nodes[g + 1] - nodes[g]
    units = max(1, min(chosen.size, (total + unit_nodes // 2) // unit_nodes))
    cuts = np.zeros(units + 1, np.int64)
    place = done = before = most = 0
    whole = share_before(units, units)
    for unit in range(1, units):
        cuts[unit] = cuts[unit - 1] + 1  # no unit is empty …
        while place < cuts[unit]:
            done += nodes[chosen[place] + 1] - nodes[chosen[place]]
            place += 1
        while place < chosen.size - (units - unit):  # … nor are those after it
            size = nodes[chosen[place] + 1] - nodes[chosen[place]]
            if (2 * done + size) * whole > 2 * share_before(unit, units) * total:  # the cut nearest to its share
                break
            done += size
            place += 1
        cuts[unit] = place
        most, before = max(most, done - before), done
    cuts[units] = chosen.size
    return cuts, total, max(most, total - before)


def batch_of(config: GraphConfig, store: Store, chosen: Array) -> Batch:
    pairs = Pairs(store, chosen, *plan_units(chosen, store.nodes, config.unit_nodes))
    return Batch(pairs, len(chosen), float(len(chosen)))


def batch(config: GraphConfig, data: GraphData, step: int) -> Batch:
    count = len(data.train.nodes) - 1
    chosen = rng.integers((1, config.batch_size), count, config.seed, Purpose.BATCH, step)[0]
    return batch_of(config, data.train, chosen)


def evaluation(config: GraphConfig, data: GraphData, full: bool) -> Batch:
    """Every pair of the unseen series that training looks at."""
    return batch_of(config, data.evaluation, np.arange(len(data.evaluation.nodes) - 1))
