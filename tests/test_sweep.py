"""Sweeps: the same bits as single runs, whatever the jobs; killed and gone on; halved; stopped where asked."""

import csv
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest

import samebits
from samebits import api, side_by_side
from samebits.cli.compare import differences
from samebits.cli.sweep import choices_of
from samebits.conditions import Condition, condition_of
from samebits.errors import SamebitsError
from samebits.families import find_task
from samebits.metrics import read_columns
from samebits.runs.runfolder import METRICS
from samebits.sweeping import (
    DONE,
    GIVEN_UP,
    STOPPED,
    Standing,
    begin,
    job_count,
    look,
    plan,
    reopen,
    run_sweep,
    survivors,
    values_of,
)
from samebits.sweeps import SweepResult, _values
from tests.helpers import TIMEOUT, samebits_here

TINY = {"steps": [16], "eval_every": [2], "checkpoint_every": [4]}
FAMILY = find_task("checkerboard")[0]


def tiny(path, **choices):
    how = {key: choices.pop(key) for key in ("stop_when", "halve") if key in choices}
    return plan("checkerboard", choices | TINY, "small", path, **how)


def silent(found):
    pass


@pytest.mark.parametrize(
    ("text", "values"),
    [("0..3", [0, 1, 2, 3]), ("-1..1", [-1, 0, 1]), ("0.03,0.05", [0.03, 0.05]), ("a", ["a"]), ("true", [True])],
)
def test_values(text, values):
    assert values_of(text) == values


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((["lr"], None, None), "key=values"),
        ((["lr=1", "lr=2"], None, None), "twice"),
        (([], None, None), "nothing to vary"),
        ((["lr=3..1"], None, None), "write 1..3"),
        ((["lr=0..99999"], None, None), "at most 10000"),
    ],
)
def test_choices_that_are_refused(words, told):
    with pytest.raises(SamebitsError, match=told):
        choices_of(*words)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "9999", ""])
def test_a_number_of_jobs_that_is_refused(text):
    with pytest.raises(SamebitsError, match="from 1 to"):
        job_count(text)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"lr": [0.1, 0.1]}, "each once"),
        ({"lr": [0.1, "much"]}, "lr is"),
        ({"wirng_seed": [1]}, "wiring_seed"),
        ({"stop_when": "eval_hard_loss"}, "a metric, a comparison and a number"),
        ({"stop_when": "__import__('os') == 0"}, "a metric, a comparison and a number"),
        ({"stop_when": "hardness < 1"}, "measures step"),
        ({"stop_when": "eval_hard_loss < 1.2.3"}, "a metric, a comparison and a number"),
    ],
)
def test_a_plan_that_is_refused_leaves_nothing_behind(changes, told, tmp_path):
    with pytest.raises(SamebitsError, match=told):
        tiny(tmp_path / "sweep", **changes)
    assert not (tmp_path / "sweep").exists()


def test_halving_needs_an_evaluation_before_its_first_look(tmp_path):
    with pytest.raises(SamebitsError, match="eval_every to at most 2"):
        plan("checkerboard", {"lr": [0.1], "steps": [16], "eval_every": [4]}, "small", tmp_path, halve=True)


def test_conditions():
    found = condition_of(" eval_hard_loss<=1.5e1 ", FAMILY)
    assert found == Condition("eval_hard_loss", "<=", 15.0)
    assert found.holds({"eval_hard_loss": 15.0})
    assert not any(found.holds(row) for row in ({}, {"eval_hard_loss": None}, {"eval_hard_loss": math.nan}))
    assert not found.holds({"eval_hard_loss": 15.5})


def test_the_better_half_stays_rounded_up_and_ties_go_to_the_earlier_run():
    values = [3.0, 1.0, math.nan, 1.0, 2.0]
    standings = [Standing(index, {}, DONE, value=value) for index, value in enumerate(values)]
    assert survivors(standings) == {1, 3, 4}
    assert survivors([*standings, Standing(5, {}, STOPPED, value=9.0)]) == {1, 3, 4, 5}
    assert survivors(standings[:1]) == {0}
    assert survivors([]) == set()


