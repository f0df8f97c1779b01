"""Expressions as ordered trees: text in, text out, canonical hashes; graphs with shared nodes, checked and unfolded."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from samebits.errors import SamebitsError
from samebits.printing import printable

BIND = "bind"  # (bind symbol value): every other leaf `symbol` also reads the value
LABEL = re.compile(r"[^\s()\0\ud800-\udfff]+")  # of whole characters
MOST_DEPTH = 500  # of a tree that somebody made by hand: edits are applied level by level, and Python's levels end
TOKEN = re.compile(r"\s*([()]|[^\s()]+)")


class Tree(NamedTuple):
    """Nodes in pre-order, so a parent stands before its children and the root is node 0 (parent −1)."""

    labels: list[str]
    parents: list[int]
    children: list[list[int]]


def tree_of(labels: Sequence[str], parents: Sequence[int]) -> Tree:
    children: list[list[int]] = [[] for _ in labels]
    for node, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(node)
    return Tree(list(labels), list(parents), children)


def is_tree(value: Any) -> bool:
    """Whether it is a tree as `parse` makes them: in pre-order, its children those that its parents say."""
    if not isinstance(value, Tree) or not all(isinstance(part, list) for part in (*value, *value.children)):
        return False
    labels, parents, children = value
    if not all(isinstance(label, str) for label in labels) or not all(map(_whole, (parents, *children))):
        return False
    path: list[int] = []  # from the root to the node before
    for node, parent in enumerate(parents):
        while path and path[-1] != parent:
            path.pop()
        if len(path) > MOST_DEPTH or (not path and (node, parent) != (0, -1)):
            return False
        path.append(node)
    return 0 < len(labels) == len(parents) and tree_of(labels, parents).children == children


def _whole(numbers: list[Any]) -> bool:
    return all(type(number) is int for number in numbers)


def subtree(tree: Tree, root: int) -> Tree:
    end = root + 1
    while end < len(tree.labels) and tree.parents[end] >= root:
        end += 1
    return tree_of(tree.labels[root:end], [-1, *(parent - root for parent in tree.parents[root + 1 : end])])


def text_of(tree: Tree, root: int = 0) -> str:
    """(and x (or x y)): equal trees have equal texts, so this is the canonical form."""
    words: list[str] = []
    inside: list[int] = []
    for node in range(root, len(tree.labels)):
        parent = tree.parents[node]
        if node > root and parent < root:
            break
        while inside and inside[-1] != parent:
            inside.pop()
            words[-1] += ")"
        if tree.children[node]:
            inside.append(node)
        words.append(f"({tree.labels[node]}" if tree.children[node] else tree.labels[node])
    return " ".join(words) + ")" * len(inside)


def canonical_hash(tree: Tree) -> int:
    """64 bits of the text's BLAKE2: the same on every machine and in every run."""
    return int.from_bytes(hashlib.blake2b(text_of(tree).encode(), digest_size=8).digest(), "little")


def parse(text: str, most_nodes: int) -> Tree:
    """The tree of an expression, or an error that marks the place."""

    def problem(place: int, rule: str) -> SamebitsError:
        start, end = max(0, place - 30), min(len(text), place + 30)
        around = (
            ("…" if start else "") + text[start:place] + "<here>" + text[place:end] + ("…" if end < len(text) else "")
        )
        return SamebitsError(f"expression: {rule}, at character {place + 1}: {printable(around.strip())}; fix it")

    labels: list[str] = []
    parents: list[int] = []
    open_nodes: list[tuple[int, int]] = []  # (node, where its parenthesis stands)
    place, wants_operator, finished = 0, False, False
    while match := TOKEN.match(text, place):
        token, here, place = match[1], match.start(1), match.end()
        if not (token in "()" or LABEL.fullmatch(token)):
            raise problem(here, f"{token!r} is no label: a label has whole characters, and none of them NUL")
        if finished:
            raise problem(here, f"{token!r} stands after the end of the expression")
        if wants_operator and token in "()":
            raise problem(here, "an operator must follow '('")
        if token == "(":
            wants_operator = True
            opened_at = here
            continue
        if token == ")":
            if not open_nodes:
                raise problem(here, "')' closes nothing")
            node, _ = open_nodes.pop()
            if node == len(labels) - 1:
                raise problem(here, f"({labels[node]}) has no operands; write {labels[node]} alone")
        else:
            if len(labels) == most_nodes:
                raise problem(here, f"more than {most_nodes} nodes, the limit (most_nodes)")
            parents.append(open_nodes[-1][0] if open_nodes else -1)
            labels.append(token)
            if wants_operator:
                open_nodes.append((len(labels) - 1, opened_at))
        wants_operator = False
        finished = not open_nodes
    if wants_operator:
        raise problem(len(text), "an operator must follow '('")
    if not labels:
        raise SamebitsError("expression is empty; a graph needs at least one node; write one such as (and x y)")
    if open_nodes:
        raise problem(open_nodes[-1][1], "'(' is never closed")
    return tree_of(labels, parents)


