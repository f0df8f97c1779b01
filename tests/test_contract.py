"""What every family must do. Runs over every task of every family found; a new family is tested the day it appears."""

from __future__ import annotations

import importlib
import pickle
import time

import numpy as np
import pytest
import torch

from samebits import api
from samebits.config import override
from samebits.devices.cpu import dispatch
from samebits.devices.cpu.workers import Workers
from samebits.training.params import spans, views, weights_hash
from samebits.training.trainer import Trainer, resolve
from samebits.verify import bits
from samebits.verify.bits import compare
from samebits.verify.gradients import compiled_gradient, finite_difference_error, spread_params

COUNTS = (1, 2, 3, 5)


def small(family, task):
    return family.prepare(family.tasks[task].presets["small"])


def checks(family, task):
    return [family.prepare(config) for config in family.tasks[task].checks]


def test_presets_small_and_full_exist_and_say_what_to_expect(family, task):
    found = family.tasks[task]
    assert {"small", "full"} <= set(found.presets)
    assert found.summary
    assert found.expect
    assert found.checks


def test_layout_init_and_constants_are_reproducible(family, task):
    config = small(family, task)
    layout = family.layout(config)
    names = [name for name, _ in layout]
    assert len(set(names)) == len(names)
    first, second = family.init(config, np.float32), family.init(config, np.float32)
    assert first.size == list(spans(layout))[-1][2]
    assert weights_hash(first) == weights_hash(second)
    constants, again = family.constants(config), family.constants(config)
    assert constants.keys() == again.keys()
    for name, value in constants.items():
        assert name not in names
        assert np.issubdtype(value.dtype, np.integer)
        np.testing.assert_array_equal(value, again[name])


def test_float64_gradients_match_finite_differences_of_the_reference(family, task):
    for config in checks(family, task):
        assert finite_difference_error(family, config) < 1e-6


def test_a_trainer_taken_back_trains_the_same_again(family, task):
    """Whatever it has prepared for the step it did not take."""
    config = resolve(family, small(family, task))
    with Workers(2) as team:
        trainer = Trainer(family, config, team)
        trainer.step()
        saved = pickle.loads(pickle.dumps(trainer.checkpoint("")))
        rows = [trainer.step() for _ in range(3)]
        hashes = weights_hash(trainer.params)
        trainer.restore(saved)
        assert [trainer.step() for _ in range(3)] == rows
    assert weights_hash(trainer.params) == hashes


@pytest.mark.jit_off
def test_float64_loss_and_gradients_match_the_autograd_twin_by_name(family, task):
    twin = importlib.import_module(f"tests.families.{family.name}.twin")
    for config in checks(family, task):
        params = spread_params(family, config)
        loss, gradient, batch, constants = compiled_gradient(family, config, params)
        layout = family.layout(config)
        named = {name: torch.tensor(value, requires_grad=True) for name, value in views(layout, params).items()}
        expected = twin.loss(config, named, constants, batch)
        expected.backward()
        assert loss == pytest.approx(expected.item(), rel=1e-9)
        for name, ours in views(layout, gradient).items():
            theirs = named[name].grad.numpy()
            largest = np.abs(theirs).max()
            assert np.abs(ours - theirs).max() <= 1e-6 * largest + 1e-12, name


def test_float32_agrees_with_float64(family, task):
    for config in checks(family, task):
        params = spread_params(family, config)
        loss64, wide, _, _ = compiled_gradient(family, config, params)
        loss32, narrow, _, _ = compiled_gradient(family, config, params.astype(np.float32))
        assert loss32 == pytest.approx(loss64, rel=1e-3)
        for name, start, end, _ in spans(family.layout(config)):
            scale = np.abs(wide[start:end]).max()
            assert np.abs(wide[start:end] - narrow[start:end]).max() <= 1e-3 * scale, name


