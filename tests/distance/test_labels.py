"""Labels are equal where Python says that they are, whatever types meet; NaN is equal to NaN."""

from decimal import Decimal

import networkx as nx
import numpy as np
import pytest

from samebits.distance import Costs, Graph, bounds, graph_edit_distance, matrix, tree_edit_distance, tree_edit_mapping
from samebits.errors import SamebitsError

LARGEST = 2**64 - 1


def as_nx(label):
    graph = nx.DiGraph()
    graph.add_node(0, label=label)
    return graph


# Two labels as a user may hold them → the distance of two nodes that carry them.
WAYS = {
    "tree mapping": lambda a, b: tree_edit_mapping(a, [-1], b, [-1])[0],
    "tree pairs": lambda a, b: tree_edit_distance((a, [-1]), (b, [-1])),
    "tree graphs": lambda a, b: tree_edit_distance(Graph(a, directed=True), Graph(b, directed=True)),
    "tree matrix": lambda a, b: matrix([(a, [-1])], [(b, [-1])], kind="tree", workers=1).distance[0, 0],
    "graphs": lambda a, b: graph_edit_distance(Graph(a), Graph(b)).distance,
    "networkx": lambda a, b: graph_edit_distance(as_nx(a[0]), as_nx(b[0])).distance,
    "edges": lambda a, b: graph_edit_distance(Graph("xy", [(0, 1)], a), Graph("xy", [(0, 1)], b)).distance,
    "bounds": lambda a, b: bounds(Graph(a), Graph(b)).distance,
    "matrix": lambda a, b: matrix([Graph(a)], [Graph(b)], workers=1).distance[0, 0],
}
DIFFERENT = {
    "the largest uint64 and -1": (np.array([LARGEST], np.uint64), np.array([-1])),
    "the same as Python has them": ([LARGEST], [-1]),
    "a number and its text": ([1], ["1"]),
    "a number that no float64 is": ([2**53 + 1], [2.0**53]),
    "the same in arrays": (np.array([2**53 + 1]), np.array([2.0**53])),
    "a number beyond all types": ([2**64], [0]),
    "float32 and float64": (np.array([0.1], np.float32), np.array([0.1])),
    "text and bytes": (["1"], [b"1"]),
    "a time and a number": (np.array([1], "m8[ns]"), [1]),
    "NaN and a number": ([float("nan")], [0.0]),
    "NaN and its text": ([float("nan")], ["nan"]),
}
EQUAL = {
    "1 and 1.0": ([1], [1.0]),
    "1 and True": ([1], [True]),
    "int8 and uint64": (np.array([7], np.int8), np.array([7], np.uint64)),
    "an array and a list": (np.array([LARGEST], np.uint64), [LARGEST]),
    "objects": (np.array([2**70], object), [2**70]),
    "NaN of two calls": ([float("nan")], [float("nan")]),
    "NaN of two types": (np.array([np.nan], np.float32), [Decimal("nan")]),
    "NaN in arrays": (np.array([np.nan]), np.array([np.nan])),
    "NaN in tuples": ([(1, (float("nan"), "x"))], [(1, (float("nan"), "x"))]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("labels", DIFFERENT)
def test_unequal_labels_cost_a_relabelling(way, labels):
    assert WAYS[way](*DIFFERENT[labels]) == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("labels", EQUAL)
def test_equal_labels_cost_nothing(way, labels):
    assert WAYS[way](*EQUAL[labels]) == 0


def test_labels_of_several_types_in_one_list_stay_what_they_are():
    """NumPy would make texts of the first, floats of the second, and refuse the third."""
    chain = [-1, 0]
    for labels, others in (([1, "1"], ["1", 1]), ([2**53 + 1, 0.5], [2**53, 0.5]), ([2**64, 1], [1, 2**64])):
        for way in (tree_edit_mapping, lambda a, above, b, over: (tree_edit_distance((a, above), (b, over)),)):
            assert way(labels, chain, labels, chain)[0] == 0
            assert way(labels, chain, others, chain)[0] == (1 if 0.5 in labels else 2)


def test_a_graph_keeps_what_it_is_given_and_lists_what_can_be_read_once():
    kept = Graph(("a", "b"), ((0, 1),))
    assert {kept: 1}[Graph(("a", "b"), ((0, 1),))] == 1  # hashable as before
    once = Graph((name for name in "ab"), iter([(0, 1)]))
    assert (once.labels, once.edges) == (["a", "b"], [(0, 1)])
    assert graph_edit_distance(once, kept).distance == graph_edit_distance(once, kept).distance == 0


def test_a_function_is_asked_about_the_labels_themselves():
    asked = []
    price = Costs(node_substitute=lambda a, b: asked.append((a, b)) or a != b)
    assert tree_edit_distance(([LARGEST], [-1]), (["1"], [-1]), price) == 1
    assert set(asked) == {(LARGEST, LARGEST), (LARGEST, "1"), ("1", LARGEST), ("1", "1")}


def test_a_label_that_cannot_be_hashed_is_named():
    for wrong in ([], {}, np.zeros(2), Decimal("sNaN")):
        with pytest.raises(SamebitsError, match=r"a node of tree b has the label .*; a label must be hashable"):
            tree_edit_mapping([1], [-1], [wrong], [-1])
