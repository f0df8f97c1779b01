"""The exact distance against networkx, its mapping against a plain sum, and how a search is stopped."""

import itertools
import math
import signal
import threading
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.distance import Costs, Graph, bounds, exact, from_networkx, graph_edit_distance
from tests.distance.oracle import as_networkx, least_mapping_cost, mapping_cost, networkx_distance, random_graph

TRIANGLE = Graph([0, 0, 0], [(0, 1), (1, 2), (2, 0)])
CUSTOM = [
    Costs(node_insert=2, node_delete=3, node_substitute=1, edge_insert=1, edge_delete=2, edge_substitute=2),
    Costs(
        node_insert=0.7, node_delete=0.9, node_substitute=0.3, edge_insert=0.55, edge_delete=0.4, edge_substitute=0.1
    ),
    Costs(node_substitute=lambda a, b: abs(a - b) / 3, edge_substitute=lambda a, b: 0.1 + abs(a - b)),
    Costs(node_substitute=np.array([[0, 1, 4], [2, 0.5, 1], [9, 0, 0]]), edge_substitute=np.array([[0, 3], [1, 0]])),
    Costs(node_insert=0, node_delete=0, node_substitute=0, edge_insert=0, edge_delete=0, edge_substitute=0),
]
DEAR = [  # a substitution may cost more than deleting and inserting
    Costs(node_substitute=5, edge_substitute=7),
    Costs(node_insert=0.25, node_delete=0.25, node_substitute=3, edge_insert=0, edge_delete=1.5, edge_substitute=0.5),
    Costs(node_substitute=lambda a, b: 4.5 if a > b else 0.3, edge_substitute=lambda a, b: 3 * (a < b)),
    Costs(node_substitute=lambda a, b: 1.5 * (a == b), edge_substitute=lambda a, b: 1.5 * (a == b)),
]


def hard_pair(n=40):
    rng = np.random.default_rng(3)
    return random_graph(rng, n, 0.3, 1), random_graph(rng, n, 0.3, 1)


def check(a, b, costs=None, oracle=networkx_distance):
    found, expected = graph_edit_distance(a, b, costs), oracle(a, b, costs)
    assert found.exact
    assert found.distance == found.lower == found.upper == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert mapping_cost(a, b, found.mapping, costs) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    around = bounds(a, b, costs)
    assert around.lower <= found.distance * (1 + 1e-9)
    assert around.upper >= found.distance * (1 - 1e-9)
    assert mapping_cost(a, b, around.mapping, costs) == pytest.approx(around.upper, rel=1e-9, abs=1e-12)
    return found


# Most pairs are small: networkx takes 0.2 s for one of 7 nodes, and seconds if it is directed. With the shapes: over
# 1,000 pairs.
@pytest.mark.parametrize(("pairs", "nodes"), [(780, (1, 5)), (60, (6, 6)), (25, (7, 7))])
def test_distances_equal_networkx(pairs, nodes):
    rng = np.random.default_rng(pairs)
    searched = 0
    for number in range(pairs):
        density, directed = rng.choice([0.2, 0.4, 0.7]), nodes[1] < 6 and number % 3 == 0
        labels = {"node_labels": int(rng.integers(1, 4)), "edge_labels": int(rng.integers(1, 3))}
        sizes = rng.integers(nodes[0], nodes[1] + 1, 2).tolist()
        a, b = (random_graph(rng, size, density, **labels, directed=directed) for size in sizes)
        searched += check(a, b).nodes_searched
    assert searched > pairs / 4  # the first bounds alone do not do it


