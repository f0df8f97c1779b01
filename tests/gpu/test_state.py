"""Mutable state of a family on a device: the CPU's bits, and from one device to the other in mid-run."""

from __future__ import annotations

from samebits.devices.cpu.workers import Workers
from samebits.groups.torchrun import links_for
from samebits.training.trainer import Trainer, resolve
from tests.ranks import on_ranks
from tests.stateful import FAMILY, FULL
from tests.training.trained import trained

CONFIG = resolve(FAMILY, FULL)


def test_a_device_has_the_bits_of_the_cpu(gpu):
    with Workers(2) as workers:
        assert trained(FAMILY, CONFIG, gpu) == trained(FAMILY, CONFIG, workers)


def test_a_run_moves_from_device_to_device(gpu):
    with Workers(1) as workers:
        wanted, here, there = (Trainer(FAMILY, CONFIG, device) for device in (workers, workers, gpu))
        rows = [wanted.step() for _ in range(6)]
        taken = []
        for trainer, other in ((here, there), (there, here), (here, there)):
            taken += [trainer.step() for _ in range(2)]
            other.restore(trainer.checkpoint(""))
        assert taken == rows
        assert there.arrays()["mean"].tobytes() == wanted.arrays()["mean"].tobytes()


def test_ranks_of_both_kinds_share_it(gpu):
    def work(links):
        if links.rank == 1:
            return trained(FAMILY, CONFIG, gpu, links_for(gpu, links))
        with Workers(1) as workers:
            return trained(FAMILY, CONFIG, workers, links_for(workers, links))

    with Workers(1) as workers:
        alone = trained(FAMILY, CONFIG, workers)
    assert on_ranks(2, work, near=True) == [alone] * 2