def test_a_sweep_has_the_bits_of_single_runs_whatever_its_jobs(tmp_path):
    """… halved and killed on the way."""
    seeds = [0, 1, 2, 3]
    one = tiny(tmp_path / "one", wiring_seed=seeds, halve=True)
    found, finished = run_sweep(one, 1, silent)
    assert finished
    assert [run.state for run in found].count(DONE) == 1
    assert sorted(run.step for run in found) == [2, 2, 4, 16]
    two, finished = run_sweep(replace(one, path=tmp_path / "two"), 2, silent)
    assert finished
    assert [vars(run) for run in two] == [vars(run) for run in found]
    again, _ = run_sweep(reopen(tmp_path / "one"), 2, silent)
    assert [vars(run) for run in again] == [vars(run) for run in found]
    best = next(run for run in found if run.state == DONE)
    settings = {key: value for key, (value,) in TINY.items()}
    alone = api.train("checkerboard", preset="small", out=tmp_path / "alone", wiring_seed=best.index, **settings)
    assert alone.weights_hash == best.weights
    for run in found:
        if run.state == GIVEN_UP:  # a prefix of the single run: go on to its end
            assert api.resume(tmp_path / f"one/{run.index:03d}").outcome.step == 16
    with (tmp_path / "one/sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["weights"] for row in rows] == [run.weights for run in found]


def test_a_run_stops_where_the_condition_first_holds(tmp_path):
    sweep = tiny(tmp_path / "sweep", lr=[0.05, 0.06], stop_when="step >= 7")
    found, _ = run_sweep(sweep, 1, silent)
    logged = read_columns(tmp_path / "sweep/000/metrics.csv")["step"]
    first = int(next(step for step in logged if step >= 7))
    assert [(run.state, run.step) for run in found] == [(STOPPED, first)] * 2
    assert [run.weights for run in run_sweep(sweep, 1, silent)[0]] == [run.weights for run in found]


def test_another_sweep_or_a_strangers_folder_is_left_alone(tmp_path):
    begin(tiny(tmp_path / "sweep", lr=[0.1]))
    with pytest.raises(SamebitsError, match="another sweep"):
        begin(tiny(tmp_path / "sweep", lr=[0.2]))
    with pytest.raises(SamebitsError, match="no sweep either"):
        begin(tiny(tmp_path, lr=[0.2]))
    (tmp_path / "sweep/sweep.toml").write_text("[sweep]\ntask = 1\n")
    with pytest.raises(SamebitsError, match="was altered"):
        reopen(tmp_path / "sweep")


def test_a_run_that_cannot_go_on_fails_alone(tmp_path):
    sweep = tiny(tmp_path / "sweep", lr=[0.05, 0.06])
    begin(sweep)
    (tmp_path / "sweep/000").mkdir()
    (tmp_path / "sweep/000/precious").write_text("mine")
    found, finished = run_sweep(sweep, 1, silent)  # by the process that failed
    assert finished
    assert [run.state for run in found] == ["failed", DONE]
    assert "not empty" in found[0].problem
    assert (tmp_path / "sweep/000/precious").read_text() == "mine"


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of two seeds, trained."""
    found = tiny(tmp_path_factory.mktemp("swept") / "sweep", seed=[0, 1])
    run_sweep(found, 1, silent)
    return found


def copied(swept, path):
    """The sweep in another folder, its second run not there."""
    shutil.copytree(swept.path, path)
    shutil.rmtree(path / "001")
    return replace(swept, path=path)


def other_run(sweep):
    shutil.copytree(sweep.folder(0), sweep.folder(1))


def link_to_other_run(sweep):
    sweep.folder(1).symlink_to(sweep.folder(0))


def other_family(sweep):
    api.train("boolean", preset="small", out=sweep.folder(1), steps=2, eval_every=0, workers=1)


def other_length(sweep):
    api.train("checkerboard", preset="small", out=sweep.folder(1), seed=1, steps=2, eval_every=2, workers=1)


def plain_file(sweep):
    sweep.folder(1).write_text("not a run")


def no_metrics(sweep):
    api.train("checkerboard", preset="small", out=sweep.folder(1), seed=1, workers=1, **SETTINGS)
    text = (sweep.folder(1) / METRICS).read_text()
    (sweep.folder(1) / METRICS).write_text(text.replace("eval_hard_loss", "eval_other_loss"))


def no_config(sweep):
    shutil.copytree(sweep.folder(0), sweep.folder(1))
    (sweep.folder(1) / "config.toml").write_text("[run\n")


SETTINGS = {key: value for key, (value,) in TINY.items()}


@pytest.mark.parametrize(
    ("put", "told"),
    [
        (other_run, "was trained with seed 0, and this run of the sweep has 1; move it away"),
        (link_to_other_run, "is a symbolic link; it must be a folder"),
        (other_family, "is a run of boolean, and the sweep is of checkerboard; move it away"),
        (other_length, "was trained with schedule_steps 2, and this run of the sweep has 16"),
        (plain_file, "is a plain file; it must be a folder"),
        (no_metrics, "has no column eval_hard_loss"),
        (no_config, "is not valid TOML"),
    ],
)
def test_what_is_no_run_of_the_sweep_is_named(swept, put, told, tmp_path):
    sweep = copied(swept, tmp_path / "sweep")
    put(sweep)
    done = samebits_here("resume", sweep.path, cwd=tmp_path)
    assert done.returncode == 1
    assert f"run 001 failed: {sweep.folder(1)}" in done.stdout
    assert told in done.stdout
    assert "1 run of this sweep failed: 001" in done.stderr
    with (sweep.path / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["state"] for row in rows] == [DONE, "failed"]
    assert rows[1]["weights"] == ""


def test_a_run_of_the_sweep_that_was_trained_further_is_still_one(swept, tmp_path):
    sweep = copied(swept, tmp_path / "sweep")
    first, _ = run_sweep(swept, 1, silent)
    api.resume(sweep.folder(0), steps=20, workers=1)
    found = look(sweep, 0, 16)
    assert (found.state, found.step, found.value) == (DONE, 16, first[0].value)


LOADING = "import time; time.sleep(60)"  # a child that is not ready yet
IDLE = (
    "import signal, sys; signal.signal(2, signal.SIG_DFL); print(flush=True); sys.stdin.read()"  # ready, saves nothing
)


@pytest.mark.parametrize("code", [LOADING, IDLE])
def test_ctrl_c_while_children_have_nothing_to_save(monkeypatch, code, capfd):
    """No run has failed: those that were about to begin wait for the next time."""
    monkeypatch.setattr(side_by_side, "command", lambda module: [sys.executable, "-c", code])
    pool, answers, looks = side_by_side.Jobs(2), [], []

    def idle():
        looks.append(1)
        if len(looks) == 2:
            signal.raise_signal(signal.SIGINT)

    pool.run([{"path": "x"}] * 3, lambda number, answer: answers.append(answer), idle)
    assert pool.stopping
    assert answers == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_children_load(tmp_path, capfd):
    """The real ones: Python's imports would print a traceback each."""
    sweep = tiny(tmp_path / "sweep", seed=[0, 1])
    begin(sweep)
    pool, answers = side_by_side.Jobs(2), []
    jobs = [{"path": str(sweep.folder(index))} for index in range(2)]
    start = pool._start

    def started():
        child = start()
        signal.raise_signal(signal.SIGINT) if len(pool._children) == 2 else None
        return child

    pool._start = started
    pool.run(jobs, lambda number, answer: answers.append(answer), lambda: None)
    assert pool.stopping
    assert answers == []
    assert capfd.readouterr() == ("", "")


def samebits_command(*words, **options):
    command = [sys.executable, "-m", "samebits", *map(str, words)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def end_after_a_checkpoint(process, number, sweep):
    """Send the signal once there is a checkpoint that was not there before; what it wrote on both streams."""
    before, deadline = set(sweep.glob("*/checkpoints/step-*")), time.monotonic() + TIMEOUT
    while not set(sweep.glob("*/checkpoints/step-*")) - before and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, number)
    written = process.communicate(timeout=TIMEOUT)
    while subprocess.run(["pgrep", "-P", str(process.pid)], check=False, capture_output=True).stdout:
        time.sleep(0.1)
    return written


@pytest.mark.usefixtures("interruptible")
def test_interrupted_and_killed_it_goes_on_to_the_same_end(tmp_path):
    words = ("sweep", "checkerboard", "--preset", "small", "--set", "lr=0.05,0.06", "--set", "checkpoint_every=10")
    begun = samebits_command(*words, "--steps", 120, "--jobs", 2, "--out", tmp_path / "sweep")
    out, told = end_after_a_checkpoint(begun, signal.SIGINT, tmp_path / "sweep")
    assert begun.returncode == 130, told
    assert "samebits resume" in out
    begun = samebits_command("resume", tmp_path / "sweep")
    end_after_a_checkpoint(begun, signal.SIGKILL, tmp_path / "sweep")
    assert begun.returncode == -signal.SIGKILL
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:  # the children of a killed one leave by themselves
        ended = samebits_command("resume", tmp_path / "sweep")
        out, told = ended.communicate(timeout=TIMEOUT)
        if "in use" not in out + told:
            break
        time.sleep(0.5)
    assert ended.returncode == 0, told
    with (tmp_path / "sweep/sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    alone = api.train("checkerboard", preset="small", out=tmp_path / "alone", lr=0.06, steps=120)
    assert (rows[1]["state"], rows[1]["weights"]) == (DONE, alone.weights_hash)
    assert (tmp_path / "sweep/curves.png").stat().st_size > 1000


def test_compare_lists_what_differs(tmp_path):
    for lr in (0.05, 0.06):
        api.train("checkerboard", preset="small", out=tmp_path / f"{lr}", lr=lr, steps=4, eval_every=2)
    runs = {name: api.open_run(tmp_path / name) for name in ("0.05", "0.06")}
    assert differences(runs) == [("lr", "0.05", "0.06")]
    done = samebits_command("compare", tmp_path / "0.05", tmp_path / "0.06", "--out", tmp_path / "both.png")
    out, told = done.communicate(timeout=TIMEOUT)
    assert done.returncode == 0, told
    assert "best eval_hard_loss" in out
    assert (tmp_path / "both.png").stat().st_size > 1000
    alone = samebits_command("compare", tmp_path / "0.05")
    assert "at least two" in alone.communicate(timeout=TIMEOUT)[1]
    assert alone.returncode == 2


def test_a_sweep_from_python_is_the_same(tmp_path, capsys):
    given = {"preset": "small", "lr": [0.05, 0.06], "steps": 16, "eval_every": 2, "checkpoint_every": 4}
    found = samebits.sweep("checkerboard", **given, out=tmp_path / "sweep", jobs=2, progress=True)
    assert "run 001" in capsys.readouterr().err
    assert not found.interrupted
    with (tmp_path / "sweep/sweep.csv").open() as file:
        assert [row["weights"] for row in csv.DictReader(file)] == [row["weights"] for row in found.rows]
    for row in found.rows:
        alone = samebits.train("checkerboard", **given | {"lr": row["lr"]}, out=tmp_path / row["run"])
        assert (row["state"], row["step"], row["weights"]) == (DONE, 16, alone.weights_hash)
    assert [row[found.judged_by] for row in found.rows] == pandas.DataFrame(found.rows)[found.judged_by].tolist()
    best = min(found.rows, key=lambda row: row[found.judged_by])
    assert found.best.path == tmp_path / "sweep" / best["run"]
    assert found.best.weights_hash == found.best.outcome.weights == best["weights"]
    assert [run.path.name for run in found.runs] == sorted(("000", "001"), key=lambda name: name != best["run"])
    assert found.plot().path == tmp_path / "sweep/curves.png"
    assert f"2 runs, best lr={best['lr']}" in repr(found)
    again = samebits.sweep("checkerboard", **given, out=tmp_path / "sweep")
    assert again.rows == found.rows
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "nothing to vary"),
        ({"lr": []}, "each once"),
        ({"lr": [0.1, float("nan")]}, "lr is nan"),
        ({"lr": [object()]}, "lr is <object"),
        ({"lr": {0.1, 0.2}}, "a number, a text, or a list"),
        ({"wirng_seed": [1]}, "wiring_seed"),
        ({"lr": [0.1], "jobs": 0}, "jobs is 0"),
        ({"lr": [0.1], "jobs": "many"}, "jobs is 'many'"),
        ({"lr": [0.1], "halve": 1}, "halve is 1"),
        ({"lr": [0.1], "stop_when": 3}, "stop_when is 3"),
        ({"lr": [0.1], "progress": "yes"}, "progress is 'yes'"),
        ({"lr": [0.1], "out": 7}, "out is 7"),
        ({"lr": [0.1], "preset": "tiny"}, "tiny"),
    ],
)
def test_a_sweep_from_python_that_is_refused(given, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SamebitsError, match=told):
        samebits.sweep("checkerboard", **given)
    assert list(tmp_path.iterdir()) == []


