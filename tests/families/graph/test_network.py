"""The kernels on graphs of every shape, units, decoding, and that there is learning, and none from shuffled targets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import samebits as api
from samebits.config import override
from samebits.devices.cpu.tree import TreeSum
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families import find_preset
from samebits.families.graph import network, reference
from samebits.families.graph.config import FIRST_POSITION, layout
from samebits.families.graph.data import Graph, batch_of, inputs_of, plan_units, store_of
from samebits.families.graph.edits import DELETE, Edits
from samebits.families.graph.expressions import Tree, parse, text_of
from samebits.families.graph.family import FAMILY
from samebits.families.graph.model import GraphModel, step
from samebits.training.params import views
from samebits.verify.gradients import spread_params
from tests.families.graph import twin

TINY = FAMILY.tasks["derivative"].checks[0]
CHAIN = Graph([1] * 30, [(i, i + 1, FIRST_POSITION) for i in range(29)])
SINGLE = Graph([3], [])
SHARED = Graph(
    [0, 1, 2, 3, 4],
    [(0, 1, FIRST_POSITION), (0, 2, FIRST_POSITION + 1), (1, 3, FIRST_POSITION), (2, 3, FIRST_POSITION), (2, 4, 1),
     (1, 4, FIRST_POSITION + 1), (0, 4, FIRST_POSITION + 1), (1, 3, FIRST_POSITION + 1)],
)  # fmt: skip
GRAPHS = {"chain": [CHAIN], "single": [SINGLE], "shared": [SHARED], "all": [SINGLE, CHAIN, SHARED, SINGLE, SHARED]}


CHANGES = {
    "edits": {}, "sinkhorn": {"sinkhorn": 1.0}, "undirected": {"directed": False}, "relu": {"activation": "relu"},
}  # fmt: skip


def batch_of_graphs(config, graphs):
    """Any DAGs with random targets; each should become a chain of two nodes."""
    draw = np.random.default_rng(0)
    targets = [
        [tuple(int(draw.integers(0, max(1, size))) for size in config.head_sizes) for _ in graph.labels]
        for graph in graphs
    ]
    trees = [[min(i - 1, 3) for i in range(len(graph.labels))] for graph in graphs]
    store = store_of(config, graphs, targets, trees, [([2, 5], [-1, 0])] * len(graphs))
    return batch_of(config, store, np.arange(len(graphs)))


def gradient_of(config, params, batch, workers=1):
    pairs = batch.arrays
    units = len(pairs.cuts) - 1
    slots, losses = np.empty((units, params.size), params.dtype), np.empty((units, 1))
    with Workers(workers) as team:
        network.gradient(config, params, pairs, 0, slots, losses, team)
        total = TreeSum(team, params.size, units, params.dtype)
        total.push(slots, len(slots), network.FOLDED)
        merged = total.finish()
        team.join()
        return losses.sum() / batch.divisor, merged / batch.divisor


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("shape", GRAPHS)
def test_every_gradient_on_graphs_of_every_shape(shape, changes):
    """Every element of every parameter against autograd, and the loss against the reference."""
    config = override(TINY, changes)
    batch = batch_of_graphs(config, GRAPHS[shape])
    params = spread_params(FAMILY, config)
    loss, gradient = gradient_of(config, params, batch)
    assert loss == pytest.approx(FAMILY.reference(config, {}, params, batch), rel=1e-11)
    named = {name: torch.tensor(part, requires_grad=True) for name, part in views(layout(config), params).items()}
    twin.loss(config, named, {}, batch).backward()
    for name, ours in views(layout(config), gradient).items():
        theirs = named[name].grad.numpy()
        np.testing.assert_allclose(ours, theirs, atol=1e-9 * (1 + np.abs(theirs).max()), err_msg=name)


def test_all_parameters_by_finite_differences():
    config = override(TINY, {"width": 3, "layers": 2, "sinkhorn": 0.7})
    batch = batch_of_graphs(config, [SHARED, SINGLE])
    params = spread_params(FAMILY, config)
    _, gradient = gradient_of(config, params, batch)
    for index in range(params.size):
        moved = []
        for sign in (1, -1):
            shifted = params.copy()
            shifted[index] += sign * 1e-5
            moved.append(FAMILY.reference(config, {}, shifted, batch))
        assert (moved[0] - moved[1]) / 2e-5 == pytest.approx(gradient[index], rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_dags_give_the_same_bits_for_any_worker_count(workers):
    batch = batch_of_graphs(TINY, GRAPHS["all"] * 3)
    params = spread_params(FAMILY, TINY).astype(np.float32)
    assert len(batch.arrays.cuts) > 4
    one, other = gradient_of(TINY, params, batch), gradient_of(TINY, params, batch, workers)
    assert one[0] == other[0]
    np.testing.assert_array_equal(one[1], other[1])


def test_the_order_of_operands_matters():
    config = find_preset("arithmetic", "small")
    model = GraphModel(config, FAMILY.init(config, np.float64), {})
    store = inputs_of(config, [parse("(sub 3 5)", 9), parse("(sub 5 3)", 9)])
    first, second = (reference.head_probabilities(config, model.params, store, graph)[0][0] for graph in (0, 1))
    assert np.abs(first - second).max() > 1e-3


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=60), st.integers(1, 100))
def test_units_are_balanced_and_cover_every_graph_once(sizes, unit_nodes):
    nodes = np.concatenate([[0], np.cumsum(sizes)])
    chosen = np.arange(len(sizes))[::-1].copy()
    cuts, total, most = plan_units(chosen, nodes, unit_nodes)
    assert cuts[0] == 0
    assert cuts[-1] == len(sizes)
    assert (np.diff(cuts) > 0).all()
    counts = np.add.reduceat(np.array(sizes)[chosen], cuts[:-1])
    assert (total, most) == (sum(sizes), counts.max())
    assert len(counts) == max(1, min(len(sizes), (sum(sizes) + unit_nodes // 2) // unit_nodes))
    if len(counts) < len(sizes) // 4:
        assert counts.max() <= sum(sizes) / len(counts) + 2 * max(sizes)


def test_of_many_units_the_last_of_every_eight_are_smaller():
    """So that whoever is done can help with a piece of what is left; a few units are all alike."""
    nodes = np.arange(0, 20 * 513, 20)
    assert np.diff(plan_units(np.arange(512), nodes, 160)[0]).tolist() == 8 * [9, 9, 9, 9, 8, 8, 7, 5]
    assert np.diff(plan_units(np.arange(120), nodes, 160)[0]).tolist() == 15 * [8]


def test_batches_keep_eight_workers_busy():
    config = find_preset("boolean", "full")
    data = FAMILY.load(override(config, {"expressions": 200}))
    big = FAMILY.batch(override(config, {"batch_size": 512}), data, 0)
    assert len(FAMILY.groups(config, big)) >= 8


def constant_model(config, **head):
    """A network that says the same of every node: biases only."""
    model = GraphModel(config, np.zeros_like(FAMILY.init(config, np.float32)), {})
    begin = 0
    for name, size in zip(("action", "above", "right", "first"), config.head_sizes, strict=True):
        if name in head:
            model.params["heads.bias"][begin + head[name]] = 9
        begin += size
    return model


def test_rewriting_ends_at_a_fixed_point_or_a_limit():
    config = override(find_preset("peano", "small"), {"most_steps": 7, "most_nodes": 20})
    tree = parse("(add 0 0)", 9)
    still = constant_model(config).predict([tree])[0]
    assert still.ended
    assert still.trees == [tree]
    growing = constant_model(config, above=2).predict([parse("0", 9)])[0]  # S above every node, for ever
    assert not growing.ended
    assert [len(found.labels) for found in growing.trees] == [1, 2, 4, 8, 16, 32]
    slow = constant_model(override(config, {"most_steps": 2}), above=2).predict([parse("0", 9)])[0]
    assert not slow.ended
    assert len(slow.trees) == 3
    gone = constant_model(config, action=1).predict([tree])[0]  # everything deleted: the root stays
    assert text_of(gone.trees[-1]) == "add"


def test_a_step_that_changes_nothing_is_the_end():
    tree = parse("(f x)", 9)
    same = Edits(["f", None], [None, None], [None, None], [None, None])
    assert step(tree, same) is None
    gone = Edits([DELETE, DELETE], [None, None], [None, None], [None, None])
    assert text_of(step(tree, gone)) == "f"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(and x w)", "no operator or symbol 'w'"),
        ("(nand x y)", "did you mean and"),
        ("(and x)", "and has 1 operands in \\(and x\\); it takes 2"),
        ("(x y)", "x has 1 operands"),
        ("(and x", "never closed"),
    ],
)
def test_expressions_that_the_task_does_not_know_are_refused(text, words):
    config = find_preset("boolean", "small")
    model = GraphModel(config, FAMILY.init(config, np.float32), {})
    with pytest.raises(SamebitsError, match=words):
        model.parse(text)


def test_the_task_word_is_added_where_it_is_missing():
    config = find_preset("boolean", "small")
    model = GraphModel(config, FAMILY.init(config, np.float32), {})
    assert model.parse("(and x y)") == model.parse("(simplify (and x y))")


GOOD = parse("(and x (not y))", 10)
DEEP = Tree(["not"] * 2000, list(range(-1, 1999)), [[i + 1] for i in range(1999)] + [[]])
NO_TREES = {
    "a text": "(and x y)",
    "a pair": (["x"], [-1]),
    "no node": Tree([], [], []),
    "a label too many": GOOD._replace(labels=[*GOOD.labels, "x"]),
    "a label that is no text": GOOD._replace(labels=["and", "x", 3, "y"]),
    "two roots": Tree(["x", "y"], [-1, -1], [[], []]),
    "a parent that comes later": Tree(["and", "x", "y"], [-1, 2, 0], [[2], [], [1]]),
    "a parent that is no number": GOOD._replace(parents=[-1, 0, 0.0, 2]),
    "no pre-order": Tree(["and", "not", "x", "y"], [-1, 0, 0, 1], [[1, 2], [3], [], []]),
    "children that nobody has": GOOD._replace(children=[[1, 2], [], [9], []]),
    "children that are no lists": GOOD._replace(children=np.zeros(4)),
    "deeper than Python goes": DEEP,
}


REFUSED = [(case, verb) for case in NO_TREES for verb in ("edits", "predict") if (case, verb) != ("a text", "predict")]


@pytest.mark.parametrize(("case", "verb"), REFUSED)
def test_what_is_no_tree_is_refused(case, verb):
    """Compiled code would read beside the arrays."""
    config = find_preset("boolean", "small")
    model = GraphModel(config, FAMILY.init(config, np.float32), {})
    with pytest.raises(SamebitsError, match=r"(trees|expressions)\[1\] is .*; it must be a tree; make it with"):
        getattr(model, verb)([GOOD, NO_TREES[case]], 1)
    with pytest.raises(
        SamebitsError, match=r"(trees|expressions)\[0\]: there is no operator or symbol 'nand' here; did you mean and"
    ):
        getattr(model, verb)([GOOD._replace(labels=["nand", "x", "not", "y"])], 1)


def exact(config, run):
    answers = run.model.predict([one.trees[0] for one in config], 1)
    return np.mean([a.ended and a.trees == one.trees for a, one in zip(answers, config, strict=True)])


def test_it_learns_and_from_shuffled_targets_it_does_not(tmp_path):
    """Peano, a few hundred steps: whole unseen series exact; the same on shuffled edits is no better than copying."""
    from samebits.families.graph.series import split_series

    settings = {"preset": "small", "steps": 300, "width": 32, "layers": 2, "expressions": 300, "workers": 2}
    unseen = split_series(find_preset("peano", "small"), "unseen", 40)
    good = api.train("peano", out=tmp_path / "good", **settings)
    assert exact(unseen, good) > 0.99
    bad = api.train("peano", out=tmp_path / "bad", shuffle_targets=True, **settings)
    assert exact(unseen, bad) <= 0.05
