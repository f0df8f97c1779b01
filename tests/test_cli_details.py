"""What the command line prints on the way, and what resume and --config may change."""

import io
import os
import subprocess
import sys

import pytest

from tests.helpers import sets, weft_here, weights_line
from weft.cli.common import ProgressView, print_table
from weft.config import TrainConfig, build
from weft.errors import WeftError
from weft.families import discover
from weft.families.logic_ca.config import LogicConfig

SMALL = ["--preset", "small", "--workers", "1", *sets(log_every=1, checkpoint_every=4, eval_every=5)]


def run_of(task, name, place, *more):
    done = weft_here("train", task, *SMALL, "--steps", 6, "--out", name, *more, cwd=place)
    assert done.returncode == 0, done.stderr
    return done


def test_labels_that_look_like_markup_are_printed_as_they_are(capsys):
    print_table(("label", "[/x]"), [("[b]", ":smile:"), ("[/x]", "1")], title="[dim]t")
    out = capsys.readouterr().out
    for text in ("[b]", ":smile:", "[/x]", "[dim]t"):
        assert text in out


def test_the_first_line_claims_no_speed_and_the_others_do(capsys):
    with ProgressView(3, ("cells", 10.0)) as view:
        for step in (1, 2, 3):
            view.last_line = -10.0
            view(step, {"step": step, "loss": 0.5})
    first, second, _ = capsys.readouterr().err.splitlines()
    assert first == "step 1/3  loss 0.5"
    assert second.startswith("step 2/3  loss 0.5  ")
    for part in ("ms/step", "cells/s", "s left"):
        assert part in second


def test_training_goes_on_when_nobody_reads_its_progress(tmp_path):
    """weft train … 2>&1 | head"""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "weft", "train", "life", *map(str, SMALL), "--steps", "6", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=writer, text=True, check=False)
    os.close(writer)
    assert weights_line(done.stdout) == weights_line(run_of("life", "other", tmp_path).stdout)


def test_resume_changes_what_changes_no_bit_and_nothing_else(tmp_path):
    whole = run_of("life", "whole", tmp_path, "--steps", 9)
    run_of("life", "run", tmp_path, *sets(schedule_steps=9))
    refused = weft_here("resume", "run", "--set", "lr=0.1", cwd=tmp_path)
    assert refused.returncode == 2
    assert "lr decides the result" in refused.stderr
    assert "slot_memory" in refused.stderr
    more = weft_here("resume", "run", "--set", "steps=9", "--set", "slot_memory=100", cwd=tmp_path)
    assert weights_line(more.stdout) == weights_line(whole.stdout)
    assert "slot_memory = 100" in (tmp_path / "run/config.toml").read_text()


def test_another_runs_config_brings_no_schedule_length_and_no_other_task(tmp_path):
    run_of("life", "run", tmp_path)
    done = weft_here("train", "life", "--config", "run/config.toml", "--steps", 4, "--out", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "schedule_steps = 4" in (tmp_path / "b/config.toml").read_text()
    refused = weft_here("train", "checkerboard", "--config", "run/config.toml", "--out", "c", cwd=tmp_path)
    assert refused.returncode == 2
    assert "is of task life" in refused.stderr
    assert not (tmp_path / "c").exists()


def test_another_runs_config_on_another_text(tmp_path):
    (tmp_path / "a.txt").write_text("to be or not to be, that is the question. " * 60)
    (tmp_path / "b.txt").write_text("all the world's a stage, and all the men and women merely players. " * 60)
    run_of("gpt", "run", tmp_path, "--data", "a.txt")
    done = weft_here("train", "gpt", "--config", "run/config.toml", "--data", "b.txt", "--out", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_derived_keys_are_keys():
    for family in discover().values():
        assert set(family.derived({"tokenizer": "char"})) <= set(family.config.model_fields)


def test_against_keeps_both_curves(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr("weft.cli.evaluate.plot_curves", lambda path, curves, *rest: drawn.update(curves) or path)
    for name in ("one", "two"):
        done = weft_here("train", "checkerboard", *SMALL, "--steps", 1, "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert weft_here("eval", "one", "--against", "two", cwd=tmp_path).returncode == 0
    assert sorted(drawn) == ["one: synchronous", "two: synchronous"]


@pytest.mark.parametrize(
    ("model", "values", "message"),
    [
        (TrainConfig, {"lr": "fast"}, "lr is 'fast'; it must be a valid number"),
        (LogicConfig, {"update": []}, "update is []; it must be a list of at least"),
    ],
)
def test_values_of_the_wrong_shape(model, values, message):
    with pytest.raises(WeftError) as caught:
        build(model, values)
    assert message in str(caught.value)
    assert "--set" in str(caught.value)


@pytest.mark.parametrize(("value", "rule"), [([1], "a longer list"), ([1, 2, 3], "a list of at most 2")])
def test_pairs_that_are_none(value, rule):
    with pytest.raises(WeftError, match=rf"operators is .*; it must be {rule}; use --set operators="):
        build(discover()["graph"].config, {"operators": value})


def test_progress_goes_to_standard_error_in_whole_lines(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with ProgressView(1) as view:
        view(1, {"step": 1, "loss": 1.0})
    assert sys.stderr.getvalue() == "step 1/1  loss 1\n"
