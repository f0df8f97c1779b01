"""samebits from Python: what a person at a prompt or in a notebook sees. docs/python.md is run by test_docs.py."""

from __future__ import annotations

import io
import subprocess
import sys
import types

import numpy as np
import pandas
import pytest

import samebits
from samebits import progress
from samebits.errors import SamebitsError

SHORT = {"preset": "small", "workers": 1, "steps": 4, "eval_every": 2, "log_every": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return samebits.train("life", out=tmp_path_factory.mktemp("python") / "run", **SHORT)


def test_what_is_public_is_listed_and_nothing_else():
    code = "import samebits; print(dir(samebits) == sorted(samebits.__all__)); samebits.train; print(*dir(samebits))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", *sorted(samebits.__all__)]


def test_a_value_is_shown_in_one_short_line(run):
    assert repr(run) == f"Run({run.path}, step 4, weights sha256:{run.weights_hash[:12]}…)"
    assert repr(run.model) == "LogicModel(life, 3×3 cells, 1 channel, 183 gates)"


def test_models_and_runs_are_equal_to_themselves_alone(run):
    one, other = run.model, run.model
    assert one == one
    assert one != other
    assert len({run, one, other}) == 3


def test_metrics_are_a_table_for_pandas(run):
    table = pandas.DataFrame(run.metrics).set_index("step")
    assert table.index.tolist() == [1, 2, 4]
    assert table.index.dtype == np.int64
    assert table["eval_hard_loss"].notna().tolist() == [False, True, True]


def test_a_plot_is_a_picture_that_a_notebook_shows(run):
    found = run.plot()
    assert found.path == run.path / "plots" / "loss.png"
    assert found._repr_png_().startswith(b"\x89PNG")


def test_a_run_of_one_step_has_no_curve(tmp_path):
    run = samebits.train("life", out=tmp_path / "run", **{**SHORT, "steps": 1})
    with pytest.raises(SamebitsError, match="too few losses to draw"):
        run.plot()


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook's kernel has that matters here: a shell with a kernel, and outputs that can be updated."""
    shown = []
    handle = types.SimpleNamespace(update=shown.append)
    made = types.ModuleType("IPython")
    made.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    display = types.ModuleType("IPython.display")
    display.display = lambda first, display_id: shown.append(first) or handle
    monkeypatch.setitem(sys.modules, "IPython", made)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_a_notebook_shows_one_line_that_moves_on(notebook, tmp_path, capsys):
    seen = []
    samebits.train("life", out=tmp_path / "run", observe=lambda step, row: seen.append((step, set(row))), **SHORT)
    assert repr(notebook[0]) == "step 0/4  starting"
    assert repr(notebook[-1]).startswith("step 4/4  soft_loss ")
    assert '<progress value="4" max="4"></progress>' in notebook[-1]._repr_html_()
    assert "eval_hard_loss" in repr(notebook[-1])
    assert "0 s left" in repr(notebook[-1])
    assert capsys.readouterr().err == ""
    assert [step for step, _ in seen] == [1, 2, 3, 4]
    assert seen[2] == (3, set())
    assert {"step", "soft_loss", "eval_hard_loss"} <= seen[3][1]


def test_nothing_is_shown_where_it_is_not_wanted(notebook, tmp_path, capsys):
    samebits.train("life", out=tmp_path / "run", progress=False, **SHORT)
    assert notebook == []
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar_and_a_log_nothing_unless_asked(tmp_path, monkeypatch, capsys):
    samebits.train("life", out=tmp_path / "log", **SHORT)
    assert capsys.readouterr().err == ""
    samebits.resume(tmp_path / "log", workers=1, steps=6, progress=True)
    assert "step 6/6" in capsys.readouterr().err
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    assert not progress.in_notebook()
    samebits.train("life", out=tmp_path / "terminal", **SHORT)
    assert "4/4" in terminal.getvalue()


def test_losses_of_batches_and_evaluations_are_also_means_of_a_cell(tmp_path):
    run = samebits.train("checkerboard", out=tmp_path / "run", **{**SHORT, "batch_size": 3, "eval_samples": 5})
    cells = 16 * 16
    np.testing.assert_array_equal(run.metrics["soft_loss_per_cell"], run.metrics["soft_loss"] / (3 * cells))
    np.testing.assert_array_equal(run.metrics["eval_hard_loss_per_cell"], run.metrics["eval_hard_loss"] / (5 * cells))
    assert run.metrics["soft_loss_per_cell"][-1] == pytest.approx(run.metrics["eval_soft_loss_per_cell"][-1], rel=0.2)
