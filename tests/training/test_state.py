"""Mutable state of a family (tests/stateful.py): the same for any workers, waves, ranks, interruption."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.runs.loop import run_training
from samebits.runs.runfolder import RunFolder
from samebits.training.params import weights_hash
from samebits.training.trainer import Trainer, resolve
from tests.forge import forge
from tests.ranks import on_ranks
from tests.stateful import FAMILY, FULL, RATE
from tests.training.trained import trained

CONFIG = resolve(FAMILY, FULL)


@pytest.fixture(scope="module")
def alone():
    with Workers(1) as team:
        return trained(FAMILY, CONFIG, team)


def test_the_state_follows_the_batches():
    mean, wanted = np.zeros(3), 0
    with Workers(2) as team:
        trainer = Trainer(FAMILY, CONFIG, team)
        for step in range(4):
            batch = FAMILY.batch(CONFIG, None, step)
            trainer.step()
            mean += RATE * (batch.arrays[0].mean(axis=0, dtype=np.float64) - mean)
            wanted += batch.samples
            np.testing.assert_allclose(trainer.model.state["mean"], mean, rtol=1e-6)
        assert trainer.model.state["seen"].tolist() == [wanted]


def test_a_step_sees_the_state_that_the_step_before_left():
    """The loss of the second batch, from the weights and the mean after the first step."""
    with Workers(1) as team:
        trainer = Trainer(FAMILY, CONFIG, team)
        trainer.step()
        X, y = FAMILY.batch(CONFIG, None, 1).arrays
        weights, mean = trainer.params.astype(np.float64), trainer.model.state["mean"].astype(np.float64)
        row = trainer.step()
    errors = (X - mean) @ weights[:3] + weights[3] - y
    assert row["loss"] == pytest.approx((errors**2).mean(), rel=1e-6)


@pytest.mark.parametrize("workers", [2, 3, 5])
@pytest.mark.parametrize("waves", [1, 3])
def test_workers_and_waves_change_no_bit(alone, workers, waves):
    with Workers(workers, share_little=True) as team:
        assert trained(FAMILY, override(CONFIG, {"micro_batches": waves}), team) == alone


@pytest.mark.parametrize(("ranks", "near"), [(2, False), (3, True)])
def test_every_rank_of_a_group_has_it(alone, ranks, near):
    def work(links):
        with Workers(1) as team:
            return trained(FAMILY, CONFIG, team, links)

    assert on_ranks(ranks, work, near) == [alone] * ranks


def train(path, steps, which=None):
    run = (
        RunFolder.open(path, {"running": FAMILY})
        if which
        else RunFolder.create(path, FAMILY, "running", "full", CONFIG)
    )
    run.change({"steps": steps})
    with Workers(2) as team:
        run_training(run, team, which)
    return load_file(path / f"checkpoints/step-{steps}/arrays.safetensors")


def test_a_run_that_is_resumed_has_the_state_of_one_that_was_not(tmp_path):
    whole = train(tmp_path / "whole", 12)
    train(tmp_path / "parts", 5)
    parts = train(tmp_path / "parts", 12, "last")
    assert {name: array.tobytes() for name, array in parts.items()} == {
        name: array.tobytes() for name, array in whole.items()
    }
    assert parts["state.seen"].tolist() == [12 * CONFIG.batch_size]
    metrics = [(tmp_path / name / "metrics.csv").read_bytes() for name in ("whole", "parts")]
    assert metrics[0] == metrics[1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda arrays: arrays.pop("state.mean"), "state.mean is missing"),
        (lambda arrays: arrays.update({"state.seen": np.zeros(2, np.int64)}), "state.seen is int64"),
        (lambda arrays: arrays["state.mean"].fill(np.nan), "state.mean has values that are not finite"),
        (lambda arrays: arrays.update({"state.more": np.zeros(1)}), "state.more"),
    ],
)
def test_an_altered_state_is_refused(tmp_path, change, told):
    train(tmp_path / "run", 3)
    forge(tmp_path / "run/checkpoints/step-3", arrays=change)
    with pytest.raises(SamebitsError, match=told):
        train(tmp_path / "run", 6, "last")


def test_a_model_gets_the_state_beside_its_constants(tmp_path):
    with Workers(1) as team:
        trainer = Trainer(FAMILY, CONFIG, team)
        trainer.step()
        model = FAMILY.model(CONFIG, trainer.params, trainer.arrays())
    assert model.params["seen"].tolist() == [CONFIG.batch_size]
    assert weights_hash(trainer.params) != weights_hash(FAMILY.init(CONFIG, np.float32))
