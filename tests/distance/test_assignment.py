"""The compiled assignment against SciPy's, and its prices; the bounds on graphs too large to search."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from samebits.distance import Costs, Graph, bounds, graph_edit_distance
from samebits.distance.assignment import assign
from tests.distance.oracle import mapping_cost, random_graph


def solve(cost):
    r, c = cost.shape
    column, row, via, seen = np.zeros(r, np.int64), *np.zeros((3, c), np.int64)
    u, v, reach = np.zeros(r), *np.zeros((2, c))
    return assign(cost, row, column, u, v, reach, via, seen), row, column, u, v


@pytest.mark.parametrize("fill", ["whole", "real", "gaps"])
def test_assignments_equal_scipy_and_prices_bound_every_choice(fill):
    rng = np.random.default_rng(0)
    for _ in range(300):
        r = int(rng.integers(1, 8))
        shape = (r, int(rng.integers(r, 10)))
        cost = rng.normal(size=shape) if fill == "real" else rng.integers(-3, 4, shape).astype(float)
        if fill == "gaps":
            cost[rng.random(shape) < 0.2] = np.inf
            cost[np.arange(r), rng.permutation(shape[1])[:r]] = 2.0  # some assignment stays possible
        total, row, column, u, v = solve(cost)
        expected = cost[linear_sum_assignment(cost)].sum()
        assert total == pytest.approx(expected, abs=1e-12)
        assert cost[np.arange(r), column].sum() == pytest.approx(total, abs=1e-12)
        assert [row[j] for j in column] == list(range(r))
        assert (row >= 0).sum() == r
        left = cost - u[:, None] - v
        assert left.min() >= -1e-12
        assert np.abs(left[np.arange(r), column]).max() <= 1e-12
        assert v.max() <= 0
        assert (v[row < 0] == 0).all()


def test_no_assignment_costs_infinity():
    cost = np.full((3, 3), np.inf)
    cost[:, 0] = cost[0, :] = 1.0
    assert solve(cost)[0] == np.inf


def test_bounds_hold_on_graphs_too_large_to_search():
    rng = np.random.default_rng(5)
    a, b = random_graph(rng, 300, 0.02, 4, 2), random_graph(rng, 280, 0.02, 4, 2)
    found = bounds(a, b)
    assert found.nodes_searched == 0
    assert 20 <= found.lower <= found.upper == mapping_cost(a, b, found.mapping)
    assert bounds(a, a) == bounds(a, a)


def test_bounds_say_when_they_are_exact():
    square = Graph("abcd", [(0, 1), (1, 2), (2, 3), (3, 0)])
    line = Graph("abcd", [(0, 1), (1, 2), (2, 3)])
    found = bounds(square, line)
    assert (found.lower, found.upper, found.exact, found.distance) == (1, 1, True, 1)
    assert not bounds(Graph([0] * 6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]), ring(6)).exact


def ring(n):
    return Graph([0] * n, [(i, (i + 1) % n) for i in range(n)])


def test_two_triangles_and_a_ring_fool_the_bound_and_not_the_search():
    """Every node has two equal edges in both, so stars see no difference."""
    triangles = Graph([0] * 6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    assert bounds(triangles, ring(6)).lower == 0
    found = graph_edit_distance(triangles, ring(6))
    assert (found.distance, found.exact) == (4, True)


def test_costs_scale():
    rng = np.random.default_rng(6)
    a, b = random_graph(rng, 7, 0.4, 2), random_graph(rng, 6, 0.4, 2)
    plain = graph_edit_distance(a, b).distance
    for factor in (1e-12, 1 / 3, 1e12):
        scaled = Costs(*(factor,) * 6)
        assert graph_edit_distance(a, b, scaled).distance == pytest.approx(factor * plain, rel=1e-9)
