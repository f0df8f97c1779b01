"""Machines with a network between them, of 1 Gbit/s and 0.2 ms, that can be cut (Linux, root): make test-network."""

from __future__ import annotations

import threading
import time

import pytest

import samebits as api
from tests.helpers import TIMEOUT, sets, weights_line
from tests.network.machines import Machines, ended
from tests.test_cluster import by_hand, free_port

pytestmark = pytest.mark.network
LIFE = ["-m", "samebits", "train", "life", "--preset", "small", "--workers", "1"]
CUT = 20.0  # seconds


@pytest.mark.parametrize(
    ("task", "more"),
    [("life", {}), ("gpt", {"data": "generated", "batch_size": 33}), ("boolean", {"batch_size": 61})],
)
@pytest.mark.parametrize("count", [2, 4])
def test_machines_end_with_the_weights_of_one(count, task, more, tmp_path):
    alone = api.train(task, preset="small", workers=1, steps=6, out=tmp_path / "alone", **more)
    words = ["-m", "samebits", "train", task, "--preset", "small", "--workers", "1", "--steps", "6"]
    words += map(str, [*sets(**more), "--out", "run"])
    with Machines(count) as machines:
        found = ended(machines.torchrun(words, tmp_path, "equal"), TIMEOUT)
    assert [code for code, _, _ in found] == [0] * count, found
    assert weights_line("".join(out for _, out, _ in found)) == alone.outcome.weights
    assert (tmp_path / "run/metrics.csv").read_bytes() == (tmp_path / "alone/metrics.csv").read_bytes()


def test_a_cut_of_twenty_seconds_is_survived(tmp_path):
    steps = 1500
    alone = api.train("life", preset="small", workers=1, steps=steps, checkpoint_every=20, out=tmp_path / "alone")
    words = [*LIFE, "--steps", str(steps), *sets(checkpoint_every=20), "--out", "run"]
    with Machines(2) as machines:
        group = machines.torchrun(words, tmp_path, "cut")
        end = time.monotonic() + TIMEOUT
        while not any((tmp_path / "run/checkpoints").glob("step-*")):
            assert time.monotonic() < end
            assert all(process.poll() is None for process in group), ended(group, TIMEOUT)
            time.sleep(0.02)
        cut = threading.Thread(target=machines.cut, args=(CUT,))
        cut.start()
        found = ended(group, TIMEOUT)
        assert not cut.is_alive(), "it was over before the cut was: nothing was tested"
    assert [code for code, _, _ in found] == [0, 0], found
    assert weights_line("".join(out for _, out, _ in found)) == alone.outcome.weights
    assert (tmp_path / "run/metrics.csv").read_bytes() == (tmp_path / "alone/metrics.csv").read_bytes()


def test_processes_that_do_not_see_each_other_send(tmp_path):
    """Two containers on one machine: each has its own list of processes, so nobody can open the other's memory."""
    alone = api.train("life", preset="small", workers=1, steps=6, out=tmp_path / "alone")
    port, apart = free_port(), ("unshare", "--pid", "--fork", "--mount-proc")
    words = [*LIFE[2:], "--steps", 6, "--out", "run"]
    group = [
        by_hand(rank, 2, port, *words, cwd=tmp_path, before=apart * rank, LOCAL_WORLD_SIZE="2") for rank in range(2)
    ]
    found = ended(group, TIMEOUT)
    assert [code for code, _, _ in found] == [0, 0], found
    assert weights_line(found[0][1]) == alone.outcome.weights
