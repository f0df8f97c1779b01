"""What a class sees: samples while a model learns, and a warm-up that fits a short run."""

from __future__ import annotations

import pytest

import samebits as api
from samebits.api import configure
from samebits.families import find_preset
from tests.helpers import samebits_here, weights_line


def test_samples_are_shown_on_the_way_and_change_no_bit(base, tmp_path):
    words = ["train", "gpt", "--preset", "small", "--steps", 6, "--workers", 2, "--data", base / "story.txt", "--out"]
    plain = samebits_here(*words, "plain", cwd=tmp_path)
    shown = samebits_here(*words, "shown", "--sample-every", 2, cwd=tmp_path)
    assert weights_line(shown.stdout) == weights_line(plain.stdout), shown.stderr
    for step in (2, 4, 6):
        assert f"\n--- step {step} ---\n" in shown.stderr
    wanted = api.load(tmp_path / "shown").generate("", tokens=160, temperature=0.8)[0]
    assert shown.stderr.endswith(f"--- step 6 ---\n{wanted}\n")
    metrics = [(tmp_path / name / "metrics.csv").read_bytes() for name in ("plain", "shown")]
    assert metrics[0] == metrics[1]


def test_whoever_observes_gets_the_sample(base, tmp_path):
    seen = {}
    settings = {"preset": "small", "steps": 2, "workers": 1, "data": str(base / "story.txt"), "sample_every": 2}
    run = api.train("gpt", out=tmp_path / "run", observe=lambda step, row: seen.update({step: row}), **settings)
    assert "sample" not in seen[1]
    assert seen[2]["sample"] == run.model.generate("", tokens=160)[0]


@pytest.mark.parametrize(
    ("given", "warm_up"),
    [({}, 100), ({"steps": 2000}, 100), ({"steps": 4000}, 100), ({"steps": 500}, 50), ({"steps": 5}, 0),
     ({"steps": 50, "warmup_steps": 40}, 40), ({"steps": 50, "schedule_steps": 2000}, 100), ({"lr": 0.1}, 100)],
)  # fmt: skip
def test_a_short_run_warms_up_for_a_tenth_of_it_at_most(given, warm_up):
    assert configure("gpt", None, given)[2].warmup_steps == warm_up
    assert find_preset("gpt", "full").warmup_steps == 100
