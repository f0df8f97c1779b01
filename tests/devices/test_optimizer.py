import math
from itertools import pairwise

import numpy as np
import pytest

from samebits.config import TrainConfig
from samebits.devices.cpu import optimizer as optim
from samebits.devices.cpu.optimizer import AdamW
from samebits.devices.cpu.tree import SLICE
from samebits.devices.cpu.workers import Workers
from samebits.training.params import weights_hash
from samebits.training.schedule import Plateau, learning_rate
from tests import naive

SIZE = 2 * SLICE + 100


def run(config, dtype, workers=1, count=2.0, steps=4):
    draw = np.random.default_rng(0)
    params = draw.normal(size=SIZE).astype(dtype)
    gradients = draw.normal(size=(steps, SIZE)) * 10.0 ** draw.integers(-3, 2, SIZE)
    with Workers(workers) as team:
        optimiser = AdamW(team, params.copy())
        for step, gradient in enumerate(gradients):
            optimiser.step(config, (gradient * count).astype(dtype), count, step, config.lr)
            team.join()
    return params, gradients, optimiser


@pytest.mark.jit_off
@pytest.mark.parametrize(
    "clip", [{}, {"clip_element": 0.5}, {"clip_norm": 3.0}, {"clip_element": 0.5, "clip_norm": 3.0}]
)
def test_adamw_is_the_textbooks(clip):
    config = TrainConfig(lr=0.05, beta2=0.99, weight_decay=0.02, **clip)
    params, gradients, optimiser = run(config, np.float64)
    limits = {name: clip.get(name, math.inf) for name in ("clip_element", "clip_norm")}
    expected = naive.adamw(params, gradients, 0.05, 0.9, 0.99, 1e-8, 0.02, **limits)
    np.testing.assert_allclose(optimiser.params, expected, rtol=1e-12, atol=1e-14)


def test_float32_agrees_with_float64():
    config = TrainConfig(lr=0.05, clip_norm=3.0)
    _, _, single = run(config, np.float32)
    _, _, double = run(config, np.float64)
    np.testing.assert_allclose(single.params, double.params, atol=1e-3)


def test_workers_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(optim, "LITTLE", 0)
    config = TrainConfig(lr=0.05, clip_element=1.0, clip_norm=3.0)
    hashes = {weights_hash(run(config, np.float32, workers)[2].params) for workers in (1, 2, 3, 5)}
    assert len(hashes) == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_a_gradient_that_is_not_finite_is_seen_and_changes_nothing(bad, clip):
    params = np.ones(SIZE, np.float32)
    gradient = np.zeros(SIZE, np.float32)
    gradient[SLICE + 3] = bad
    with Workers(1) as team:
        optimiser = AdamW(team, params.copy())
        optimiser.step(TrainConfig(clip_element=clip), gradient, 1.0, 0, 0.1)
    assert not optimiser.outcome().finite
    np.testing.assert_array_equal(optimiser.params, params)


def test_the_norm_reported_is_that_before_clipping():
    gradient = np.array([3.0, 4.0])
    with Workers(1) as team:
        optimiser = AdamW(team, np.zeros(2))
        optimiser.step(TrainConfig(clip_element=1.0, clip_norm=0.1), gradient, 1.0, 0, 0.1)
    assert optimiser.outcome().norm == 5.0


def rates(**settings):
    config = TrainConfig(lr=1.0, schedule_steps=100, **settings)
    return [learning_rate(config, step, Plateau()) for step in range(130)]


def test_warm_up_is_linear():
    assert rates(warmup_steps=4)[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_cosine_falls_to_its_end_and_holds():
    found = rates(schedule="cosine", min_lr=0.1, warmup_steps=10)
    assert found[10] == 1.0
    assert found[55] == pytest.approx(0.1 + 0.9 * 0.5)
    assert all(a > b for a, b in pairwise(found[10:100]))
    assert set(found[99:]) == {found[99]}
    assert found[99] == pytest.approx(0.1, abs=1e-3)


def test_hold_cosine_holds_then_falls():
    found = rates(schedule="hold-cosine", hold=0.6)
    assert set(found[:61]) == {1.0}
    assert found[80] == pytest.approx(0.5)


def test_plateau_cuts_after_patience_and_stops_cutting():
    config = TrainConfig(lr=1.0, schedule="plateau", plateau_patience=2, plateau_cuts=2, plateau_factor=0.5)
    plateau = Plateau()
    seen = []
    for value in [5, 4, 4, 4, 4, 4, 4, 4]:
        plateau.observe(config, value)
        seen.append(learning_rate(config, 0, plateau))
    assert seen == [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25]