def test_values_from_python():
    assert _values("seed", range(3)) == _values("seed", np.arange(3)) == [0, 1, 2]
    assert _values("update", (8, 4)) == [[8, 4]]  # one value
    assert _values("update", [(8, 4), (8, 2)]) == [[8, 4], [8, 2]]
    assert _values("data", "0..9") == ["0..9"]
    assert _values("data", Path("x")) == ["x"]
    assert _values("lr", np.float64(0.5)) == [0.5]


def test_a_script_needs_no_guard(tmp_path):
    """What it starts are programs of our own: they never run the script again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import samebits\nprint('begun')\n"
        "found = samebits.sweep('checkerboard', preset='small', steps=2, eval_every=2, seed=[0, 1], jobs=1)\n"
        "print(len(found.runs))\n"
    )
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.stdout.split() == ["begun", "2"], done.stderr


def test_a_sweep_that_trained_nothing_has_no_best(tmp_path):
    sweep = tiny(tmp_path / "sweep", lr=[0.05, 0.06])
    found = SweepResult(sweep.path, True, sweep, [Standing(0, sweep.runs[0]), Standing(1, sweep.runs[1])])
    assert found.runs == []
    with pytest.raises(SamebitsError, match="goes on"):
        _ = found.best
    with pytest.raises(SamebitsError, match="no curve"):
        found.plot()


def test_the_lowest_is_best_and_the_earlier_of_two(tmp_path):
    sweep = tiny(tmp_path / "sweep", lr=[0.03, 0.04, 0.05, 0.06])
    values = math.nan, 2.0, 1.0, 1.0
    standings = [
        Standing(index, sweep.runs[index], DONE, 16, value, f"hash {index}") for index, value in enumerate(values)
    ]
    found = SweepResult(sweep.path, False, sweep, standings)
    assert [run.path.name for run in found.runs] == ["002", "003", "001", "000"]
    assert (found.best.path, found.best.outcome.weights) == (sweep.folder(2), "hash 2")
    assert "best lr=0.05" in repr(found)
