"""Many pairs at once: the same as one by one, whatever the number of workers."""

import signal
import threading

import numpy as np
import pytest

from samebits.devices.cpu.workers import Workers
from samebits.distance import Costs, bounds, graph_edit_distance, matrix, tree_edit_distance
from tests.distance.oracle import random_graph
from tests.distance.test_trees import random_tree

COUNTS = (1, 2, 3, 5)
ONE_WAY = Costs(node_insert=2)


@pytest.fixture(scope="module")
def graphs():
    rng = np.random.default_rng(0)
    return [random_graph(rng, int(rng.integers(1, 10)), 0.4, 2, 2) for _ in range(14)]


@pytest.fixture(scope="module")
def trees():
    rng = np.random.default_rng(1)
    return [random_tree(rng, int(rng.integers(1, 40))) for _ in range(12)]


@pytest.mark.parametrize(
    "costs", [None, ONE_WAY, Costs(edge_delete=3), Costs(node_substitute=lambda a, b: abs(a - b) / 3)]
)
def test_graph_distances_equal_those_of_single_pairs(graphs, costs):
    found = matrix(graphs, costs=costs, workers=2)
    expected = np.array([[graph_edit_distance(a, b, costs).distance for b in graphs] for a in graphs])
    np.testing.assert_array_equal(np.triu(found.distance), np.triu(expected))
    np.testing.assert_allclose(found.distance, expected, rtol=1e-12)  # thirds round differently the other way round
    assert found.exact.all()
    np.testing.assert_array_equal(np.diag(found.distance), 0)
    across = matrix(graphs[:3], graphs[2:], costs, workers=2)
    np.testing.assert_array_equal(across.distance, found.distance[:3, 2:])


def test_tree_distances_equal_those_of_single_pairs(trees):
    for costs in (None, ONE_WAY):
        found = matrix(trees, costs=costs, kind="tree", workers=2)
        expected = [[tree_edit_distance(a, b, costs) for b in trees] for a in trees]
        np.testing.assert_array_equal(found.distance, expected)
        assert found.exact.all()
    assert matrix(trees[:2], trees[:5], kind="tree").distance.shape == (2, 5)


@pytest.mark.parametrize("budget", [None, 0, 5])
def test_the_worker_count_changes_nothing(graphs, trees, budget):
    def bits(found):
        return found.lower.tobytes() + found.upper.tobytes()

    assert len({bits(matrix(graphs, budget=budget, workers=count)) for count in COUNTS}) == 1
    assert len({bits(matrix(trees, kind="tree", workers=count)) for count in COUNTS}) == 1


def test_a_budget_gives_each_pair_its_bounds(graphs):
    whole = matrix(graphs).distance
    for budget in (0, 5):
        found = matrix(graphs, budget=budget)
        assert (found.lower <= whole).all()
        assert (whole <= found.upper).all()
        assert not found.exact.all()
        single = graph_edit_distance(graphs[0], graphs[1], budget=budget)
        assert (found.lower[0, 1], found.upper[0, 1]) == (single.lower, single.upper)
    assert bounds(graphs[0], graphs[1]).lower == matrix(graphs, budget=0).lower[0, 1]


def test_searches_longer_than_a_slice_go_on(graphs, trees, monkeypatch):
    """With slices this short every search is handed back and continued many times."""
    expected, capped = matrix(graphs).distance, matrix(graphs, budget=5)
    branches = matrix(trees, kind="tree").distance
    monkeypatch.setattr("samebits.distance.tables.LONG_SLICE", 1)
    monkeypatch.setattr("samebits.distance.tables.SLICE", 1)
    np.testing.assert_array_equal(matrix(graphs, workers=2).distance, expected)
    np.testing.assert_array_equal(matrix(graphs, budget=5).lower, capped.lower)
    np.testing.assert_array_equal(matrix(graphs, budget=5).upper, capped.upper)
    np.testing.assert_array_equal(matrix(trees, kind="tree", workers=2).distance, branches)


def test_a_team_can_be_lent(graphs):
    with Workers(2) as team:
        np.testing.assert_array_equal(matrix(graphs, workers=team).distance, matrix(graphs, workers=1).distance)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_all_workers(graphs):
    rng = np.random.default_rng(2)
    hard = [random_graph(rng, 40, 0.3, 1) for _ in range(4)]
    matrix(graphs[:2])
    timer = threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        matrix(hard, workers=3)
    timer.join()
