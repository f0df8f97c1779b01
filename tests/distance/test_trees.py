"""Ordered trees against zss, against all mappings of small trees, and the fixed choice among optimal mappings."""

import itertools

import networkx as nx
import numpy as np
import pytest
import zss

from samebits.distance import Costs, Graph, tree_edit_distance, tree_edit_mapping
from samebits.distance.trees import MOST_NODES, edit_mapping
from samebits.errors import SamebitsError


def random_tree(rng, n, labels=4, depth=1.0):
    """Labels and parents in pre-order: each next node hangs below the last one or one of its ancestors."""
    parents = [-1]
    for i in range(1, n):
        above = i - 1
        while parents[above] >= 0 and rng.random() > depth / (1 + depth):
            above = parents[above]
        parents.append(above)
    return rng.integers(0, labels, n), np.array(parents)


def as_zss(labels, parents):
    nodes = [zss.Node(str(label)) for label in labels]
    for node, parent in zip(nodes, parents, strict=True):
        if parent >= 0:
            nodes[parent].addkid(node)
    return nodes[0]


def ancestors(parents, i):
    found = set()
    while parents[i] >= 0:
        i = parents[i]
        found.add(i)
    return found


def is_mapping(pairs, parents_a, parents_b):
    """One to one, and both ancestors and left-to-right order are kept."""
    for (i, j), (k, m) in itertools.combinations(pairs, 2):
        if i == k or j == m:
            return False
        if (i in ancestors(parents_a, k)) != (j in ancestors(parents_b, m)):
            return False
        if (k in ancestors(parents_a, i)) != (m in ancestors(parents_b, j)):
            return False
        if (i < k) != (j < m):  # with ancestors kept, pre-order says left or right
            return False
    return True


def cost_of(pairs, labels_a, labels_b):
    unequal = sum(labels_a[i] != labels_b[j] for i, j in pairs)
    return len(labels_a) + len(labels_b) - 2 * len(pairs) + unequal


def all_mappings(a, b):
    (labels_a, parents_a), (labels_b, parents_b) = a, b
    for size in range(min(len(labels_a), len(labels_b)) + 1):
        for left in itertools.combinations(range(len(labels_a)), size):
            for right in itertools.combinations(range(len(labels_b)), size):
                pairs = list(zip(left, right, strict=True))
                if is_mapping(pairs, parents_a, parents_b):
                    yield pairs


def test_distances_equal_zss():
    rng = np.random.default_rng(2)
    for _ in range(1000):
        a, b = (
            random_tree(rng, int(rng.integers(1, 16)), labels=int(rng.integers(1, 5)), depth=rng.choice([0.2, 1, 5]))
            for _ in range(2)
        )
        assert tree_edit_distance(a, b) == zss.simple_distance(as_zss(*a), as_zss(*b))


@pytest.mark.parametrize(
    "costs",
    [
        Costs(node_insert=2, node_delete=0.5, node_substitute=1.25),
        Costs(node_substitute=9),  # dearer than deleting and inserting
        Costs(node_insert=3, node_substitute=lambda a, b: abs(a - b) / 2 + (a > b)),
        Costs(node_substitute=np.array([[0, 1, 5, 1], [2, 0.5, 1, 1], [9, 0, 0, 0], [1, 1, 1, 1]])),
    ],
)
def test_custom_costs_equal_zss(costs):
    def change(x, y):
        a, b = int(x.label), int(y.label)
        cost = costs.node_substitute
        return cost(a, b) if callable(cost) else cost[a, b] if hasattr(cost, "shape") else cost * (a != b)

    rng = np.random.default_rng(3)
    for _ in range(50):
        a, b = (random_tree(rng, int(rng.integers(1, 12))) for _ in range(2))
        expected = zss.distance(
            as_zss(*a),
            as_zss(*b),
            zss.Node.get_children,
            insert_cost=lambda x: costs.node_insert,
            remove_cost=lambda x: costs.node_delete,
            update_cost=change,
        )
        assert tree_edit_distance(a, b, costs) == pytest.approx(expected, rel=1e-12)


def test_graphs_are_read_as_trees_with_their_children_in_order():
    plus = Graph(["+", "x", "*", "y", "z"], [(2, 3), (0, 1), (0, 2), (2, 4)], directed=True)
    same = nx.DiGraph()
    same.add_nodes_from((name, {"label": name[0]}) for name in ("y2", "*", "+", "z", "x"))
    same.add_edges_from([("*", "y2"), ("+", "x"), ("*", "z"), ("+", "*")])
    assert tree_edit_distance(plus, same) == 0
    assert tree_edit_distance((["+", "x", "*", "y", "z"], [-1, 0, 0, 2, 2]), same) == 0
    turned = Graph(plus.labels, [(0, 2), (0, 1), (2, 3), (2, 4)], directed=True)
    assert tree_edit_distance(plus, turned) == 2  # order counts: x is deleted here and inserted there