@st.composite
def shapes(draw):
    """Paths, rings, stars, complete and bipartite graphs, no edges at all, trees, and any other; labels in runs."""
    n = draw(st.integers(1, 5))
    shape = draw(st.sampled_from(["none", "path", "ring", "star", "complete", "bipartite", "tree", "any"]))
    possible = {
        "none": [],
        "path": [(i, i + 1) for i in range(n - 1)],
        "ring": [(i, (i + 1) % n) for i in range(n if n > 2 else n - 1)],
        "star": [(0, i) for i in range(1, n)],
        "complete": [(i, j) for i in range(n) for j in range(i + 1, n)],
        "bipartite": [(i, j) for i in range(0, n, 2) for j in range(1, n, 2)],
        "tree": [(draw(st.integers(0, i - 1)), i) for i in range(1, n)] if shape == "tree" else [],
        "any": [],
    }[shape]
    if shape == "any":
        possible = (
            draw(st.lists(st.sampled_from([(i, j) for i in range(n) for j in range(i)]), unique=True)) if n > 1 else []
        )
    labels = draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n))
    edge_labels = draw(st.lists(st.sampled_from([0, "x"]), min_size=len(possible), max_size=len(possible)))
    return labels, possible, edge_labels


@settings(max_examples=160, deadline=None, derandomize=True)
@given(shapes(), shapes(), st.booleans())
def test_distances_of_shapes_equal_networkx(one, other, directed):
    check(Graph(*one, directed=directed), Graph(*other, directed=directed))


@pytest.mark.parametrize("costs", CUSTOM)
def test_custom_costs_equal_networkx(costs):
    rng = np.random.default_rng(7)
    for number in range(15):
        a, b = (random_graph(rng, int(rng.integers(1, 5)), 0.5, 3, 2, bool(number % 2)) for _ in range(2))
        check(a, b, costs)


@pytest.mark.parametrize("costs", [None, *CUSTOM, *DEAR])
def test_loops_and_dear_substitutions_by_the_definition(costs):
    rng = np.random.default_rng(8)
    for number in range(12):
        sizes = rng.integers(1, 5, 2).tolist()
        a, b = (random_graph(rng, size, 0.5, 3, 2, number % 2 == 0, loops=number % 3 == 0) for size in sizes)
        check(a, b, costs, oracle=least_mapping_cost)


def turned(costs):
    def cost(given):
        return (lambda a, b: given(b, a)) if callable(given) else np.transpose(given)

    return Costs(
        costs.node_delete,
        costs.node_insert,
        cost(costs.node_substitute),
        costs.edge_delete,
        costs.edge_insert,
        cost(costs.edge_substitute),
    )


@pytest.mark.parametrize("costs", [*CUSTOM, *DEAR])
def test_turned_round_the_distance_is_the_same(costs):
    """Rows become columns, so the search takes another way."""
    rng = np.random.default_rng(9)
    for number in range(120):
        size = int(rng.integers(4, 8))  # equal sizes, or the smaller graph would be the rows both times
        a, b = (random_graph(rng, size, 0.4, 3, 2, number % 3 == 0) for _ in range(2))
        there, back = graph_edit_distance(a, b, costs), graph_edit_distance(b, a, turned(costs))
        assert there.distance == pytest.approx(back.distance, rel=1e-9)


def test_it_is_a_metric():
    rng = np.random.default_rng(11)
    for _ in range(30):
        a, b, c = (random_graph(rng, int(rng.integers(2, 9)), 0.4, 2, 2) for _ in range(3))
        ab, ba, bc, ac = (graph_edit_distance(x, y).distance for x, y in ((a, b), (b, a), (b, c), (a, c)))
        assert ab == ba
        assert ac <= ab + bc
        order = rng.permutation(len(a.labels))
        place = np.argsort(order)
        moved = Graph([a.labels[i] for i in order], [(place[i], place[j]) for i, j in a.edges], a.edge_labels)
        assert graph_edit_distance(a, moved).distance == 0
        assert graph_edit_distance(a, b).distance == graph_edit_distance(moved, b).distance


