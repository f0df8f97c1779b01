"""Real processes: torchrun, gloo, one run folder, kills. What ranks compute is in groups/test_exchange.py."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

import samebits as api
from samebits.cli.launch import without_processes
from samebits.errors import SamebitsError
from samebits.groups.torchrun import joined
from tests.helpers import TIMEOUT, samebits, sets, weights_line
from tests.soak_groups import MARK, ranks_of

pytestmark = pytest.mark.cluster
LIFE = ["train", "life", "--preset", "small", "--workers", "1"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """(steps, its weights and metrics) of a run by one process."""
    place = tmp_path_factory.mktemp("alone")
    found = {}
    for steps in (12, 400):
        run = api.train("life", preset="small", workers=1, steps=steps, checkpoint_every=20, out=place / f"{steps}")
        found[steps] = run.outcome.weights, (run.path / "metrics.csv").read_bytes()
    return found


def free_port():
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def by_hand(rank, size, port, *words, cwd, before=(), **env):
    """One process of a group, started as SLURM would: with nothing but the four variables."""
    where = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    return subprocess.Popen(
        [*before, sys.executable, "-m", "samebits", *map(str, words)], cwd=cwd, env={**os.environ, **where, **env},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(processes):
    return [(process.communicate(timeout=TIMEOUT), process.returncode) for process in processes]


def test_a_run_on_three_processes_is_that_of_one(undisturbed, tmp_path):
    words = [*LIFE, "--steps", 12, *sets(checkpoint_every=20), "--processes", 3, "--out", "run"]
    done = samebits(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert weights_line(done.stdout) == undisturbed[12][0]
    assert (tmp_path / "run/metrics.csv").read_bytes() == undisturbed[12][1]
    assert done.stderr.count("step 1/12") == 1  # progress on rank 0 alone
    again = samebits("resume", "run", "--steps", 12, "--processes", 2, cwd=tmp_path)
    assert weights_line(again.stdout) == undisturbed[12][0]
    assert not list(tmp_path.glob("runs"))


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_is_started_again_and_the_run_goes_on(undisturbed, victim, tmp_path):
    mark = f"{tmp_path.name}-{victim}"
    words = [*LIFE, "--steps", 400, *sets(checkpoint_every=20), "--processes", 2, "--out", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "samebits", *map(str, words)], cwd=tmp_path, env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + TIMEOUT
        while not any((tmp_path / "run/checkpoints").glob("step-*")):
            assert time.monotonic() < end
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        os.kill(ranks_of(mark)[victim], signal.SIGKILL)
        out, problems = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == 0, problems
    assert weights_line(out) == undisturbed[400][0]
    assert (tmp_path / "run/metrics.csv").read_bytes() == undisturbed[400][1]


def test_ranks_end_with_a_killed_launcher(undisturbed, tmp_path):
    """Nobody could stop them, and the run would stay in use."""
    words = [*LIFE, "--steps", 400, *sets(checkpoint_every=20), "--processes", 2, "--out", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "samebits", *map(str, words)], cwd=tmp_path, env={**os.environ, MARK: tmp_path.name},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + TIMEOUT
        while not any((tmp_path / "run/checkpoints").glob("step-*")):
            assert time.monotonic() < end
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        ranks = ranks_of(tmp_path.name)
        assert len(ranks) == 2
    finally:
        process.kill()
    process.communicate(timeout=TIMEOUT)  # until the last of them has closed its streams
    assert ranks_of(tmp_path.name) == {}
    reached = max(int(path.stem.split("-")[1]) for path in (tmp_path / "run/checkpoints").glob("step-*"))
    assert reached < 400
    done = samebits("resume", "run", cwd=tmp_path)
    assert weights_line(done.stdout) == undisturbed[400][0], done.stderr


def test_ctrl_c_saves_the_step_and_resume_goes_on(undisturbed, tmp_path):
    words = [*LIFE, "--steps", 400, *sets(checkpoint_every=20), "--processes", 2, "--out", "run"]
    with subprocess.Popen(
        [sys.executable, "-m", "samebits", *map(str, words)], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        end = time.monotonic() + TIMEOUT
        while not any((tmp_path / "run/checkpoints").glob("step-*")):
            assert time.monotonic() < end
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)  # a terminal tells the command, and that its processes
        _, problems = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, problems
    assert "Traceback" not in problems
    assert "stopping after this step" in problems
    done = samebits("resume", "run", "--processes", 3, cwd=tmp_path)
    assert weights_line(done.stdout) == undisturbed[400][0], done.stderr
    assert (tmp_path / "run/metrics.csv").read_bytes() == undisturbed[400][1]


def test_other_start_checkpoints_are_refused(tmp_path):
    """Two folders of one name, as on two machines, whose runs have come differently far."""
    for name, steps in (("here", 8), ("there", 4)):
        chosen = {"steps": steps, "schedule_steps": 12, "checkpoint_every": 4}
        api.train("life", preset="small", workers=1, out=tmp_path / name / "run", **chosen)
    port = free_port()
    group = [
        by_hand(rank, 2, port, "resume", "run", "--steps", 12, cwd=tmp_path / name)
        for rank, name in enumerate(("here", "there"))
    ]
    (first, code), (_, other) = ended(group)
    assert (code, other) == (2, 2)
    assert "start checkpoint is step-4, sha256" in first[1]
    assert "on rank 1 and step-8, sha256" in first[1]


def test_without_pytorch_the_extra_is_named(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('not here')")
    done = samebits(
        *LIFE, "--processes", 2, "--out", "run", cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}
    )
    assert done.returncode == 2
    assert "several processes need PyTorch; install the extra: pip install 'samebits[cluster]'" in done.stderr
    assert not (tmp_path / "run").exists()


def test_processes_that_are_not_alike_are_refused_before_the_first_step(tmp_path):
    port = free_port()
    words = [*LIFE, "--steps", 12, "--out", "run"]
    group = [
        by_hand(0, 2, port, *words, cwd=tmp_path),
        by_hand(1, 2, port, *words, *sets(lr=0.01), cwd=tmp_path),
    ]
    (first, code), (second, other) = ended(group)
    assert (code, other) == (2, 2)
    assert "config key lr is 0.01 on rank 1 and 0.05 on rank 0" in first[1]
    assert second[1].count("\n") == 0 or "Traceback" not in second[1]
    assert not (tmp_path / "run").exists()


def test_a_folder_that_one_rank_cannot_see_is_refused(undisturbed, tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    api.train("life", preset="small", workers=1, steps=4, out=tmp_path / "here/run")
    port = free_port()
    group = [
        by_hand(rank, 2, port, "resume", "run", cwd=tmp_path / name) for rank, name in enumerate(("here", "there"))
    ]
    (first, code), (_, other) = ended(group)
    assert (code, other) == (2, 2)
    assert "rank 1: run does not exist" in first[1]


@pytest.mark.parametrize("local", ["0", "2"])  # apart; on one machine
def test_without_anybody_to_start_it_again_a_lost_rank_is_said(local, tmp_path):
    port = free_port()
    words = [*LIFE, "--steps", 100000, *sets(checkpoint_every=20), "--out", "run"]
    group = [by_hand(rank, 2, port, *words, cwd=tmp_path, LOCAL_WORLD_SIZE=local) for rank in range(2)]
    end = time.monotonic() + TIMEOUT
    while not any((tmp_path / "run/checkpoints").glob("step-*")):
        assert time.monotonic() < end
        time.sleep(0.02)
    group[1].kill()
    (found, code), _ = ended(group)
    assert code == 1
    assert "this process lost the others (" in found[1]
    assert "the last checkpoint is intact" in found[1]
    assert "Traceback" not in found[1]
    assert samebits("eval", "run", cwd=tmp_path).returncode == 0


def test_a_rank_that_never_comes_is_counted(tmp_path):
    port = free_port()
    (found,) = ended([by_hand(0, 3, port, *LIFE, "--out", "run", cwd=tmp_path, SAMEBITS_TIMEOUT="3")])
    assert found[1] == 2
    assert "1 of 3 ranks came within 3 s, 2 did not" in found[0][1]
    assert not (tmp_path / "run").exists()


def test_two_groups_cannot_have_one_folder(tmp_path):
    run = api.train("life", preset="small", workers=1, steps=4, out=tmp_path / "run")
    from samebits.api import open_run

    port = free_port()
    with open_run(run.path).lock():
        group = [by_hand(rank, 2, port, "resume", "run", "--steps", 8, cwd=tmp_path) for rank in range(2)]
        found = ended(group)
    assert [code for _, code in found] == [2, 2]
    assert "in use" in found[0][0][1]


@pytest.mark.parametrize(
    ("name", "value"), [("RANK", "x"), ("RANK", "2"), ("RANK", "-1"), ("WORLD_SIZE", "0"), ("WORLD_SIZE", "9" * 5000),
                        ("MASTER_PORT", "port"), ("SAMEBITS_TIMEOUT", "soon")],
)  # fmt: skip
def test_variables_that_torchrun_would_not_set(name, value, tmp_path, monkeypatch):
    given = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1", name: value}
    for key, one in given.items():
        monkeypatch.setenv(key, one)
    with pytest.raises(SamebitsError, match=f"{name} is .*it must be"), joined():
        pass


def test_processes_without_work_are_said(tmp_path):
    """A picture to grow is one sample, and so one part."""
    words = ["train", "grow", "--preset", "small", "--workers", 1, "--steps", 1, "--processes", 2, "--out", "run"]
    done = samebits(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("1 of 2 processes have nothing to do") == 1


@pytest.mark.parametrize("bad", ["0", "abc", "-1", "1.5", "99999", ""])
def test_bad_numbers_of_processes(bad, tmp_path):
    done = samebits(*LIFE, "--processes", bad, "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert "processes is" in done.stderr
    assert not (tmp_path / "run").exists()


def test_every_process_gets_the_command_without_their_number():
    words = ["train", "life", "--processes", "3", "--set", "lr=1", "--processes=4"]
    assert without_processes(words) == ["train", "life", "--set", "lr=1"]


def test_profile_counts_what_travels(tmp_path):
    words = ["profile", "gpt", "--preset", "small", "--processes", 2, "--workers", 1, "--steps", 3, "--json"]
    done = samebits(*words, *sets(data="generated"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert 1 <= found["sent"] / found["least_sent"] <= 1.1