def test_a_mapping_is_valid_and_costs_the_distance():
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = (random_tree(rng, int(rng.integers(1, 25)), depth=rng.choice([0.3, 1, 4])) for _ in range(2))
        distance, pairs = tree_edit_mapping(*a, *b)
        assert distance == zss.simple_distance(as_zss(*a), as_zss(*b))
        assert is_mapping(pairs.tolist(), a[1], b[1])
        assert cost_of(pairs.tolist(), a[0], b[0]) == distance
        assert (np.diff(pairs, axis=0) > 0).all()
        partner = np.empty(len(a[0]), np.int64)
        assert edit_mapping(partner, *a, *b) == distance
        assert [(i, j) for i, j in enumerate(partner) if j >= 0] == [tuple(pair) for pair in pairs.tolist()]


def test_among_all_optimal_mappings_the_most_equal_labels_win():
    rng = np.random.default_rng(1)
    ties = 0
    for _ in range(100):
        a, b = (random_tree(rng, int(rng.integers(2, 7)), labels=3) for _ in range(2))
        distance, pairs = tree_edit_mapping(*a, *b)
        found = [(cost_of(pairs, a[0], b[0]), pairs) for pairs in all_mappings(a, b)]
        assert min(cost for cost, _ in found) == distance
        equal = [sum(a[0][i] == b[0][j] for i, j in pairs) for cost, pairs in found if cost == distance]
        ties += min(equal) < max(equal)
        assert (a[0][pairs[:, 0]] == b[0][pairs[:, 1]]).sum() == max(equal)
    assert ties > 3  # or the test would show nothing


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (([1, 2], [-1, 0]), ([1, 2, 2], [-1, 0, 0]), [(0, 0), (1, 1)]),  # the first of equal children
        (([1, 1], [-1, 0]), ([1], [-1]), [(0, 0)]),  # the upper of equal nodes in line
        (([1, 2, 2], [-1, 0, 0]), ([1, 2], [-1, 0]), [(0, 0), (1, 1)]),
        (([7], [-1]), ([8], [-1]), [(0, 0)]),  # one relabelling, not two edits
        (([1, 2], [-1, 0]), ([2, 1], [-1, 0]), [(0, 1)]),  # an equal pair before two relabellings
        (([2, 1], [-1, 0]), ([1, 2], [-1, 0]), [(0, 1)]),
        (([0, 5, 6], [-1, 0, 1]), ([0, 6], [-1, 0]), [(0, 0), (2, 1)]),
    ],
)
def test_the_choice_among_optimal_mappings_is_fixed(a, b, expected):
    assert tree_edit_mapping(*a, *b)[1].tolist() == [list(pair) for pair in expected]


@pytest.mark.parametrize(
    ("labels", "parents", "message"),
    [
        ([], [], "tree a has no nodes; it must have 1 to"),
        ([1] * (MOST_NODES + 1), range(-1, MOST_NODES), f"tree a has {MOST_NODES + 1} nodes"),
        ([1, 2], [-1], "tree a has 2 labels and 1 parents; give one of each"),
        ([1], [0.5], r"parents of tree a is \[0.5\]; it must be one row of whole numbers; give one number a node"),
        ([1], [[-1]], r"parents of tree a have shape \(1, 1\); they must be one row of whole numbers"),
        ([[1]], [-1], r"a node of tree a has the label \[1\]; a label must be hashable"),
        ([1], [2**64 - 1], "node 0 of tree a has parent 18446744073709551615; nodes must be"),  # not -1
        ([1, 2], [0, -1], "node 0 of tree a has parent 0; nodes must be numbered in pre-order"),
        ([1, 2], [-1, -1], "node 1 of tree a has parent -1"),
        ([1, 2, 3], [-1, 2, 0], "node 1 of tree a has parent 2"),
        ([1, 2, 3, 4], [-1, 0, 0, 1], "node 3 of tree a has parent 1"),
        ([1, 2], [-1, -7], "node 1 of tree a has parent -7"),
    ],
)
def test_bad_trees_are_named(labels, parents, message):
    with pytest.raises(SamebitsError, match=message):
        tree_edit_mapping(labels, list(parents), [1], [-1])


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Graph([], directed=True), "tree a has no nodes"),
        (nx.DiGraph(), "tree a has no nodes"),
        (Graph([1, 2], [(0, 1)]), "tree a is an undirected graph, so nothing says which node is its root; give a dir"),
        (Graph([1, 2], [(0, 1), (1, 0)], directed=True), "tree a has a cycle around node 0; a tree has none"),
        (Graph([1], [(0, 0)], directed=True), "tree a has a cycle around node 0"),
        (Graph([1, 2, 3], [(1, 2), (2, 1)], directed=True), "tree a has a cycle around node 1"),
        (nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")]), "tree a has a cycle around node 'a'"),
        (nx.DiGraph([("a", "b"), ("c", "b"), ("a", "c")]), "node 'b' of tree a has two parents, 'a' and 'c'"),
        (Graph([1, 2, 3], [(0, 1)], directed=True), "tree a has 2 roots, 0 and 2 among them; a tree has one"),
        (Graph([1, [2]], [(0, 1)], directed=True), r"a node of tree a has the label \[2\]; a label must be hashable"),
        ("x", "graph a is a str; it must be a samebits.distance.Graph or a networkx graph"),
        (Graph(range(MOST_NODES + 1), [(0, i) for i in range(1, MOST_NODES + 1)], directed=True), "2001 nodes"),
    ],
)
def test_graphs_that_are_no_trees_are_named(graph, message):
    with pytest.raises(SamebitsError, match=message):
        tree_edit_distance(graph, ([1], [-1]))