def test_one_step_changes_every_parameter_that_can_change(family, task):
    config = override(checks(family, task)[0], {"weight_decay": 0.0})
    params = spread_params(family, config).astype(np.float32)
    with Workers(1) as team:
        trainer = Trainer(family, resolve(family, config), team)
        trainer.params[:] = params
        trainer.step()
        changed = trainer.params != params
        size = np.abs(trainer.gradient)
    assert (size > 0).mean() > 0.5
    assert changed[size > 1e-6].all()  # far above AdamW's eps, so no update can round away
    assert not changed[size == 0].any()


class LateCaller(Workers):
    """The caller takes part once another worker has begun: it would often be done before they are awake."""

    def join(self):
        if self.count > 1 and self._posted:
            first = int(self._board[dispatch.POSTS]) - len(self._posted)
            state = self._board[dispatch.base_of(first) + dispatch.STATE :][:1]
            while not state[0] & (dispatch.INSIDE | dispatch.CLOSED | dispatch.ALONE):
                time.sleep(0)
        super().join()


@pytest.mark.parametrize("batch_size", [1, 5])
def test_the_same_bits_for_any_worker_count(family, task, batch_size, monkeypatch):
    """Work this small is for one worker alone unless told otherwise: shared all the same, and as it would be."""
    monkeypatch.setattr(bits, "Workers", LateCaller)
    config = override(small(family, task), {"batch_size": batch_size})
    shared = compare(family, config, COUNTS, 3, share_little=True)
    assert len({*shared.values(), *compare(family, config, (2,), 3).values()}) == 1


def test_seed_and_step_decide_the_batch_and_nothing_else(family, task):
    def drawn(seed, step, **settings):
        config = override(small(family, task), {"seed": seed, **settings})
        return pickle.dumps(family.batch(config, family.load(config), step).arrays)

    first = drawn(11, 4)
    assert drawn(11, 4) == first
    assert drawn(11, 4, micro_batches=3, slot_memory=99, log_every=7, checkpoint_every=3, keep=1) == first
    differs = {"seed": drawn(12, 4) != first, "step": drawn(11, 5) != first}
    assert differs == dict.fromkeys(differs, not family.tasks[task].one_batch)


def test_waves_and_micro_batches_change_no_bit(family, task):
    """19 samples: an odd number of groups and units, cut in every way."""
    config = override(small(family, task), {"batch_size": 19})
    unit = 4 * family.slot_size(config)
    most_units = int(family.groups(config, family.batch(config, family.load(config), 0)).max())
    tight = -(-(most_units * unit + family.group_bytes(config)) // (1 << 20))
    variants = [{}, {"micro_batches": 2}, {"micro_batches": 5}, {"micro_batches": 19}, {"slot_memory": tight}]
    found = {compare(family, override(config, change), (2,), 2)[2] for change in variants}
    assert len(found) == 1


def test_resume_in_the_middle_equals_the_whole_at_any_worker_count(family, task, tmp_path):
    cadence = {"checkpoint_every": 3, "eval_every": 2, "log_every": 1, "keep": 9}
    settings = {"preset": "small", "steps": 8, "schedule_steps": 8, **cadence}
    whole = api.train(task, out=tmp_path / "whole", workers=1, **settings)
    part = api.train(task, out=tmp_path / "part", workers=2, **{**settings, "steps": 5})
    again = api.resume(part.path, steps=8, workers=3)
    assert again.outcome.weights == whole.outcome.weights
    assert (part.path / "metrics.csv").read_bytes() == (whole.path / "metrics.csv").read_bytes()
    rewound = api.resume(part.path, workers=1, checkpoint="3")
    assert rewound.outcome.weights == whole.outcome.weights


def test_every_metric_column_is_filled(family, task, tmp_path):
    run = api.train(task, out=tmp_path / "run", preset="small", steps=4, eval_every=2, log_every=1)
    for name, column in run.metrics.items():
        assert np.isfinite(column[1::2]).all(), name
    assert run.weights_hash == run.outcome.weights


def test_flops_and_memory_are_stated(family, task):
    config = family.prepare(family.tasks[task].presets["full"])
    assert family.bench.flops is not None
    assert family.bench.flops(config) > 1e6
    assert family.group_bytes(config) > 0
