"""Ordered trees: the edit distance of Zhang and Shasha (1989), and one optimal mapping.

n, m      nodes of the trees a and b, numbered in pre-order, children in order; a parent is -1 at the root
end (n)   one past the last node of a node's subtree: the subtree of i is i … end[i] - 1
key       the nodes that are nobody's last child: their subtrees are compared whole, all others come with them
forest (n+1, m+1)   cost of turning nodes i … of one subtree into nodes j … of another
tree (n, m)         cost of turning the subtree of i into the subtree of j

The textbook peels forests from the right, in post-order. From the left, in pre-order, the recursion is its mirror
image, and walking the table forwards meets the nodes in the order of their numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from weft.engine.arrays import Array
from weft.engine.jit import kernel
from weft.errors import WeftError

MOST_NODES = 2000  # two tables of n × m float64: 64 MB
SLICE = 20_000_000  # table cells between two looks at Ctrl-C: about 50 ms


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
def compare_subtrees(
    tree: Array, forest: Array, end_a: Array, end_b: Array, delete: Array, insert: Array, change: Array, a: int, b: int
) -> None:
    """The forest table of the subtrees of a and b, and from it the tree table of all their last-child lines."""
    end, stop = end_a[a], end_b[b]
    forest[end, stop] = 0.0
    for i in range(end - 1, a - 1, -1):
        forest[i, stop] = forest[i + 1, stop] + delete[i]
    for j in range(stop - 1, b - 1, -1):
        forest[end, j] = forest[end, j + 1] + insert[j]
    for i in range(end - 1, a - 1, -1):
        whole = end_a[i] == end
        for j in range(stop - 1, b - 1, -1):
            best = min(forest[i + 1, j] + delete[i], forest[i, j + 1] + insert[j])
            if whole and end_b[j] == stop:
                best = min(best, forest[i + 1, j + 1] + change[i, j])
                tree[i, j] = best
            else:
                best = min(best, forest[end_a[i], end_b[j]] + tree[i, j])
            forest[i, j] = best


@kernel
def compare_keys(
    tree: Array,
    forest: Array,
    end_a: Array,
    end_b: Array,
    key_a: Array,
    key_b: Array,
    delete: Array,
    insert: Array,
    change: Array,
    first: int,
    cells: int,
) -> int:
    """Compare pairs of key nodes from number `first` on, until about `cells` table cells are done; the next number."""
    while first < key_a.size * key_b.size and cells > 0:
        a, b = key_a[first // key_b.size], key_b[first % key_b.size]
        compare_subtrees(tree, forest, end_a, end_b, delete, insert, change, a, b)
        cells -= (end_a[a] - a) * (end_b[b] - b)
        first += 1
    return first


@kernel
def walk(
    partner: Array,
    tree: Array,
    forest: Array,
    end_a: Array,
    end_b: Array,
    delete: Array,
    insert: Array,
    change: Array,
) -> None:
    """Read one optimal mapping out of the tables, ties broken as tree_edit_mapping says: each node of a, or -1."""
    partner[:] = -1
    waiting = np.empty((min(end_a.size, end_b.size) + 1, 2), np.int64)  # pairs of subtrees still to be walked
    waiting[0] = 0
    depth = 1
    while depth > 0:
        depth -= 1
        a, b = waiting[depth]
        compare_subtrees(tree, forest, end_a, end_b, delete, insert, change, a, b)
        i, j, end, stop = a, b, end_a[a], end_b[b]
        while i < end and j < stop:
            here = forest[i, j]
            if end_a[i] == end and end_b[j] == stop:
                if here == forest[i + 1, j + 1] + change[i, j]:
                    partner[i] = j
                    i, j = i + 1, j + 1
                    continue
            elif here == forest[end_a[i], end_b[j]] + tree[i, j]:
                waiting[depth, 0], waiting[depth, 1] = i, j
                depth += 1
                i, j = end_a[i], end_b[j]
                continue
            if here == forest[i, j + 1] + insert[j]:
                j += 1
            else:
                i += 1


@kernel
def mapping_costs(delete: Array, insert: Array, change: Array, labels_a: Array, labels_b: Array) -> float:
    """Unit costs times a scale, so that equal labels decide between mappings of equal distance; the scale."""
    scale = min(labels_a.size, labels_b.size) + 1.0
    delete[:] = scale
    insert[:] = scale
    for i in range(labels_a.size):
        for j in range(labels_b.size):
            change[i, j] = -1.0 if labels_a[i] == labels_b[j] else scale
    return scale


@kernel
def edit_mapping(partner: Array, labels_a: Array, parents_a: Array, labels_b: Array, parents_b: Array) -> int:
    """tree_edit_mapping for compiled callers, who have checked their trees: fills in partner; the distance."""
    n, m = labels_a.size, labels_b.size
    tree, forest = np.empty((n, m)), np.empty((n + 1, m + 1))
    delete, insert, change = np.empty(n), np.empty(m), np.empty((n, m))
    end_a, end_b, key_a, key_b = (
        np.empty(n, np.int64),
        np.empty(m, np.int64),
        np.empty(n, np.int64),
        np.empty(m, np.int64),
    )
    subtree_ends(end_a, parents_a)
    subtree_ends(end_b, parents_b)
    key_a = key_a[: key_nodes(key_a, end_a, parents_a)]
    key_b = key_b[: key_nodes(key_b, end_b, parents_b)]
    scale = mapping_costs(delete, insert, change, labels_a, labels_b)
    compare_keys(tree, forest, end_a, end_b, key_a, key_b, delete, insert, change, 0, 1 << 62)
    walk(partner, tree, forest, end_a, end_b, delete, insert, change)
    return math.ceil(tree[0, 0] / scale)


def checked_tree(name: str, labels: ArrayLike, parents: ArrayLike) -> tuple[Array, Array, Array]:
    """Labels, parents and subtree ends as int64, or an error that says what is wrong with them."""
    found = [np.asarray(values) for values in (labels, parents)]
    for what, values in zip(("labels", "parents"), found, strict=True):
        if values.ndim != 1 or not (values.size == 0 or np.issubdtype(values.dtype, np.integer)):
            raise WeftError(
                f"the {what} of tree {name} have shape {values.shape} and type {values.dtype}; "
                "they must be one row of whole numbers; give one number a node"
            )
    if found[0].size != found[1].size:
        raise WeftError(
            f"tree {name} has {found[0].size} labels and {found[1].size} parents; give one of each for every node"
        )
    if not 1 <= found[0].size <= MOST_NODES:
        raise WeftError(f"tree {name} has {found[0].size} nodes; it must have 1 to {MOST_NODES}")
    end = np.empty(found[0].size, np.int64)
    above = np.ascontiguousarray(found[1], np.int64)
    broken = subtree_ends(end, above)
    if broken != end.size:
        raise WeftError(
            f"node {broken} of tree {name} has parent {above[broken]}; nodes must be numbered in pre-order, with "
            "parent -1 at node 0 and nowhere else; number each node before its children, and children in order"
        )
    return np.ascontiguousarray(found[0], np.int64), above, end


def compared(
    end_a: Array, end_b: Array, parents_a: Array, parents_b: Array, delete: Array, insert: Array, change: Array
) -> tuple[Array, Array]:
    """The tree and forest tables of two trees, in slices, so that Ctrl-C is heard."""
    n, m = change.shape
    tree, forest = np.empty((n, m)), np.empty((n + 1, m + 1))
    key_a, key_b = np.empty(n, np.int64), np.empty(m, np.int64)
    key_a = key_a[: key_nodes(key_a, end_a, parents_a)]
    key_b = key_b[: key_nodes(key_b, end_b, parents_b)]
    done = 0
    while done < key_a.size * key_b.size:
        done = compare_keys(tree, forest, end_a, end_b, key_a, key_b, delete, insert, change, done, SLICE)
    return tree, forest


def tree_edit_mapping(
    labels_a: ArrayLike, parents_a: ArrayLike, labels_b: ArrayLike, parents_b: ArrayLike
) -> tuple[int, Array]:
    """The edit distance of two ordered trees at unit costs, and one optimal mapping as pairs (node of a, node of b).

    Nodes are numbered in pre-order, children in order; parents holds -1 at the root. Nodes of a in no pair are deleted,
    nodes of b in no pair inserted, pairs of unequal labels relabelled. Both columns of the pairs ascend.

    Which of several optimal mappings: one with the most pairs of equal labels. Among those, both trees are walked in
    pre-order, and where the optimum leaves a choice, the current subtrees are mapped onto each other (their roots
    matched, where that is optimal); failing that, b's node is inserted; failing that, a's node is deleted. So the
    earliest nodes of a find partners.
    """
    a, pa, ea = checked_tree("a", labels_a, parents_a)
    b, pb, eb = checked_tree("b", labels_b, parents_b)
    delete, insert, change = np.empty(a.size), np.empty(b.size), np.empty((a.size, b.size))
    scale = mapping_costs(delete, insert, change, a, b)
    tree, forest = compared(ea, eb, pa, pb, delete, insert, change)
    partner = np.empty(a.size, np.int64)
    walk(partner, tree, forest, ea, eb, delete, insert, change)
    matched = np.flatnonzero(partner >= 0)
    return math.ceil(tree[0, 0] / scale), np.stack((matched, partner[matched]), axis=1)
