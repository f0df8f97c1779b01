"""Edits of an ordered tree, one decision per node and head, all applied at once.

Deleting a node moves its children up into its place. `above` puts a new node between a node and its parent; a right
neighbour may join it there. `right` adds a leaf after a node, `first` one before its children. Every tree can be
edited into every other this way, in several rounds where one place needs several insertions (`rounds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from samebits.distance.trees import tree_edit_mapping
from samebits.families.graph.expressions import Tree, tree_of

DELETE, JOIN = "(delete)", "(join)"  # no label has a parenthesis
FIXED = ((None, DELETE), (None, JOIN), (None,), (None,))  # what each head knows besides labels; None: nothing happens


class Edits(NamedTuple):
    """One entry a node: None, or a label, DELETE (action) or JOIN (above)."""

    action: list[str | None]
    above: list[str | None]
    right: list[str | None]
    first: list[str | None]


def no_edits(tree: Tree) -> Edits:
    n = len(tree.labels)
    return Edits([None] * n, [None] * n, [None] * n, [None] * n)


def is_fixed_point(edits: Edits) -> bool:
    return not any(value for head in edits for value in head)


def cost(edits: Edits) -> int:
    """Deletions, relabellings and insertions: an upper bound of the tree edit distance."""
    return sum(value is not None and value != JOIN for head in edits for value in head)


def apply(tree: Tree, edits: Edits) -> Tree | None:
    """The edited tree, or None where it would not have exactly one root."""
    labels: list[str] = []
    parents: list[int] = []
    children: list[list[int]] = []

    def emit(label: str, parent: int) -> int:
        node = len(labels)
        labels.append(label)
        parents.append(parent)
        children.append([])
        if parent >= 0:
            children[parent].append(node)
        return node

    def place(nodes: Sequence[int], target: int) -> None:
        group = -1
        for node in nodes:
            wanted = edits.above[node]
            if wanted is None or (wanted == JOIN and group < 0):
                group = -1
            elif wanted != JOIN:
                group = emit(wanted, target)
            under = target if group < 0 else group
            action = edits.action[node]
            inside = under if action == DELETE else emit(action or tree.labels[node], under)
            leaf = edits.first[node]
            if leaf is not None:
                emit(leaf, inside)
            if tree.children[node]:
                place(tree.children[node], inside)
            leaf = edits.right[node]
            if leaf is not None:
                emit(leaf, under)

    place([0], -1)
    if parents.count(-1) != 1:
        return None
    return Tree(labels, parents, children)


def optimal_mapping(a: Tree, b: Tree) -> tuple[int, list[tuple[int, int]]]:
    """The tree edit distance, and the pairs of nodes that an optimal script keeps or relabels."""
    distance, pairs = tree_edit_mapping(a.labels, a.parents, b.labels, b.parents)
    return distance, [(int(left), int(right)) for left, right in pairs]


def rounds(tree: Tree, target: Tree, pairs: Sequence[tuple[int, int]]) -> list[tuple[Tree, Edits]]:
    """(tree, edits) of each round that together turn `tree` into `target`, along an optimal mapping's pairs.

    One round where the heads can say it all; else deletions and relabellings first, then as many insertions a round as
    there are places for.
    """
    images = dict(pairs)
    missing = [node for node in range(len(target.labels)) if node not in images.values()]
    edits = no_edits(tree)
    for node, label in enumerate(tree.labels):
        if node not in images:
            edits.action[node] = DELETE
        elif target.labels[images[node]] != label:
            edits.action[node] = target.labels[images[node]]
    sources = {image: node for node, image in images.items()}
    whole = Edits(*map(list, edits))
    if all(_insert(target, whole, sources, node) for node in missing) and apply(tree, whole) == target:
        return [(tree, whole)]
    found = [] if is_fixed_point(edits) else [(tree, edits)]
    present = sorted(sources)
    while missing:
        current = _restricted(target, present)
        here = {node: index for index, node in enumerate(present)}
        edits, added = no_edits(current), list(present)
        for node in missing:
            trial = Edits(*map(list, edits))
            if _insert(target, trial, here, node) and apply(current, trial) == _restricted(
                target, sorted([*added, node])
            ):
                edits = trial
                added.append(node)
        found.append((current, edits))
        present = sorted(added)
        missing = [node for node in missing if node not in added]
    return found


def _insert(target: Tree, edits: Edits, sources: dict[int, int], node: int) -> bool:
    """Say in `edits` that `node` of the target appears; False where its place is taken. sources: target → tree node."""
    below = _nearest_present(target, node, sources)
    label = target.labels[node]
    if below:
        if any(edits.above[sources[child]] is not None for child in below):
            return False
        edits.above[sources[below[0]]] = label
        for child in below[1:]:
            edits.above[sources[child]] = JOIN
        return True
    parent = target.parents[node]
    left = [child for child in (target.children[parent] if parent >= 0 else []) if child < node and child in sources]
    if left:
        head, place = edits.right, sources[left[-1]]
    elif parent in sources:
        head, place = edits.first, sources[parent]
    else:
        return False
    if head[place] is not None:
        return False
    head[place] = label
    return True


def _nearest_present(target: Tree, node: int, present: dict[int, int]) -> list[int]:
    found = []
    for child in target.children[node]:
        found += [child] if child in present else _nearest_present(target, child, present)
    return found


def _restricted(tree: Tree, kept: Sequence[int]) -> Tree:
    """The tree on some of its nodes, children of the others moved up."""
    numbers = {node: index for index, node in enumerate(kept)}
    parents = []
    for node in kept:
        parent = tree.parents[node]
        while parent >= 0 and parent not in numbers:
            parent = tree.parents[parent]
        parents.append(numbers.get(parent, -1))
    return tree_of([tree.labels[node] for node in kept], parents)
