"""What the command line prints on the way, and what resume and --config may change."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.__main__ import main as command
from samebits.cli import waiting
from samebits.cli.common import ProgressView, print_table
from samebits.cli.waiting import CompilingNotice
from samebits.config import TrainConfig, build
from samebits.errors import SamebitsError
from samebits.families import discover
from samebits.families.logic_ca.config import LogicConfig
from tests.helpers import samebits_here, sets, weights_line

SMALL = ["--preset", "small", "--workers", "1", *sets(log_every=1, checkpoint_every=4, eval_every=5)]


def run_of(task, name, place, *more):
    done = samebits_here("train", task, *SMALL, "--steps", 6, "--out", name, *more, cwd=place)
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
    assert second.startswith("step 2/3  ")
    assert "loss 0.5" in second
    for part in ("ms/step", "cells/s", "s left"):
        assert part in second


def test_training_goes_on_when_nobody_reads_its_progress(tmp_path):
    """samebits train … 2>&1 | head"""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "samebits", "train", "life", *map(str, SMALL), "--steps", "6", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=writer, text=True, check=False)
    os.close(writer)
    assert weights_line(done.stdout) == weights_line(run_of("life", "other", tmp_path).stdout)


def test_resume_changes_what_changes_no_bit_and_nothing_else(tmp_path):
    whole = run_of("life", "whole", tmp_path, "--steps", 9)
    run_of("life", "run", tmp_path, *sets(schedule_steps=9))
    refused = samebits_here("resume", "run", "--set", "lr=0.1", cwd=tmp_path)
    assert refused.returncode == 2
    assert "lr decides the result" in refused.stderr
    assert "slot_memory" in refused.stderr
    more = samebits_here("resume", "run", "--set", "steps=9", "--set", "slot_memory=100", cwd=tmp_path)
    assert weights_line(more.stdout) == weights_line(whole.stdout)
    assert "slot_memory = 100" in (tmp_path / "run/config.toml").read_text()


def test_another_runs_config_brings_no_schedule_length_and_no_other_task(tmp_path):
    run_of("life", "run", tmp_path)
    done = samebits_here("train", "life", "--config", "run/config.toml", "--steps", 4, "--out", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "schedule_steps = 4" in (tmp_path / "b/config.toml").read_text()
    refused = samebits_here("train", "checkerboard", "--config", "run/config.toml", "--out", "c", cwd=tmp_path)
    assert refused.returncode == 2
    assert "is of task life" in refused.stderr
    assert not (tmp_path / "c").exists()


def test_another_runs_config_on_another_text(tmp_path):
    (tmp_path / "a.txt").write_text("to be or not to be, that is the question. " * 60)
    (tmp_path / "b.txt").write_text("all the world's a stage, and all the men and women merely players. " * 60)
    run_of("gpt", "run", tmp_path, "--data", "a.txt")
    done = samebits_here("train", "gpt", "--config", "run/config.toml", "--data", "b.txt", "--out", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_derived_keys_are_keys():
    for family in discover().values():
        assert set(family.derived({"tokenizer": "char"})) <= set(family.config.model_fields)


def test_against_keeps_both_curves(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr("samebits.cli.evaluate.plot_curves", lambda path, curves, *rest: drawn.update(curves) or path)
    for name in ("one", "two"):
        done = samebits_here("train", "checkerboard", *SMALL, "--steps", 1, "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert samebits_here("eval", "one", "--against", "two", cwd=tmp_path).returncode == 0
    one, two = sorted(drawn)
    assert one.startswith("one: synchronous, mean ")
    assert two.startswith("two: synchronous, mean ")


@pytest.mark.parametrize(
    ("model", "values", "message"),
    [
        (TrainConfig, {"lr": "fast"}, "lr is 'fast'; it must be a valid number"),
        (LogicConfig, {"update": []}, "update is []; it must be a list of at least"),
    ],
)
def test_values_of_the_wrong_shape(model, values, message):
    with pytest.raises(SamebitsError) as caught:
        build(model, values)
    assert message in str(caught.value)
    assert "--set" in str(caught.value)


@pytest.mark.parametrize(("value", "rule"), [([1], "a longer list"), ([1, 2, 3], "a list of at most 2")])
def test_pairs_that_are_none(value, rule):
    with pytest.raises(SamebitsError, match=rf"operators is .*; it must be {rule}; use --set operators="):
        build(discover()["graph"].config, {"operators": value})


def test_progress_goes_to_standard_error_in_whole_lines(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with ProgressView(1) as view:
        view(1, {"step": 1, "loss": 1.0})
    assert sys.stderr.getvalue() == "step 1/1  loss 1\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_narrow_terminal_cuts_metrics_and_neither_steps_nor_time_left(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    long = {f"a_metric_with_a_long_name_{i}": 0.123456 for i in range(6)}
    row = {"step": 50, "grad_norm": 7.0, "loss": 0.5, "eval_loss": 0.25, **long}
    with ProgressView(1000, ("tokens", 8.0)) as view:
        view(49, {})
        view(50, row)
        view.bar.refresh()
        shown = terminal.getvalue().splitlines()[-1]
    assert "50/1000" in shown
    for kept in ("ms/step", "tokens/s", "eval_loss 0.25"):
        assert kept in shown
    assert "…" in shown
    assert "grad_norm" not in shown
    last = terminal.getvalue().splitlines()[-1]
    assert "step 50/1000  " in last  # stays when the bar has gone
    assert "a_metric_with_a_long_name_5 0.12346" in last
    assert last.endswith("grad_norm 7")


def test_the_time_left_is_judged_by_the_second_half_of_the_steps_and_the_newest_evaluation_stays(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(waiting.time, "perf_counter", lambda: now[0])
    with ProgressView(1000) as view:
        for step in range(1, 301):
            now[0] += 10.0 if step <= 100 else 0.1  # slow at first: somebody else computed, too
            view(step, {"step": step, "loss": 1.0} | ({"eval_loss": 0.5} if step == 150 else {}))
        assert len(view.marks) < 200
    last = capsys.readouterr().err.splitlines()[-1]
    assert "100.0 ms/step" in last
    assert "eval_loss 0.5" in last
    assert last.endswith("1 min 10 s left")


@pytest.mark.parametrize(
    ("seconds", "kept_in", "said"),
    [(0.2, Path("x"), ""), (2.0, Path("x"), "once on this machine"), (2.0, None, "every time, for no")],
)
def test_compiling_is_mentioned_once_it_takes_a_while(monkeypatch, capsys, seconds, kept_in, said):
    now = [0.0]
    monkeypatch.setattr(waiting.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(waiting, "KEPT_IN", kept_in)
    notice = CompilingNotice()
    for _ in range(3):
        notice.on_start(None)
        now[0] += seconds
        notice.on_start(None)  # kernels within kernels
        notice.on_end(None)
        notice.on_end(None)
    err = capsys.readouterr().err
    assert err.count("compiling kernels") == (1 if said else 0)
    assert said in err


def test_a_process_that_compiles_says_so(tmp_path):
    """A program with an empty cache, and one small kernel to compile."""
    code = (
        "import sys\nfrom samebits.cli import waiting\nwaiting.CompilingNotice.SECONDS = 0.0\n"
        "from samebits.cli import main\nfrom samebits.verify import canary\n"
        "canary.names = lambda: ['random numbers']\n"
        "sys.argv = ['samebits', 'doctor', '--canaries']\nmain()"
    )
    for expected in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
            env={**os.environ, "SAMEBITS_CACHE_DIR": str(tmp_path / "cache")},
        )  # fmt: skip
        assert ("compiling kernels, once on this machine" in done.stderr) == expected


def test_the_version_is_told(tmp_path):
    done = samebits_here("--version", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.split()[0] == "samebits"


def test_one_count_is_no_comparison(tmp_path):
    done = samebits_here("verify", "life", "--workers", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert "name two or more" in done.stderr


def test_a_preset_without_a_name_is_refused(tmp_path):
    done = samebits_here("train", "life", "--preset", "", cwd=tmp_path)
    assert done.returncode == 2
    assert "preset" in done.stderr


def test_training_past_the_best_is_said(tmp_path):
    """An enormous learning rate after a good start: the last evaluation is worse than the first."""
    good = run_of("boolean", "good", tmp_path, *sets(eval_every=3))
    assert "--checkpoint best" not in good.stdout
    bad = run_of("boolean", "bad", tmp_path, *sets(eval_every=1, lr=30.0, seed=1))
    assert "best evaluation: edit_loss " in bad.stdout
    assert "to use it: --checkpoint best" in bad.stdout


def test_ctrl_c_while_loading_ends_without_a_word(monkeypatch):
    def pressed():
        raise KeyboardInterrupt

    monkeypatch.setattr("samebits.cli.main", pressed)
    with pytest.raises(SystemExit) as ended:
        command()
    assert ended.value.code == 130
