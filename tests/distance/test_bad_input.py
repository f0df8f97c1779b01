"""Every mistake gets one message: the value, the rule, the remedy."""

import networkx as nx
import numpy as np
import pytest

from samebits.distance import Costs, Graph, bounds, graph_edit_distance, matrix, tree_edit_distance
from samebits.distance.exact import MOST_NODES
from samebits.errors import SamebitsError

ONE = Graph([1])


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Graph([]), "graph a has no nodes; it must have 1 to 100; leave empty graphs out"),
        (nx.Graph(), "graph a has no nodes"),
        (
            Graph([0] * (MOST_NODES + 1)),
            "graph a has 101 nodes; it must have 1 to 100; samebits.distance.bounds takes up to",
        ),
        (Graph([1, 2], [(0, 1)], directed=True), "graph b is undirected and graph a is directed; .* convert one"),
        (Graph([1, 2], [(0, 2)]), r"graph a has the edge \(0, 2\); its nodes are 0 to 1; number them from 0"),
        (Graph([1, 2], [(-1, 0)]), r"graph a has the edge \(-1, 0\)"),
        (Graph([1, 2], [("x", "y")]), r"graph a has the edge \('x', 'y'\); an edge must be two node numbers"),
        (Graph([1, 2], [(0, 1), (0,)]), "an edge must be two node numbers"),
        (Graph([1, 2], [(0.5, 1)]), "an edge must be two node numbers"),
        (Graph([1, 2], [(0, 1), (1, 0)]), r"graph a has the edge \(1, 0\) twice; two nodes may have one"),
        (Graph([1, 2], [(0, 1), (0, 1)], directed=True), r"graph a has the edge \(0, 1\) twice"),
        (Graph([1, 2], [(0, 1)], ["x", "y"]), "graph a has 1 edges and 2 edge labels; give one label an edge"),
        (Graph([1, []]), r"a node of graph a has the label \[\]; a label must be hashable"),
        (Graph([1, 2], [(0, 1)], [{}]), r"an edge of graph a has the label {}; a label must be hashable"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "the graph is a multigraph; .*; join parallel edges"),
        ([[0, 1], [1, 0]], "graph a is a list; it must be a samebits.distance.Graph or a networkx graph"),
        (Graph([0] * 15, [(i, j) for i in range(15) for j in range(i)], range(105)), "105 different edge labels"),
    ],
)
def test_bad_graphs_are_named(graph, message):
    with pytest.raises(SamebitsError, match=message):
        graph_edit_distance(graph, ONE)


def test_bounds_and_matrix_name_them_too():
    with pytest.raises(SamebitsError, match="graph b has no nodes"):
        bounds(ONE, Graph([]))
    with pytest.raises(SamebitsError, match="graph a has 1001 nodes; it must have 1 to 1000"):
        bounds(Graph([0] * 1001), ONE)
    with pytest.raises(SamebitsError, match="graph 1 has no nodes"):
        matrix([ONE, Graph([])])
    with pytest.raises(SamebitsError, match="graph 0 of others has no nodes"):
        matrix([ONE], [Graph([])])
    with pytest.raises(SamebitsError, match="tree 1 is an undirected graph"):
        matrix([Graph([1], directed=True), ONE], kind="tree")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: graph_edit_distance(ONE, ONE, timeout=-1), "timeout is -1; it must be a number of seconds from 0"),
        (lambda: graph_edit_distance(ONE, ONE, timeout=float("nan")), "timeout is nan"),
        (lambda: graph_edit_distance(ONE, ONE, timeout="1"), "timeout is '1'"),
        (lambda: graph_edit_distance(ONE, ONE, budget=-1), "budget is -1; it must be a whole number of search nodes"),
        (lambda: graph_edit_distance(ONE, ONE, budget=1.5), "budget is 1.5"),
        (lambda: matrix([ONE], budget=True), "budget is True"),
        (lambda: matrix([]), "graphs is empty; give at least one"),
        (lambda: matrix([ONE], []), "others is empty"),
        (lambda: matrix([ONE], kind="chain"), "kind is 'chain'; it must be 'graph' or 'tree'"),
        (lambda: matrix([ONE], kind="tree", budget=3), "budget is for graphs; .* leave it out"),
        (lambda: matrix([ONE], workers=0), "workers is 0; it must be 'auto' or a whole number"),
        (lambda: Costs(node_insert=-1), "node_insert is -1; it must be a number from 0 to 1e100"),
        (lambda: Costs(edge_delete=float("inf")), "edge_delete is inf"),
        (lambda: Costs(edge_insert="x"), "edge_insert is 'x'"),
        (lambda: Costs(node_insert=np.eye(2)), "node_insert is .*; it must be a number"),
        (lambda: Costs(node_substitute=np.zeros((2, 3))), r"node_substitute has shape \(2, 3\); it must be square"),
        (lambda: Costs(edge_substitute=np.array([[0, -1], [1, 0]])), r"edge_substitute\[0, 1\] is -1"),
        (lambda: bounds(ONE, ONE, Costs(node_substitute=np.eye(1))), "the node label 1 has no row in node_substitute"),
        (lambda: bounds(Graph("x"), ONE, Costs(node_substitute=np.eye(2))), "the node label 'x' has no row"),
        (lambda: bounds(ONE, ONE, Costs(node_substitute=lambda a, b: -2)), r"node_substitute\(1, 1\) is -2"),
        (
            lambda: matrix([Graph(range(i, i + 100)) for i in range(0, 2100, 100)], costs=Costs(node_substitute=max)),
            "2100 different node labels occur; an array or a function can price at most 2000",
        ),
    ],
)
def test_bad_settings_are_named(call, message):
    with pytest.raises(SamebitsError, match=message):
        call()


def test_a_loop_at_a_node_that_has_a_parent_is_a_cycle_too():
    """It was walked round for ever."""
    loop = Graph(["a", "b"], [(0, 1), (1, 1)], directed=True)
    with pytest.raises(SamebitsError, match="tree a has a cycle around node 1"):
        tree_edit_distance(loop, loop)
