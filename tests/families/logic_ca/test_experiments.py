"""Experiments run the learned circuit, and agree with the unpacked hard rollout."""

import numpy as np
import pytest
from PIL import Image

from samebits import api
from samebits.arithmetic.rng import Purpose
from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families import discover, find_preset
from samebits.families.logic_ca import data, verbs
from samebits.families.logic_ca.model import LogicModel
from samebits.families.logic_ca.pictures import to_bits
from samebits.families.logic_ca.simulation.experiments import (
    Damage,
    Experiments,
    fire_grid,
    random_rectangles,
    wanted_picture,
)
from samebits.verify.gradients import spread_params
from tests.helpers import samebits_here

FAMILY = discover()["logic_ca"]


def model_of(task, **settings):
    config = override(find_preset(task, "small"), settings)
    return LogicModel(config, spread_params(FAMILY, config).astype(np.float32), FAMILY.constants(config))


@pytest.mark.parametrize("task", ["checkerboard-async", "grow", "letter"])
def test_the_packed_circuit_is_the_hard_rollout(task):
    model = model_of(task)
    with Workers(2) as team:
        experiments = Experiments(model, team)
        start, steps = experiments.starts(1, experiments.size), model.config.ca_steps
        fire = fire_grid(model.config, experiments.rate, steps, experiments.size, Purpose.EVALUATION)
        expected = model.rollout(start, steps, fire=fire, workers=team, packed=False)
        wanted = expected[..., : model.config.target_channels]
        np.testing.assert_array_equal(experiments.final(start, steps), wanted)


@pytest.mark.parametrize(
    ("task", "rows", "curves"), [("checkerboard", 8, 1), ("life", 3, 0), ("grow", 2, 0), ("letter", 1, 0)]
)
def test_every_task_has_its_rows(task, rows, curves):
    with Workers(1) as team:
        found = verbs.report(model_of(task), team)
    assert len(found.rows) == rows
    assert len(found.curves) == curves
    assert all(0 <= row["wrong cells"] <= row["of"] for row in found.rows)


def test_a_perfect_life_rule_scores_zero(monkeypatch):
    """The judge itself: a model that gives the right answer has no wrong cell."""
    with Workers(1) as team:
        experiments = Experiments(model_of("life"), team)
        monkeypatch.setattr(experiments, "final", lambda grids, steps, **ignored: data.life_rollout(grids, steps))
        experiments.life()
    assert [row["wrong cells"] for row in experiments.rows] == [0, 0, 0]


def test_damage_is_in_the_middle_and_lasts_as_said():
    rectangles = Damage.parse("4x6@2-3").rectangles(5, (10, 10))
    assert rectangles.tolist() == [[0, 0, 0, 0], [3, 2, 4, 6], [3, 2, 4, 6], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_random_squares_stay_inside():
    found = random_rectangles(500, (64, 64), 10, seed=3)
    assert found[:, :2].min() == 0
    assert found[:, :2].max() == 54
    assert set(found[:, 2:].ravel().tolist()) == {10}


@pytest.mark.parametrize("text", ["20x20", "20x20@5", "axb@1-2", "20x20@60-20", "20x20@0-5", "99x2@1-2", "0x3@1-2"])
def test_damage_that_cannot_be_is_refused(text):
    with pytest.raises(SamebitsError, match="damage"):
        Damage.parse(text).rectangles(40, (30, 30))


def test_a_picture_is_wanted_in_the_middle_of_a_larger_grid():
    model = model_of("grow")
    wide = wanted_picture(model.config, (40, 40))
    np.testing.assert_array_equal(wide[10:30, 10:30], to_bits(model.config.target))
    assert wide.sum() == to_bits(model.config.target).sum()


def test_a_picture_that_should_stay_and_heal_is_tested_for_both(monkeypatch):
    model = model_of("grow")
    more = {"ca_steps": 12, "loss_steps": (10, 12), "damage": 5, "damage_after": 10}
    model = LogicModel(override(model.config, more), model.weights, model.constants)
    asked = []

    def perfect(grids, steps, damage=None):
        asked.append((steps, None if damage is None else np.flatnonzero(damage[:, 2]).tolist()))
        return wanted_picture(model.config, grids.shape[1:3])[None].repeat(len(grids), axis=0)

    with Workers(1) as team:
        experiments = Experiments(model, team)
        monkeypatch.setattr(experiments, "final", perfect)
        experiments.grow()
    assert [row["wrong cells"] for row in experiments.rows] == [0] * 6
    assert [steps for steps, hurt in asked if hurt is None] == [12, 1000, 12, 1000]
    assert {(steps, *hurt) for steps, hurt in asked if hurt is not None} == {(12, 9), (1010, 9)}
    assert experiments.rows[-1]["of"] == 100 * 400


def test_what_grows_from_anything_is_hurt_when_it_has_grown(monkeypatch):
    model = model_of("grow", start="any", boundary="zeros", batch_size=2, ca_steps=12)
    asked = []

    def perfect(grids, steps, damage=None):
        hurt = None if damage is None else (np.flatnonzero(damage[:, 2]).tolist(), damage[:, 2:].max())
        asked.append((grids.shape[:3], grids[0].sum() == model.config.channels, steps, hurt))
        return wanted_picture(model.config, grids.shape[1:3])[None].repeat(len(grids), axis=0)

    with Workers(1) as team:
        experiments = Experiments(model, team)
        monkeypatch.setattr(experiments, "final", perfect)
        experiments.grow()
    assert [row["wrong cells"] for row in experiments.rows] == [0] * 4
    assert asked[:2] == [((1, 20, 20), True, 12, None), ((64, 20, 20), True, 12, None)]  # from one cell, at its size
    assert len(asked) == 2 + 200
    assert {(*found[:3], found[3][0][0], found[3][1]) for found in asked[2:]} == {
        ((1, 20, 20), True, 24, 11, 4),
        ((1, 20, 20), True, 1012, 11, 4),
    }


def test_render_with_damage_and_asynchronous_cells(tmp_path):
    api.train("letter", preset="small", steps=2, workers=1, out=tmp_path / "run")
    options = ["--grid", "20x24", "--steps", 6, "--damage", "5x5@2-4", "--async", "--out", "pictures"]
    done = samebits_here("render", "run", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "pictures/rollout.gif") as gif:
        assert gif.n_frames >= 2
    done = samebits_here("render", "run", "--damage", "50x50@1-2", cwd=tmp_path)
    assert done.returncode == 2
    assert "choose a block that fits" in done.stderr


def test_a_render_s_seed_is_checked(tmp_path):
    with pytest.raises(SamebitsError, match=r"seed is 18446744073709551616; .*; set --seed"):
        verbs.render(model_of("life"), tmp_path, seed=2**64)


def test_soft_frames_keep_every_channel_and_count_so(tmp_path, monkeypatch):
    model = model_of("checkerboard")
    cells, steps = model.config.height * model.config.width, 3
    monkeypatch.setattr(verbs, "LARGEST_RENDER", cells * steps * model.config.channels - 1)
    with pytest.raises(SamebitsError, match=r"cells × steps × channels, 8, at most .*; .* leave --soft out"):
        verbs.render(model, tmp_path, steps=steps, soft=True)
    assert list(tmp_path.iterdir()) == []
    assert len(verbs.render(model, tmp_path, steps=steps)) == 2


def test_published_figures_stand_beside_what_was_published_alone():
    with Workers(1) as team:
        assert all(row["published"] for row in verbs.report(model_of("letter"), team).rows)
        own = model_of("letter", target=("....", ".##.", "...."))
        assert not any(row["published"] for row in verbs.report(own, team).rows)
