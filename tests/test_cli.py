"""Every verb of the command line, and the Python API, on small runs."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import time

import numpy as np
import pytest
from PIL import Image, ImageSequence
from typer.testing import CliRunner

import samebits as api
from samebits.bench import contest
from samebits.cli import app
from samebits.cli.train import interrupts
from samebits.runs import loop as loop
from samebits.training.params import weights_hash
from samebits.verify import bits
from tests.helpers import TIMEOUT, samebits, samebits_here, sets, snapshot, start, weights_line

STEPS = 12
CADENCE = sets(log_every=1, checkpoint_every=4, eval_every=5, keep=9)
SMALL = ["--preset", "small", "--workers", "1", *CADENCE]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run of 12 steps in a folder `run`; tests only read it, or copy it. (its parent, what train printed)"""
    place = tmp_path_factory.mktemp("trained")
    done = samebits("train", "life", *SMALL, "--steps", STEPS, "--out", "run", cwd=place)
    assert done.returncode == 0, done.stderr
    return place, done


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of that run to write in."""
    shutil.copytree(trained[0] / "run", tmp_path / "run")
    return tmp_path


def test_tasks_lists_every_task_and_preset(tmp_path):
    listed = samebits_here("tasks", cwd=tmp_path).stdout
    for task in ("checkerboard", "life"):
        assert f"\n{task} " in listed
        one = samebits_here("tasks", task, cwd=tmp_path).stdout
        assert "│ full " in one
        assert "│ small " in one
    assert snapshot(tmp_path) == {}


def test_no_verb_and_help_say_what_there_is(tmp_path):
    shown = samebits_here("--help", cwd=tmp_path).stdout
    assert "Train a task into a new run folder" in shown
    assert "..." not in shown.replace("[ARGS]...", "")  # no summary is cut
    assert max(map(len, shown.splitlines())) <= 80
    for verb in ("tasks", "train", "resume", "eval", "render", "verify", "bench", "profile", "doctor"):
        asked = samebits_here(verb, "-h", cwd=tmp_path)
        assert asked.returncode == 0
        assert "Usage:" in asked.stdout


def test_train_ends_with_folder_hash_and_next_command(trained):
    place, done = trained
    lines = done.stdout.splitlines()
    assert lines[0] == "run run"
    assert lines[1] == f"weights sha256:{weights_line(done.stdout)}"
    assert lines[2] == "next: samebits render run"
    assert len(lines) == 3
    assert "step 1/12" in done.stderr  # progress goes to standard error
    assert weights_line(done.stdout) == weights_hash(api.load(place / "run").weights)


def test_what_a_run_folder_holds(trained):
    folder = trained[0] / "run"
    assert 'task = "life"' in (folder / "config.toml").read_text()
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "step",
        "soft_loss",
        "hard_loss",
        "grad_norm",
        "lr",
        "eval_soft_loss",
        "eval_hard_loss",
    ]
    assert [row["step"] for row in rows] == [str(step) for step in range(1, STEPS + 1)]
    assert rows[0]["hard_loss"] == "60.0"  # every gate starts as a wire: the cells that change among the first 20
    assert 0 < float(rows[0]["soft_loss"]) < 180
    assert rows[0]["lr"] == "0.05"
    assert [bool(row["eval_hard_loss"]) for row in rows] == [step % 5 == 0 for step in range(1, STEPS + 1)]
    timing = (folder / "timing.csv").read_text().splitlines()
    assert timing[0] == "step,seconds"
    assert len(timing) == STEPS + 1
    kept = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert kept == ["step-12", "step-4", "step-5", "step-8"]  # every 4, and the best evaluation
    for name in kept:
        assert {path.name for path in (folder / "checkpoints" / name).iterdir()} == {"arrays.safetensors", "state.json"}


def test_default_folders_are_numbered(tmp_path):
    for number in (1, 2):
        done = samebits_here("train", "life", *SMALL, "--steps", 1, cwd=tmp_path)
        assert done.returncode == 0
        assert f"run runs/life-{number}" in done.stdout.splitlines()
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["life-1", "life-2"]


def test_keep_says_how_many_checkpoints_stay(tmp_path):
    every = sets(checkpoint_every=1, eval_every=0)
    samebits_here("train", "life", *SMALL, *every, "--steps", 6, "--keep", 2, "--out", "run", cwd=tmp_path)
    assert sorted(path.name for path in (tmp_path / "run/checkpoints").iterdir()) == ["step-5", "step-6"]


def test_resume_of_a_finished_run_prints_the_same_hash(trained, copied):
    before = snapshot(copied)
    done = samebits("resume", "run", cwd=copied)
    assert done.returncode == 0
    assert done.stdout.startswith("no step to do: the run is at step 12, its end")
    assert done.stdout.split("\n", 1)[1] == trained[1].stdout
    assert snapshot(copied) == before


@pytest.mark.parametrize("schedule", ["cosine", "plateau"])
@pytest.mark.parametrize("workers", [1, 3])
def test_resume_further_equals_a_straight_run(tmp_path, workers, schedule):
    """Same weights, same metrics.csv byte for byte; schedule_steps given, as the schedules must be one."""
    same = [*SMALL, *sets(schedule=schedule, schedule_steps=40, warmup_steps=3, plateau_patience=1, plateau_cuts=9)]
    straight = samebits_here("train", "life", *same, "--steps", 20, "--out", "straight", cwd=tmp_path)
    first = samebits_here("train", "life", *same, "--steps", 7, "--out", "parts", cwd=tmp_path)
    assert weights_line(first.stdout) != weights_line(straight.stdout)
    for total in (14, 20):
        second = samebits_here("resume", "parts", "--steps", total, "--workers", workers, cwd=tmp_path)
        assert second.returncode == 0, second.stderr
    assert weights_line(second.stdout) == weights_line(straight.stdout)
    metrics = (tmp_path / "straight/metrics.csv").read_bytes()
    assert (tmp_path / "parts/metrics.csv").read_bytes() == metrics
    rates = {line.split(b",")[4] for line in metrics.splitlines()[1:]}
    assert len(rates) > 3  # the schedule did move
    assert "steps = 20" in (tmp_path / "parts/config.toml").read_text()


def test_resume_from_an_earlier_checkpoint_writes_the_later_ones_anew(trained, copied):
    done = samebits_here("resume", "run", "--checkpoint", 5, cwd=copied)
    assert weights_line(done.stdout) == weights_line(trained[1].stdout)
    assert (copied / "run/metrics.csv").read_bytes() == (trained[0] / "run/metrics.csv").read_bytes()
    assert (copied / "run/checkpoints/step-12").is_dir()


def test_eval_prints_cells_and_checkpoint(trained):
    last = samebits_here("eval", "run", "--workers", 1, cwd=trained[0])
    assert last.returncode == 0
    assert "all 512 patterns" in last.stdout
    assert "4,608" in last.stdout
    assert "checkpoint run/checkpoints/step-12" in last.stdout
    assert "step-5" in samebits_here("eval", "run", "--checkpoint", "best", cwd=trained[0]).stdout
    assert "step-4" in samebits_here("eval", "run", "--checkpoint", "4", cwd=trained[0]).stdout


def test_render_draws_a_gif_and_a_strip(trained, tmp_path):
    out = tmp_path / "pictures"
    done = samebits_here("render", "run", "--steps", 5, "--grid", "12x10", "--soft", "--out", out, cwd=trained[0])
    assert done.returncode == 0
    assert done.stdout.splitlines() == [f"wrote {out}/rollout.gif", f"wrote {out}/rollout.png"]
    with Image.open(out / "rollout.gif") as gif:
        assert gif.format == "GIF"
        assert gif.n_frames == 6  # the start and five steps
        assert gif.size == (10 * 26 + 28, 12 * 26 + 28 + 22)  # 26 pixels a cell, margins, caption
        frames = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(gif)]
    for frame in frames:
        assert len(np.unique(frame.reshape(-1, 3), axis=0)) > 2
    assert (frames[0] != frames[-1]).any()
    with Image.open(out / "rollout.png") as strip:
        assert strip.format == "PNG"
        assert strip.size == (6 * (10 * 13 + 14) + 14, 12 * 13 + 28 + 22)
        assert len(strip.convert("RGB").getcolors(1 << 16)) > 2


def test_render_without_options_draws_into_the_run(copied):
    done = samebits_here("render", "run", "--seed", 3, cwd=copied)
    assert done.returncode == 0
    with Image.open(copied / "run/pictures/rollout.gif") as gif:
        assert gif.n_frames > 10


def test_verify_finds_one_hash(tmp_path):
    done = samebits_here(
        "verify", "life", "--preset", "small", "--steps", 3, "--workers", "1,2,3", "--gradients", cwd=tmp_path
    )
    assert done.returncode == 0
    hashes = {word for word in done.stdout.split() if len(word) == 64}
    assert len(hashes) == 1
    assert done.stdout.count(hashes.pop()) == 3
    assert "the same bits for 1, 2, 3 workers" in done.stdout
    assert "largest relative error" in done.stdout
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize("part", [0, 1], ids=["weights", "metrics"])
def test_verify_fails_when_one_count_gives_other_bits(monkeypatch, part):
    """Exit 1, and says so: for other weights, and for the same weights with other metrics."""

    def pretend(family, config, workers, steps):
        found = ["a" * 64, "b" * 64]
        found[part] = "c" * 64 if workers.count == 2 else found[part]
        return tuple(found)

    monkeypatch.setattr(bits, "trained_hashes", pretend)
    done = CliRunner().invoke(app, ["verify", "life", "--preset", "small", "--workers", "1,2,3"])
    assert done.exit_code == 1
    assert "DIFFERENT bits among 1, 2, 3 workers" in done.stdout


def test_verify_fails_when_a_gradient_is_wrong(monkeypatch):
    monkeypatch.setattr("samebits.cli.verify.finite_difference_error", lambda family, config: 1e-3)
    words = ["verify", "life", "--preset", "small", "--workers", "1,2", "--steps", "1"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert CliRunner().invoke(app, [*words, "--gradients"]).exit_code == 1


def test_profile_names_every_part(tmp_path):
    done = samebits_here("profile", "life", "--preset", "small", "--steps", 2, "--workers", 2, cwd=tmp_path)
    assert done.returncode == 0
    for part in ("forward", "backward", "merge", "optimiser", "data", "other", "step"):
        assert any(line.split("│")[1].strip() == part for line in done.stdout.splitlines() if "│" in line), part
    assert "peak memory" in done.stdout
    assert snapshot(tmp_path) == {}


def test_profile_as_json(tmp_path):
    done = samebits_here("profile", "life", "--preset", "small", "--steps", 2, "--workers", 1, "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert set(found["parts"]) == {"forward", "backward", "merge", "optimiser", "data", "other"}
    assert (found["workers"], found["steps"]) == (1, 2)
    assert found["peak_megabytes"] > 1
    assert found["fastest"] <= found["median"] <= found["slowest"]


def test_verify_beside_pytorch(tmp_path, monkeypatch):
    monkeypatch.setattr("samebits.cli.verify.PEER_THREADS", (1, 2))
    done = samebits_here(
        "verify", "life", "--preset", "small", "--steps", 2, "--workers", "1,2", "--peers", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("│")[1:4] for line in done.stdout.splitlines() if line.startswith("│")]
    systems = [(system.strip(), int(count)) for system, count, _ in rows]
    assert systems == [("samebits", 1), ("samebits", 2), ("PyTorch", 1), ("PyTorch", 2)]
    assert all(len(found.strip()) == 64 for *_, found in rows)
    assert rows[0][2] != rows[2][2]
    assert "deterministic algorithms on: " in done.stdout


def test_doctor_finds_the_promise_kept(tmp_path):
    done = samebits_here("doctor", cwd=tmp_path)
    assert done.returncode == 0
    for word in ("BLAS", "cores", "numpy", "numba", "canary", "all good: one hash for 1, 2, 3, 5 workers"):
        assert word in done.stdout
    assert "DIFFERENT" not in done.stdout


def test_doctor_fails_when_bits_differ(monkeypatch):
    monkeypatch.setattr(bits, "trained_hashes", lambda family, config, workers, *more: (f"{workers.count}", "same"))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    assert "the promise is broken here" in done.stdout


def test_bench_writes_records_and_never_over_one(tmp_path, monkeypatch):
    monkeypatch.setattr(contest, "ROUNDS", 1)
    words = ["bench", "life", "--preset", "small", "--workers", "1,2", "--steps", 2, "--set", "lr=0.01"]
    done = samebits_here(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bits equal for all counts" in done.stdout
    (path,) = (tmp_path / "benchmarks/results").iterdir()
    assert f"wrote {path.relative_to(tmp_path)}" in done.stdout
    record = json.loads(path.read_text())
    assert record["command"] == "samebits " + " ".join(map(str, words))
    assert record["machine"]["cpu"]
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()  # not on macOS
    assert record["machine"]["cores"] == here
    assert record["machine"]["commit"]
    assert record["config"]["lr"] == 0.01
    assert [(row["system"], row["threads"]) for row in record["rows"]] == [
        ("samebits", 1), ("samebits", 2), ("L2 traffic alone", 1),
    ]  # fmt: skip
    assert record["rows"][0]["speed_up"] == 1.0
    assert record["proof"]["loss"] == pytest.approx(record["proof"]["reference_loss"], rel=1e-5)
    kept = path.read_bytes()
    monkeypatch.setattr("samebits.cli.bench.contest", lambda *ignored, **also: record["rows"])
    assert samebits_here(*words, cwd=tmp_path).returncode == 0
    assert list((tmp_path / "benchmarks/results").iterdir()) == [path]
    assert path.read_bytes().startswith(kept)
    assert len(path.read_bytes().splitlines()) == 2
    assert len(list((tmp_path / "benchmarks/plots").iterdir())) == 2


def test_bench_times_nothing_when_bits_differ(monkeypatch, tmp_path):
    monkeypatch.setattr(bits, "trained_hashes", lambda family, config, workers, *more: (f"{workers.count}", "same"))
    done = samebits_here("bench", "life", "--preset", "small", cwd=tmp_path)
    assert done.returncode == 2
    assert "different bits" in done.stderr
    assert snapshot(tmp_path) == {}


def test_config_file_then_set(tmp_path):
    """A file's keys win over the preset, --set over both; a run's own config.toml makes the same run again."""
    (tmp_path / "mine.toml").write_text("lr = 0.02\nseed = 5\nupdate = [8, 4, 2, 1]\nsteps = 3\n")
    done = samebits_here(
        "train", "life", *SMALL, "--config", "mine.toml", "--set", "lr=0.03", "--out", "a", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "a/config.toml").read_text().splitlines()
    for line in ("lr = 0.03", "seed = 5", "update = [8, 4, 2, 1]", "steps = 3", "log_every = 1"):
        assert line in written
    again = samebits_here("train", "life", "--config", "a/config.toml", "--out", "b", cwd=tmp_path)
    assert weights_line(again.stdout) == weights_line(done.stdout)
    assert (tmp_path / "a/metrics.csv").read_bytes() == (tmp_path / "b/metrics.csv").read_bytes()


def test_python_run(tmp_path):
    """samebits.train gives what the command line gives, as arrays."""
    rows = []
    settings = {"steps": 12, "log_every": 1, "checkpoint_every": 4, "eval_every": 5}
    run = api.train(
        "life", preset="small", workers=2, out=tmp_path / "run", observe=lambda step, row: rows.append(row), **settings
    )
    assert run.path == tmp_path / "run"
    assert run.weights.dtype == np.float32
    assert run.weights.shape == (2928,)
    assert run.weights_hash == run.outcome.weights == weights_hash(run.weights)
    assert (run.outcome.step, run.outcome.interrupted, run.outcome.stopped_early) == (12, False, False)
    assert run.metrics["step"].tolist() == list(range(1, 13))
    assert run.metrics["soft_loss"].tolist() == [row["soft_loss"] for row in rows]  # not one bit lost on the way
    assert np.isnan(run.metrics["eval_hard_loss"]).tolist() == [step % 5 != 0 for step in range(1, 13)]
    assert (run.model.weights == run.weights).all()
    further = api.resume(run.path, steps=14, workers=1)
    assert further.outcome.step == 14
    assert further.weights_hash != run.weights_hash


def test_python_equals_command_line(trained, tmp_path):
    settings = {"steps": STEPS, "log_every": 1, "checkpoint_every": 4, "eval_every": 5}
    run = api.train("life", preset="small", workers=3, out=tmp_path / "run", **settings)
    assert run.outcome.weights == weights_line(trained[1].stdout)
    assert (run.path / "metrics.csv").read_bytes() == (trained[0] / "run/metrics.csv").read_bytes()


def test_load_a_run_or_one_checkpoint(trained):
    folder = trained[0] / "run"
    last, fourth = api.load(folder), api.load(folder / "checkpoints/step-4")
    assert weights_hash(last.weights) == weights_line(trained[1].stdout)
    assert (api.load(str(folder), "step-4").weights == fourth.weights).all()
    assert (last.weights != fourth.weights).any()
    assert set(fourth.params) >= {"perceive.0.logits", "update.0.logits", "update.6.logits"}
    assert api.load(folder, dtype="float64").weights.dtype == np.float64
    with pytest.raises(api.SamebitsError, match="no checkpoint 'step-3'"):
        api.load(folder / "checkpoints/step-3")


@pytest.mark.parametrize(("batch", "height", "width"), [(1, 3, 3), (2, 5, 7), (1, 33, 4)])
def test_a_model_takes_grids_of_any_size(trained, batch, height, width):
    model = api.load(trained[0] / "run")
    grids = np.random.default_rng(0).integers(0, 2, (batch, height, width, 1))
    after = model.rollout(grids, 4)
    assert after.shape == grids.shape
    assert set(np.unique(after)) <= {0.0, 1.0}  # the hard circuit computes bits
    path = model.rollout(grids, 4, trajectory=True, workers=1)
    assert path.shape == (5, *grids.shape)
    assert (path[0] == grids).all()
    assert (path[4] == after).all()
    soft = model.rollout(grids, 4, soft=True)
    assert soft.min() >= 0
    assert soft.max() <= 1
    assert not set(np.unique(soft)) <= {0.0, 1.0}
    loss, gradient = model.loss_and_gradient(grids, grids[..., 0], workers=1)
    assert loss == pytest.approx(((model.rollout(grids, 1, soft=True) - grids) ** 2).sum(), rel=1e-5)
    assert {name: value.shape for name, value in gradient.items()} == {
        name: value.shape for name, value in model.params.items() if name.endswith("logits")
    }
    assert any(value.any() for value in gradient.values())
    again = model.loss_and_gradient(grids, grids, workers=3)
    assert again[0] == loss
    assert all((again[1][name] == gradient[name]).all() for name in gradient)


def test_a_model_refuses_other_shapes(trained):
    model = api.load(trained[0] / "run")
    with pytest.raises(api.SamebitsError, match=r"grids have shape \(3, 3, 1\)"):
        model.rollout(np.zeros((3, 3, 1)), 1)
    with pytest.raises(api.SamebitsError, match="with C = 1"):
        model.rollout(np.zeros((1, 3, 3, 2)), 1)
    for wrong in (7.5, -1.0, np.nan):
        with pytest.raises(api.SamebitsError, match=f"grids hold {wrong}; a cell is 0 or 1"):
            model.rollout(np.full((1, 3, 3, 1), wrong), 1)
    with pytest.raises(api.SamebitsError, match=r"targets have shape \(1, 4, 3\)"):
        model.loss_and_gradient(np.zeros((1, 3, 3, 1)), np.zeros((1, 4, 3)))
    with pytest.raises(api.SamebitsError, match="steps is -1"):
        model.rollout(np.zeros((1, 3, 3, 1)), -1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_resume_goes_on(tmp_path, number):
    """A run that would last for days is interrupted, and continued to the bits of one that was not."""
    endless = [*SMALL, *sets(checkpoint_every=10**9, eval_every=0, schedule="cosine", schedule_steps=10**4)]
    process = start("train", "life", *endless, "--steps", 10**9, "--out", "run", cwd=tmp_path)
    metrics = tmp_path / "run/metrics.csv"
    try:
        while process.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") > 3):
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "stopping after this step" in err
    assert "continue with: samebits resume run" in out
    assert "Traceback" not in err
    reached = int(out.split("interrupted after step ")[1].split(",")[0])
    assert reached >= 3
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == [f"step-{reached}"]
    resumed = samebits("resume", "run", "--steps", reached + 9, "--workers", 2, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    straight = samebits_here("train", "life", *endless, "--steps", reached + 9, "--out", "straight", cwd=tmp_path)
    assert weights_line(resumed.stdout) == weights_line(straight.stdout)
    assert metrics.read_bytes() == (tmp_path / "straight/metrics.csv").read_bytes()


def test_the_second_ctrl_c_quits_at_once(monkeypatch, capsys):
    def leave(code):
        raise SystemExit(code)  # the real one does not come back either

    monkeypatch.setattr("os._exit", leave)
    before = signal.getsignal(signal.SIGINT)
    with interrupts() as asked:
        assert not asked.asked
        signal.raise_signal(signal.SIGINT)
        assert asked.asked
        assert "stopping after this step" in capsys.readouterr().err
        signal.raise_signal(signal.SIGTERM)  # one more that asks changes nothing
        assert capsys.readouterr().err == ""
        with pytest.raises(SystemExit, match="130"):
            signal.raise_signal(signal.SIGINT)
        assert "stopped at once" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_in_a_program_of_somebody_elses_the_second_ctrl_c_is_pythons(capsys):
    """Nothing is printed, and nothing ends the program."""
    with loop.Interrupts() as asked:
        signal.raise_signal(signal.SIGINT)
        assert asked.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert capsys.readouterr() == ("", "")
