"""Text, graphs and edits of expressions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.errors import SamebitsError
from samebits.families.graph.edits import DELETE, JOIN, apply, cost, no_edits, optimal_mapping, rounds
from samebits.families.graph.expressions import bindings, canonical_hash, from_graph, parse, subtree, text_of, tree_of

NAMES = st.sampled_from(["a", "b", "f", "g"])


@st.composite
def trees(draw, most=9):
    """Any ordered tree, in pre-order."""
    n = draw(st.integers(1, most))
    parents = [-1]
    for node in range(1, n):
        path = [node - 1]
        while parents[path[-1]] >= 0:
            path.append(parents[path[-1]])
        parents.append(draw(st.sampled_from(path)))
    return tree_of([draw(NAMES) for _ in range(n)], parents)


@given(trees())
def test_text_and_back(tree):
    assert parse(text_of(tree), 99) == tree


@given(trees(), trees())
def test_equal_hashes_are_equal_trees(a, b):
    assert (canonical_hash(a) == canonical_hash(b)) == (a == b)


def test_the_hash_is_the_same_in_every_run():
    assert canonical_hash(parse("(and x (or x y))", 9)) == canonical_hash(parse(" ( and x\n(or x y) ) ", 9))


@settings(max_examples=300, deadline=None)
@given(trees(), trees())
def test_rounds_of_edits_turn_any_tree_into_any_other(before, after):
    """And together they cost what the tree edit distance says."""
    distance, pairs = optimal_mapping(before, after)
    tree, total = before, 0
    for start, edits in rounds(before, after, pairs):
        assert start == tree
        tree = apply(tree, edits)
        total += cost(edits)
    assert tree == after
    assert total == distance


@pytest.mark.parametrize(
    ("head", "node", "word", "expected"),
    [
        ("action", 1, DELETE, "(f a b c)"),
        ("action", 0, "h", "(h (g a b) c)"),
        ("above", 1, "h", "(f (h (g a b)) c)"),
        ("above", 0, "h", "(h (f (g a b) c))"),
        ("right", 1, "x", "(f (g a b) x c)"),
        ("right", 4, "x", "(f (g a b) c x)"),
        ("first", 0, "x", "(f x (g a b) c)"),
        ("first", 2, "x", "(f (g (a x) b) c)"),
    ],
)
def test_each_edit_does_what_it_says(head, node, word, expected):
    tree = parse("(f (g a b) c)", 9)
    edits = no_edits(tree)
    getattr(edits, head)[node] = word
    assert text_of(apply(tree, edits)) == expected


def test_right_neighbours_join_a_new_node():
    tree = parse("(f a b c d)", 9)
    edits = no_edits(tree)
    edits.above[2], edits.above[3], edits.right[3] = "g", JOIN, "x"
    assert text_of(apply(tree, edits)) == "(f a (g b c x) d)"
    edits.above[1] = JOIN  # nothing to join
    assert text_of(apply(tree, edits)) == "(f a (g b c x) d)"


def test_a_tree_keeps_one_root():
    tree = parse("(f a b)", 9)
    edits = no_edits(tree)
    edits.action[0] = DELETE
    assert apply(tree, edits) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(and x (or x y)", ["never closed", "character 1", "<here>(and x"]),
        ("(and x) y)", ["after the end", "character 9", "(and x) <here>y)"]),
        (") x", ["closes nothing", "character 1"]),
        ("(and x ())", ["operator must follow", "character 9", "(and x (<here>))"]),
        ("(and)", ["no operands", "write and alone", "character 5"]),
        ("((and x y))", ["operator must follow", "character 2"]),
        ("", ["empty", "at least one node"]),
        ("   ", ["empty"]),
        ("(f a b c d e f g)", ["more than 5 nodes", "most_nodes", "<here>e f g)"]),
    ],
)
def test_malformed_expressions_are_marked(text, words):
    with pytest.raises(SamebitsError) as found:
        parse(text, 5)
    for word in words:
        assert word in str(found.value)


def test_a_deep_chain_is_read_and_written():
    text = "(f " * 399 + "x" + ")" * 399
    assert text_of(parse(text, 400)) == text


def test_shared_nodes_are_unfolded():
    graph = {"labels": ["x", "f", "g"], "children": [[], [0, 0], [1, 0, 1]]}
    assert text_of(from_graph(graph, 99)) == "(g (f x x) x (f x x))"


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ({"labels": [], "children": []}, "empty"),
        ({"labels": ["f", "g"], "children": [[1], [0]]}, "cycle, 0 → 1 → 0"),
        ({"labels": ["f", "g", "h"], "children": [[1], [2], [1]]}, "cycle, 1 → 2 → 1"),
        ({"labels": ["f"], "children": [[0]]}, "cycle, 0 → 0"),
        ({"labels": ["f", "g"], "children": [[], []]}, "2 roots"),
        ({"labels": ["f"], "children": [[1]]}, "node numbers 0 to 0"),
        ({"labels": ["f"], "children": []}, "1 lists"),
        ({"labels": ["f g"], "children": [[]]}, "names without spaces"),
        ({"labels": ["f"]}, "it must be"),
        ([], "it must be"),
        ({"labels": ["f"] * 40, "children": [[i + 1, i + 1] for i in range(39)] + [[]]}, "more than 99 nodes"),
    ],
)
def test_graphs_that_are_no_expressions_are_refused(graph, words):
    with pytest.raises(SamebitsError, match=words):
        from_graph(graph, 99)


def test_bindings_link_occurrences_to_values():
    tree = parse("(eval (bind x 3) (bind y 2) (add x (mul y x)))", 99)
    found = {(node, tree.labels[node], tree.labels[value]) for node, value in bindings(tree)}
    assert {(label, value) for _, label, value in found} == {("x", "3"), ("y", "2")}
    assert len(found) == 3
    assert bindings(parse("(add x y)", 9)) == []


def test_subtrees():
    tree = parse("(f (g a b) c)", 9)
    assert [text_of(subtree(tree, node)) for node in range(5)] == ["(f (g a b) c)", "(g a b)", "a", "b", "c"]
    assert np.all([subtree(tree, node).parents[0] == -1 for node in range(5)])
