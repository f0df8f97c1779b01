"""The contest without a clock: who is let in, and what is made of the times."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from samebits.bench import bounds, contest, runner
from samebits.bench.cases import compared
from samebits.bench.contest import Contestant, compare_with_ideal, open_field, prove, torch_hashes
from samebits.bench.profile import peak_megabytes
from samebits.bench.runner import Spec
from samebits.config import override
from samebits.errors import SamebitsError
from samebits.families import discover, find_preset, find_task
from samebits.training.parts import Bench, Peer

FAMILY, TASK = find_task("life")
CONFIG = find_preset("life", "small")


def test_ratios():
    rows = [
        {"system": "samebits", "threads": 1, "median": 8.0},
        {"system": "samebits", "threads": 2, "median": 5.0},
        {"system": "samebits", "threads": 4, "median": 5.0},
        {"system": "peer", "threads": 2, "median": 50.0},
        {"system": "bound", "threads": 1, "median": 4.0},
    ]
    compare_with_ideal(compared(rows, "bound"), "bound", cores=2)
    assert [row["speed_up"] for row in rows[:3]] == [1.0, 1.6, 1.6]
    assert [row["of_ideal"] for row in rows[:3]] == [1.0, 0.8, 0.8]  # four workers on two cores: ideal is two
    assert [row["of_bound"] for row in rows[:3]] == [0.5, 0.4, 0.4]
    assert rows[3]["times_slower"] == 10.0
    assert "times_slower" not in rows[4]


def test_a_peer_with_other_losses_is_left_out():
    peer = next(peer for peer in FAMILY.bench.peers if "torch" in peer.needs)
    with open_field(FAMILY, CONFIG, lambda text: None) as field:
        row = field.enter_peer(peer, 1, [1.0, 2.0, 3.0])
        assert row is not None
        assert row["absent"].startswith("not the same model: its first losses are [")
        assert field.contestants == []
        ours = field.enter("samebits", 1).first["losses"]
        assert field.enter_peer(peer, 1, ours) is None
        assert [contestant.system for contestant in field.contestants] == ["samebits", "PyTorch eager"]
        field.contestants[1].take_turn(3)
        found = field.contestants[1].row()
    assert found["steps"] == 3
    assert 0 < found["fastest"] <= found["median"] <= found["slowest"]
    assert found["peak_megabytes"] > 1


def test_a_peer_that_is_not_there_or_breaks_is_named_and_no_error():
    with open_field(FAMILY, CONFIG, lambda text: None) as field:
        absent = field.enter_peer(Peer("nobody", "x", ("samebits_has_no_such_package",), {}), 1, [])
        assert absent == {"system": "nobody", "threads": 1, "absent": "samebits_has_no_such_package not installed"}
        broken = field.enter_peer(Peer("broken", "samebits.no_such_module", (), {}), 1, [])
        assert broken is not None
        assert "No module named 'samebits.no_such_module'" in broken["absent"]


def test_peak_memory_is_of_the_measuring_process_alone():
    """Ours holds half a gigabyte more than it; a process used to begin with the peak of the one that started it."""
    held = np.ones(1 << 26)
    mine = peak_megabytes()
    assert mine > held.nbytes / 2**20
    with open_field(FAMILY, CONFIG, lambda text: None) as field:
        contestant = field.enter("samebits", 1)
        contestant.take_turn(1)
        assert 1 < contestant.row()["peak_megabytes"] < mine - held.nbytes / 2**21


def test_a_measuring_process_that_dies_is_an_error():
    contestant = Contestant("samebits", Spec("no such family", {}, 1))
    with pytest.raises(SamebitsError, match="measuring process of samebits ended with 1: KeyError"):
        contestant.first_steps()
    contestant.close()


def test_a_measuring_process_that_dies_between_turns_is_an_error():
    with open_field(FAMILY, CONFIG, lambda text: None) as field:
        contestant = field.enter("samebits", 1)
        contestant._process.kill()
        contestant._process.wait()
        with pytest.raises(SamebitsError, match="measuring process of samebits ended with -9: it said nothing"):
            contestant.take_turn(1)


def test_nothing_wrong_is_timed(monkeypatch):
    assert prove(FAMILY, TASK, CONFIG, [1, 2])["largest_gradient_error"] < 1e-6
    wrong = replace(FAMILY, reference=lambda *ignored: 1.0)
    with pytest.raises(SamebitsError, match=r"the reference says 1\.0"):
        prove(wrong, TASK, CONFIG, [1])
    monkeypatch.setattr(contest, "finite_difference_error", lambda family, config: 1e-3)
    with pytest.raises(SamebitsError, match=r"off by 1\.0e-03"):
        prove(FAMILY, TASK, CONFIG, [1])


def test_hashes_need_a_pytorch_peer(monkeypatch):
    """What is missing is named, with the command that installs it; a family without a peer is told so."""
    alone = replace(FAMILY, name="alone", bench=Bench())
    with pytest.raises(SamebitsError, match="alone has no PyTorch peer; leave --peers out"):
        torch_hashes(alone, CONFIG, [1], 1)
    graph, _ = find_task("boolean")
    for absent, names in ((["torch_geometric"], "torch-geometric"), (["torch", "networkx"], "torch networkx")):
        monkeypatch.setattr(contest, "missing", lambda peer, absent=absent: absent)
        message = rf"peer of graph needs {', '.join(absent)}, not installed; .*pip install {names},"
        with pytest.raises(SamebitsError, match=message):
            torch_hashes(graph, CONFIG, [1], 1)


def test_every_package_of_a_peer_is_in_an_extra_of_ours():
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    held = {re.split("[<>=]", name)[0].replace("-", "_") for name in (*extras["torch"], *extras["peers"])}
    assert {package for family in discover().values() for peer in family.bench.peers for package in peer.needs} <= held


def test_bounds():
    """Twice the batch is twice the traffic; products of every shape run, the small ones in stacks."""
    twice = override(CONFIG, {"batch_size": 2 * CONFIG.batch_size})
    traffic = FAMILY.bench.traffic
    assert traffic is not None
    assert traffic(twice) == 2 * traffic(CONFIG)
    assert bounds.name(FAMILY) == "L2 traffic alone"
    shapes = [(3, 4, 5, 70_000), (300, 400, 500, 2)]
    with_products = replace(FAMILY, bench=Bench(products=lambda config: shapes))
    assert bounds.name(with_products) == "matrix products alone (BLAS)"
    assert bounds.work(with_products, CONFIG)() == 0.0
    assert bounds.work(FAMILY, CONFIG)() == 0.0
    neither = replace(FAMILY, bench=Bench())
    assert bounds.name(neither) is None


def test_every_family_states_a_bound():
    assert all(bounds.name(family) for family in discover().values())


@pytest.mark.parametrize(
    ("asked", "milliseconds", "done"),
    [(3, 400, 3), (3, 1, 500), (3, 2000, 1), (3, 600, 2), (700, 1, 700), (5000, 1, 1000)],
)
def test_a_turn_is_long_enough_to_be_training_and_short_enough_to_wait_for(monkeypatch, asked, milliseconds, done):
    """Between half a second and one, by a clock that moves only in steps; their numbers go on from turn to turn."""
    now, numbers = [0.0], []

    def step(number, ready):
        numbers.append((number, ready))
        now[0] += milliseconds / 1000

    monkeypatch.setattr(runner.time, "perf_counter", lambda: now[0] + 1e-9)
    running = runner.Running(lambda number: f"batch {number}", step, lambda: None)
    times = runner.take_turn(running, 7, asked, 0.5, 1.0)
    assert len(times) == pytest.approx(done, abs=1)  # sums of decimal fractions
    assert times == pytest.approx([milliseconds] * len(times))
    assert numbers == [(number, f"batch {number}") for number in range(7, 7 + len(times))]
