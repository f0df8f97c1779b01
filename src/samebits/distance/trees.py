"""Ordered trees: the edit distance of Zhang and Shasha (1989), and one optimal mapping.

n, m      nodes of the trees a and b, numbered in pre-order, children in order; a parent is -1 at the root
end (n)   one past the last node of a node's subtree: the subtree of i is i … end[i] - 1
key       the nodes that are nobody's last child: their subtrees are compared whole, all others come with them
change (n, m)       cost of a substitution
tree (n, m)         cost of turning the subtree of i into the subtree of j
forest (n+1, m+1)   cost of turning nodes i … of one subtree into nodes j … of another

The textbook peels forests from the right, in post-order. From the left, in pre-order, the recursion is its mirror
image, and walking the table forwards meets the nodes in the order of their numbers.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samebits.arithmetic.arrays import Array
from samebits.checks import array
from samebits.compiler.jit import kernel
from samebits.distance.costs import Costs, as_costs, prices
from samebits.distance.graphs import as_tree, check_size, codes_of, label_row
from samebits.distance.problem import substitution
from samebits.errors import SamebitsError

MOST_NODES = 2000  # three tables of n × m float64: 96 MB
SLICE = 20_000_000  # table cells between two looks at Ctrl-C: about 50 ms


class Comparison(NamedTuple):
    """Two trees and the tables of their distance."""

    tree: Array
    forest: Array
    change: Array
    end_a: Array
    end_b: Array
    key_a: Array
    key_b: Array
    delete: float
    insert: float


class TreePrices(NamedTuple):
    """What edits of nodes cost. Substitutions cost what the table says; a constant one costs `equal` if equal."""

    table: Array
    constant: bool
    equal: float
    delete: float
    insert: float


@kernel
def subtree_ends(end: Array, parents: Array) -> int:
    """Fill in end. The number of nodes, or the first node that breaks the pre-order."""
    n = parents.size
    for i in range(n):
        if i == 0:
            if parents[0] != -1:
                return 0
        else:
            # In pre-order a parent is the node before, or one of its ancestors.
            above = i - 1
            while above != parents[i] and above > 0:
                above = parents[above]
            if above != parents[i]:
                return i
        end[i] = i + 1
    for i in range(n - 1, 0, -1):
        end[parents[i]] = max(end[parents[i]], end[i])
    return n


@kernel
def key_nodes(key: Array, end: Array, parents: Array) -> int:
    """Fill in key, last node first, so that every subtree is compared before it is needed; their number."""
    count = 0
    for i in range(parents.size - 1, -1, -1):
        if i == 0 or end[i] != end[parents[i]]:
            key[count] = i
            count += 1
    return count


@kernel
def comparison(labels_a: Array, parents_a: Array, labels_b: Array, parents_b: Array, prices: TreePrices) -> Comparison:
    """Tables for two checked trees."""
    table, constant = prices.table, prices.constant
    n, m = labels_a.size, labels_b.size
    end_a, end_b = np.empty(n, np.int64), np.empty(m, np.int64)
    key_a, key_b = np.empty(n, np.int64), np.empty(m, np.int64)
    subtree_ends(end_a, parents_a)
    subtree_ends(end_b, parents_b)
    key_a = key_a[: key_nodes(key_a, end_a, parents_a)]
    key_b = key_b[: key_nodes(key_b, end_b, parents_b)]
    change = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            same = constant and labels_a[i] == labels_b[j]
            change[i, j] = prices.equal if same else substitution(table, constant, labels_a[i], labels_b[j])
    tree, forest = np.empty((n, m)), np.empty((n + 1, m + 1))
    return Comparison(tree, forest, change, end_a, end_b, key_a, key_b, prices.delete, prices.insert)


@kernel
def compare_subtrees(t: Comparison, a: int, b: int) -> None:
    """The forest table of the subtrees of a and b, and from it the tree table of all their last-child lines."""
    tree, forest, change, end_a, end_b = t.tree, t.forest, t.change, t.end_a, t.end_b
    end, stop = end_a[a], end_b[b]
    forest[end, stop] = 0.0
    for i in range(end - 1, a - 1, -1):
        forest[i, stop] = forest[i + 1, stop] + t.delete
    for j in range(stop - 1, b - 1, -1):
        forest[end, j] = forest[end, j + 1] + t.insert
    for i in range(end - 1, a - 1, -1):
        whole = end_a[i] == end
        for j in range(stop - 1, b - 1, -1):
            best = min(forest[i + 1, j] + t.delete, forest[i, j + 1] + t.insert)
            if whole and end_b[j] == stop:
                best = min(best, forest[i + 1, j + 1] + change[i, j])
                tree[i, j] = best
            else:
                best = min(best, forest[end_a[i], end_b[j]] + tree[i, j])
            forest[i, j] = best


@kernel
def compare_keys(t: Comparison, first: int, cells: int) -> int:
    """Compare pairs of key nodes from number `first` on, until about so many table cells are done.

    The next number; -1 at the end.
    """
    while cells > 0:
        a, b = t.key_a[first // t.key_b.size], t.key_b[first % t.key_b.size]
        compare_subtrees(t, a, b)
        cells -= (t.end_a[a] - a) * (t.end_b[b] - b)
        first += 1
        if first == t.key_a.size * t.key_b.size:
            return -1
    return first


@kernel
def walk(partner: Array, t: Comparison) -> None:
    """Read one optimal mapping out of the tables, ties broken as tree_edit_mapping says: each node of a, or -1."""
    for i in range(partner.size):
        partner[i] = -1
    waiting = np.zeros((min(t.end_a.size, t.end_b.size) + 1, 2), np.int64)  # pairs of subtrees, the whole trees first
    depth = 1
    while depth > 0:
        depth -= 1
        i, j = waiting[depth, 0], waiting[depth, 1]
        end, stop = t.end_a[i], t.end_b[j]
        compare_subtrees(t, i, j)
        while i < end and j < stop:
            here = t.forest[i, j]
            if t.end_a[i] == end and t.end_b[j] == stop:
                if here == t.forest[i + 1, j + 1] + t.change[i, j]:
                    partner[i] = j
                    i, j = i + 1, j + 1
                    continue
            elif here == t.forest[t.end_a[i], t.end_b[j]] + t.tree[i, j]:
                waiting[depth, 0], waiting[depth, 1] = i, j
                depth += 1
                i, j = t.end_a[i], t.end_b[j]
                continue
            if here == t.forest[i, j + 1] + t.insert:
                j += 1
            else:
                i += 1


@kernel
def mapping_comparison(labels_a: Array, parents_a: Array, labels_b: Array, parents_b: Array) -> Comparison:
    """Unit costs times a scale, less 1 for a pair of equal labels: it decides between mappings of equal distance."""
    scale = min(labels_a.size, labels_b.size) + 1.0
    table = np.full((1, 1), scale)
    return comparison(labels_a, parents_a, labels_b, parents_b, TreePrices(table, True, -1.0, scale, scale))


@kernel
def edit_mapping(partner: Array, labels_a: Array, parents_a: Array, labels_b: Array, parents_b: Array) -> int:
    """tree_edit_mapping for compiled callers, who have checked their trees: fills in partner; the distance."""
    t = mapping_comparison(labels_a, parents_a, labels_b, parents_b)
    compare_keys(t, 0, 1 << 62)
    walk(partner, t)
    return math.ceil(t.tree[0, 0] / t.delete)


def compared(t: Comparison) -> Comparison:
    """Fill in the tables, in slices, so that Ctrl-C is heard."""
    first = 0
    while first >= 0:
        first = compare_keys(t, first, SLICE)
    return t


def checked_parents(name: str, nodes: int, parents: ArrayLike) -> Array:
    """Parents as int64, or an error that says what is wrong with them."""
    what, remedy = f"parents of tree {name}", "give one number a node"
    found = array(what, parents, "iu", "one row of whole numbers", remedy)
    if found.ndim != 1:
        raise SamebitsError(f"{what} have shape {found.shape}; they must be one row of whole numbers; {remedy}")
    if found.size != nodes:
        raise SamebitsError(f"tree {name} has {nodes} labels and {found.size} parents; give one of each for every node")
    check_size(f"tree {name}", nodes, MOST_NODES, "compare smaller parts")
    # An unsigned number may be too large for int64; as many as there are nodes is no parent either.
    above = np.ascontiguousarray(np.minimum(found, nodes) if found.dtype.kind == "u" else found, np.int64)
    broken = subtree_ends(np.empty(nodes, np.int64), above)
    if broken != nodes:
        raise SamebitsError(
            f"node {broken} of tree {name} has parent {found[broken]}; nodes must be numbered in pre-order, with "
            "parent -1 at node 0 and nowhere else; number each node before its children, and children in order"
        )
    return above


def coded_labels(name: str, labels: Any, known: dict[Any, int]) -> Array:
    """Labels as numbers that are equal where the labels are; known is added to."""
    given = label_row(f"labels of tree {name}", labels, "node")
    return np.array(codes_of(f"a node of tree {name}", given, known), np.int64)


def are_numbers(labels: Any) -> bool:
    """Whether these labels can be compared as they are, without a dictionary: int64 holds them all."""
    return isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind == "i"


def tree_edit_mapping(
    labels_a: Sequence[Hashable] | Array,
    parents_a: ArrayLike,
    labels_b: Sequence[Hashable] | Array,
    parents_b: ArrayLike,
) -> tuple[int, Array]:
    """The edit distance of two ordered trees at unit costs, and one optimal mapping as pairs (node of a, node of b).

    Nodes are numbered in pre-order, children in order; parents holds -1 at the root. Nodes of a in no pair are deleted,
    nodes of b in no pair inserted, pairs of unequal labels relabelled. Both columns of the pairs ascend.

    Which of several optimal mappings: one with the most pairs of equal labels. Among those, both trees are walked in
    pre-order, and where the optimum leaves a choice, the current subtrees are mapped onto each other (their roots
    matched, where that is optimal); failing that, b's node is inserted; failing that, a's node is deleted. So the
    earliest nodes of a find partners.

    Labels are anything hashable, and equal as those of a Graph are. Arrays of signed whole numbers are the fastest.
    """
    if are_numbers(labels_a) and are_numbers(labels_b):
        a, b = np.ascontiguousarray(labels_a, np.int64), np.ascontiguousarray(labels_b, np.int64)
    else:
        known: dict[Any, int] = {}
        a, b = (coded_labels(name, labels, known) for name, labels in (("a", labels_a), ("b", labels_b)))
    above, over = checked_parents("a", a.size, parents_a), checked_parents("b", b.size, parents_b)
    t = compared(mapping_comparison(a, above, b, over))
    partner = np.empty(a.size, np.int64)
    walk(partner, t)
    matched = np.flatnonzero(partner >= 0)
    return math.ceil(t.tree[0, 0] / t.delete), np.stack((matched, partner[matched]), axis=1)


def coded_tree(name: str, given: Any, known: dict[Any, int]) -> tuple[Array, Array]:
    """A user's tree, checked; its labels are added to the known ones."""
    labels, parents = as_tree(name, given)
    numbers = coded_labels(name, labels, known)
    return numbers, checked_parents(name, numbers.size, parents)


def tree_edit_distance(a: Any, b: Any, costs: Costs | None = None) -> float:
    """The exact edit distance of two ordered trees. Only the costs of nodes count: edges come and go with them.

    A tree is a directed Graph or networkx graph, edges from parents to children in order, or a pair (labels, parents)
    in pre-order. Labels are equal as those of a Graph are.
    """
    asked = as_costs(costs)
    known: dict[Any, int] = {}
    (first, above), (second, over) = (coded_tree(name, tree, known) for name, tree in (("a", a), ("b", b)))
    found = prices(asked, list(known), ())
    insert, delete = found.single[:2].tolist()
    tree_prices = TreePrices(found.nodes, found.node_constant, 0.0, delete, insert)
    t = comparison(first, above, second, over, tree_prices)
    return float(compared(t).tree[0, 0])
