"""The model of step time: its bytes are those that the exchange counts, and its limits are what they must be."""

import numpy as np
import pytest

from samebits.bench.step_model import Network, Work, predict
from samebits.devices.cpu.workers import Workers
from samebits.groups.exchange import Exchange
from samebits.groups.shares import shares
from tests.ranks import on_ranks

WORK = Work(shared=1.0, alike=0.01, row_bytes=4 << 16, groups=[1] * 32)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_bytes_are_those_that_the_exchange_counts(ranks):
    def work(links):
        ranges = shares(np.array(WORK.groups), links.size)
        first, last = ranges[links.rank]
        with Workers(1) as workers:
            exchange = Exchange(workers, links, WORK.row_bytes // 4, len(WORK.groups), np.float32)
            exchange.mine.start(first)
            exchange.mine.push(np.ones((last - first, WORK.row_bytes // 4), np.float32), last - first)
            exchange.run(ranges)
        return links.sent

    network = Network(0.0, 8.0)  # a byte a second
    losses = 8 * len(WORK.groups)
    assert predict(WORK, network, ranks).transfer - losses == pytest.approx(max(on_ranks(ranks, work)), rel=0.01)


def test_without_a_network_it_is_all_compute():
    found = predict(WORK, Network(1.0, 1.0), 1)
    assert (found.compute, found.transfer, found.waiting) == (pytest.approx(1.01), 0.0, 0.0)


def test_ranks_that_share_cores_take_turns():
    own, shared = (predict(WORK, Network(1e-4, 1e9, cores), 4).compute for cores in (4, 2))
    assert shared == pytest.approx(2 * own)
    assert own == pytest.approx(0.26)


def test_more_ranks_than_groups_compute_no_faster():
    few, many = (predict(WORK, Network(1e-4, 1e9), ranks) for ranks in (32, 64))
    assert many.compute == few.compute
    assert many.waiting > few.waiting
