"""Hardening: gates decided at random, more and more of them; soft gradients; the same bits for any worker count."""

import numpy as np
import pytest

from samebits.arithmetic.rng import Purpose
from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.families import discover, find_preset, find_task
from samebits.families.logic_ca import data, gates
from samebits.families.logic_ca.circuits import circuit
from samebits.families.logic_ca.config import gate_count
from samebits.training.trainer import resolve
from samebits.verify.bits import compare
from samebits.verify.gradients import spread_params

FAMILY = discover()["logic_ca"]
CONFIG = resolve(FAMILY, override(find_preset("life", "small"), {"harden_from": 0.2, "harden_full": 0.8, "steps": 100}))


def share(step):
    found = data.hardened(CONFIG, step)
    return found.mean() if found.size else 0.0


def test_the_share_of_hard_gates_rises_from_none_to_all():
    assert share(0) == share(20) == 0
    assert share(80) == share(99) == 1
    assert abs(share(50) - 0.5) < 0.15
    assert share(35) < share(65)


def test_masks_are_a_function_of_seed_and_step():
    np.testing.assert_array_equal(data.hardened(CONFIG, 50), data.hardened(CONFIG, 50))
    assert not np.array_equal(data.hardened(CONFIG, 50), data.hardened(CONFIG, 51))
    assert not np.array_equal(data.hardened(CONFIG, 50), data.hardened(override(CONFIG, {"seed": 9}), 50))


def test_off_by_default_and_never_in_evaluation():
    assert data.hardened(override(CONFIG, {"harden_from": 1.0, "harden_full": 1.0}), 99).size == 0
    assert data.evaluation(CONFIG, FAMILY.load(CONFIG), True).arrays.hard.size == 0
    assert data.batch(CONFIG, FAMILY.load(CONFIG), 99).arrays.hard.all()


def test_marked_gates_are_hard_and_the_others_soft():
    logits = spread_params(FAMILY, CONFIG).reshape(-1, 16)
    hard = np.zeros(len(logits), bool)
    hard[::3] = True
    with Workers(2) as workers:
        found, chances = gates.training_coefficients(logits, hard, workers)
    np.testing.assert_array_equal(found[hard], gates.hard_coefficients(logits)[hard])
    np.testing.assert_array_equal(found[~hard], gates.soft_coefficients(logits)[~hard])
    np.testing.assert_array_equal(chances, gates.gate_chances(logits))  # straight-through


def test_the_same_bits_for_any_worker_count_while_hardening():
    config = override(CONFIG, {"harden_from": 0.0, "harden_full": 1.0, "schedule_steps": 6})
    assert len(set(compare(FAMILY, config, (1, 2, 3, 5), 5).values())) == 1


@pytest.mark.parametrize("task", ["life", "letter"])
@pytest.mark.parametrize("preset", ["small", "full"])
def test_verify_hardens_from_its_second_step_on(task, preset):
    config = resolve(FAMILY, override(find_preset(task, preset), find_task(task)[1].verify))
    shares = [data.hardened(config, step).mean() for step in range(1, 5)]
    assert 0 < shares[0] < shares[-1] < 1


@pytest.mark.parametrize("given", [{"harden_from": 0.9}, {"harden_full": 0.3}])
def test_what_verify_adds_goes_with_what_is_given(given):
    override(find_preset("life", "full"), {**find_task("life")[1].verify, **given})


def test_mixed_kernels_pass_on_a_or_b_after_their_first_layer():
    config = override(find_preset("checkerboard", "full"), {"residual": "mixed"})
    passed = FAMILY.init(config, np.float32).reshape(-1, 16).argmax(axis=1)
    first, last = config.kernels * config.perceive[0], config.kernels * sum(config.perceive)
    assert set(passed[:first]) == set(passed[last:]) == {circuit.PASS_A}
    assert set(passed[first:last]) == {circuit.PASS_A, circuit.PASS_B}
    assert len(passed) == gate_count(config)


def test_fire_masks_have_their_rate_and_their_own_draws():
    config = find_preset("checkerboard-async", "full")
    masks = data.fire_masks(config, Purpose.BATCH, 3, 50, 196)
    assert abs(masks.mean() - 0.6) < 0.03
    assert not np.array_equal(masks[0], masks[1])
    assert not np.array_equal(masks, data.fire_masks(config, Purpose.EVALUATION, 3, 50, 196))
    assert data.fire_masks(config, Purpose.BATCH, 3, 50, 196, rate=1.0).size == 0
