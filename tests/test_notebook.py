"""What a notebook shows of runs and models: well-formed, with loss, sizes and hash, and safe."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import samebits
from samebits.report.notebook import MOST_POINTS, card, loss_curve, thinned


@pytest.mark.parametrize("task", ["checkerboard", "boolean", "gpt"])
def test_runs_and_models_show_themselves(task, tmp_path):
    run = samebits.train(task, preset="small", out=tmp_path / "run", steps=3, log_every=1, eval_every=0)
    shown, model = run._repr_html_(), run.model._repr_html_()
    for page in (shown, model):
        ElementTree.fromstring(page.replace("&nbsp;", " "))
        assert f"sha256:{run.weights_hash[:16]}" in page
        assert f"{run.weights.size:,}" in page
    assert "3 of 3" in shown
    assert len(re.findall("<polyline", shown)) == sum(
        "loss" in name and not name.startswith("eval") for name in run.metrics
    )


def test_a_run_that_has_measured_nothing_shows_no_curve():
    assert loss_curve({"step": np.array([1.0]), "loss": np.array([2.0])}) == ""
    assert loss_curve({"step": np.arange(3.0), "lr": np.ones(3)}) == ""


def test_a_long_curve_keeps_its_peaks():
    values = np.sin(np.arange(1e5))
    values[777] = 50
    steps, kept = thinned(np.arange(1e5), values)
    assert len(kept) <= MOST_POINTS
    assert kept[steps == 777] == 50


def test_names_are_text_and_no_markup():
    assert "<script>" not in card("<script>alert(1)</script>", {"<b>": "<i>"}, [("<u>", "1")])