def from_graph(value: Any, most_nodes: int) -> Tree:
    """A graph {"labels": […], "children": [[…], …]} with shared nodes, unfolded into a tree from its only root."""
    if not isinstance(value, dict) or set(value) != {"labels", "children"}:
        raise SamebitsError('graph: it must be {"labels": [names], "children": [[node numbers], …]}; fix it')
    labels, children = value["labels"], value["children"]
    if not isinstance(labels, list) or not all(isinstance(name, str) and LABEL.fullmatch(name) for name in labels):
        raise SamebitsError("graph: labels must be a list of names without spaces, parentheses and NUL; fix it")
    if not labels:
        raise SamebitsError("graph is empty; a graph needs at least one node; add one")
    if not isinstance(children, list) or len(children) != len(labels):
        raise SamebitsError(f"graph: children must be a list of {len(labels)} lists, one for each label; fix it")
    has_parent = [False] * len(labels)
    for node, below in enumerate(children):
        if not isinstance(below, list) or not all(type(c) is int and 0 <= c < len(labels) for c in below):
            raise SamebitsError(f"graph: children of node {node} must be node numbers 0 to {len(labels) - 1}; fix them")
        for child in below:
            has_parent[child] = True
    roots = [node for node, found in enumerate(has_parent) if not found]
    out_labels: list[str] = []
    out_parents: list[int] = []
    path: list[int] = []  # from the root to the node just written: a node that meets itself there is on a cycle
    waiting = [(roots[0] if roots else 0, -1, 0)]
    while waiting:
        node, parent, depth = waiting.pop()
        del path[depth:]
        if node in path:
            cycle = " → ".join(map(str, [*path[path.index(node) :], node]))
            raise SamebitsError(f"graph has a cycle, {cycle}; an expression has none; remove one of these edges")
        if len(out_labels) == most_nodes:
            raise SamebitsError(
                f"graph: unfolded it has more than {most_nodes} nodes, the limit (most_nodes); make it smaller"
            )
        path.append(node)
        out_labels.append(labels[node])
        out_parents.append(parent)
        me = len(out_labels) - 1
        waiting += [(child, me, depth + 1) for child in reversed(children[node])]
    if len(roots) > 1:
        raise SamebitsError(f"graph has {len(roots)} roots, nodes {roots}; an expression has one; join them")
    return tree_of(out_labels, out_parents)


def bindings(tree: Tree) -> list[tuple[int, int]]:
    """(occurrence, value) for every leaf that a (bind symbol value) explains: edges that make the graph a DAG."""
    if BIND not in tree.labels:
        return []
    values: dict[str, int] = {}
    symbols = set()
    for node, label in enumerate(tree.labels):
        if label == BIND and len(tree.children[node]) == 2:
            symbol, value = tree.children[node]
            values[tree.labels[symbol]] = value
            symbols.add(symbol)
    return [
        (node, values[label])
        for node, label in enumerate(tree.labels)
        if label in values and node not in symbols and not tree.children[node]
    ]