def test_networkx_graphs_are_taken_with_their_names():
    a, b = nx.Graph(), nx.Graph()
    a.add_node("x", label=1)
    a.add_node("y", label=2)
    a.add_edge("x", "y")
    b.add_node("u", label=2)
    found = graph_edit_distance(a, b)
    assert (found.distance, found.mapping) == (2, (("x", None), ("y", "u")))
    assert graph_edit_distance(b, a).mapping == (("u", "y"), (None, "x"))
    colours = nx.relabel_nodes(a, {})
    nx.set_node_attributes(colours, {"x": "red", "y": "red"}, "colour")
    assert from_networkx(colours, node_label="colour").labels == ["red", "red"]
    assert graph_edit_distance(from_networkx(a), a).distance == 0
    rng = np.random.default_rng(0)
    for directed in (False, True):
        one, other = (random_graph(rng, 6, 0.5, 2, 2, directed) for _ in range(2))
        ours = graph_edit_distance(one, other)
        assert graph_edit_distance(as_networkx(one), as_networkx(other)) == ours


@pytest.mark.parametrize("budget", [0, 1, 7, 100, 1000])
def test_a_budget_stops_the_search_and_bounds_hold(budget):
    rng = np.random.default_rng(budget)
    for directed in (False, True):
        a, b = (random_graph(rng, 9, 0.4, 2, 1, directed) for _ in range(2))
        whole = graph_edit_distance(a, b)
        stopped = graph_edit_distance(a, b, budget=budget)
        assert stopped == graph_edit_distance(a, b, budget=budget)
        assert stopped.nodes_searched == min(budget, whole.nodes_searched)
        assert stopped.lower <= whole.distance <= stopped.upper == stopped.distance
        assert stopped.exact == (stopped.lower == stopped.upper)
        assert mapping_cost(a, b, stopped.mapping) == stopped.upper


def test_bounds_hold_wherever_the_search_is_stopped():
    rng = np.random.default_rng(12)
    for number in range(250):
        a, b = (random_graph(rng, size, 0.5, 1 + number % 2) for size in rng.integers(3, 9, 2).tolist())
        whole = graph_edit_distance(a, b)
        for budget in range(min(whole.nodes_searched, 40)):
            stopped = graph_edit_distance(a, b, budget=budget)
            assert stopped.lower <= whole.distance <= stopped.upper


def test_bounds_close_in_as_the_budget_grows():
    a, b = hard_pair(14)
    found = [graph_edit_distance(a, b, budget=budget) for budget in (0, 10, 1000, 100_000)]
    assert [step.lower for step in found] == sorted(step.lower for step in found)
    assert [step.upper for step in found] == sorted((step.upper for step in found), reverse=True)
    assert found[0].lower < found[-1].upper


@pytest.mark.parametrize("timeout", [0, 0.02, 0.5])
def test_a_time_out_is_honoured(timeout, monkeypatch):
    """By a clock that moves a millisecond a look: the search ends at the first look past the time-out, and does only a
    small, fixed amount of work between two looks. What that takes in real time is in docs/distance.md."""
    a, b = hard_pair()  # would take longer than anybody waits
    graph_edit_distance(TRIANGLE, TRIANGLE)
    looks = itertools.count()
    monkeypatch.setattr(exact, "time", SimpleNamespace(perf_counter=lambda: next(looks) / 1000))
    found = graph_edit_distance(a, b, timeout=timeout)
    made = next(looks)
    assert made == max(2, 1000 * timeout + 1)
    assert found.nodes_searched <= made * max(1, exact.SHORT_SLICE // len(a.labels) ** 3)
    assert not found.exact
    assert 0 < found.lower < found.upper


def test_a_time_out_that_is_not_needed_changes_nothing():
    easy = graph_edit_distance(TRIANGLE, Graph([0]), timeout=60)
    assert (easy.distance, easy.exact) == (5, True)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_search():
    a, b = hard_pair()
    graph_edit_distance(TRIANGLE, TRIANGLE)
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        graph_edit_distance(a, b)
    timer.join()


def test_infinite_limits_are_none():
    assert graph_edit_distance(TRIANGLE, Graph([1]), timeout=math.inf, budget=10**30).exact
