"""One run on several ranks: shares, nodes that travel, and the bits of one process."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.arithmetic.tree import tree_nodes
from samebits.config import override
from samebits.devices.cpu.tree import TreeSum
from samebits.devices.cpu.workers import Workers
from samebits.families import find_preset, find_task
from samebits.groups.exchange import Exchange
from samebits.groups.shares import shares
from samebits.training.params import weights_hash
from samebits.training.trainer import Trainer, resolve
from tests.ranks import on_ranks


@given(st.lists(st.integers(1, 9), min_size=1, max_size=80), st.integers(1, 12))
def test_shares_cover_every_group_once_and_are_nearly_equal(groups, ranks):
    found = shares(np.array(groups), ranks)
    assert len(found) == ranks
    assert [start for start, _ in found[1:]] == [end for _, end in found[:-1]]
    assert found[0][0] == 0
    assert found[-1][1] == len(groups)
    units = [sum(groups[first:last]) for first, last in found]
    assert max(units) <= sum(groups) / ranks * (1 + 2 / 16) + max(groups)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("groups", [[1] * 16, [8] * 32, [1] * 64, [4] * 16])
def test_a_power_of_two_of_ranks_has_one_node_each(groups, ranks):
    ends = [0, *np.cumsum(groups).tolist()]
    for first, last in shares(np.array(groups), ranks):
        assert len(tree_nodes(ends[first], ends[last])) == 1


@given(st.integers(0, 300), st.integers(0, 300))
def test_nodes_are_the_fewest_and_in_order(a, b):
    first, last = min(a, b), max(a, b)
    found = tree_nodes(first, last)
    units = [range(place << level, (place + 1) << level) for level, place in found]
    assert [unit for some in units for unit in some] == list(range(first, last))
    assert len(found) <= 2 * max(1, (last - first).bit_length())
    for (level, place), (above, beside) in pairwise(found):
        assert not (level == above and place % 2 == 0 and beside == place + 1)  # else their parent would do


@pytest.mark.parametrize("width", [1, 5, 100, 5000, 200_001])
@pytest.mark.parametrize("units", [1, 2, 7, 16, 33])
@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("near", [False, True])
def test_the_root_is_that_of_one_process(near, ranks, units, width):
    rows = np.random.default_rng(0).normal(size=(units, width)).astype(np.float32)
    with Workers(2) as workers:
        alone = TreeSum(workers, width, units, np.float32)
        alone.start()
        alone.push(rows, len(rows))
        root = alone.finish()
        workers.join()
        wanted = root.copy()

    def work(links):
        ranges = shares(np.ones(units, np.int64), ranks)
        first, last = ranges[links.rank]
        with Workers(1 + links.rank % 2) as workers:
            exchange = Exchange(workers, links, width, units, np.float32)
            for _ in range(3):  # buffers are used again
                exchange.mine.start(first)
                if last > first:
                    exchange.mine.push(rows[first:last], last - first)
                found = exchange.run(ranges)
                workers.join()
                kept = found.copy()
                found[:] = 0  # it is ours
            return kept

    for found in on_ranks(ranks, work, near):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("near", [False, True])
def test_a_power_of_two_of_ranks_sends_the_least_there_is(near):
    width, units = 1 << 16, 16

    def work(links):
        ranges = shares(np.ones(units, np.int64), links.size)
        first, last = ranges[links.rank]
        with Workers(1) as workers:
            exchange = Exchange(workers, links, width, units, np.float32)
            exchange.mine.start(first)
            exchange.mine.push(np.ones((last - first, width), np.float32), last - first)
            exchange.run(ranges)
        return links.sent

    for ranks in (2, 4, 8):
        optimum = 2 * (ranks - 1) / ranks * 4 * width
        assert max(on_ranks(ranks, work, near)) <= 1.01 * optimum


TASKS = {
    "checkerboard": {"batch_size": 7, "ca_steps": 3},
    "gpt": {"batch_size": 33, "data": "generated", "dropout": 0.1},
    "boolean": {"batch_size": 61, "sinkhorn": 0.5},
    "life": {},
    "grow": {"ca_steps": 2},  # one sample: all but one rank have nothing to do
}


@pytest.mark.parametrize("task", TASKS)
def test_weights_and_metrics_are_those_of_one_process(task):
    """Any number of ranks, any number of workers on each."""
    family, _ = find_task(task)
    config = resolve(family, override(find_preset(task, "small"), TASKS[task]))

    def trained(workers, links=None):
        with Workers(workers) as team:
            trainer = Trainer(family, config, team, links=links)
            rows = [trainer.step() for _ in range(3)]
            rows.append(trainer.evaluate(family.evaluation(config, trainer.data, False)))
            return weights_hash(trainer.params), rows

    wanted = trained(1)
    for ranks, near in ((1, False), (2, False), (3, True), (4, True), (5, False)):
        for found in on_ranks(ranks, lambda links: trained(1 + links.rank % 2, links), near):
            assert found == wanted


def test_everybody_has_all_losses_and_hears_who_asked_to_stop():
    family, _ = find_task("life")
    config = resolve(family, find_preset("life", "small"))

    def work(links):
        with Workers(1) as team:
            trainer = Trainer(family, config, team, links=links)
            said = []
            for step in range(3):
                trainer.advance(stop=step == 1 and links.rank == 2)
                said.append(trainer.stop_agreed)
            return said

    assert on_ranks(3, work) == [[False, True, False]] * 3
