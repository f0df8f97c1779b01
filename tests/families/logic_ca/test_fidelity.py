"""With the published wiring and inputs, training starts exactly as published."""

import math

import numpy as np
import pytest

from samebits.arithmetic.rng import Purpose
from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.families import discover, find_preset
from samebits.families.logic_ca import data, wiring
from samebits.training.trainer import Trainer, resolve

FAMILY = discover()["logic_ca"]

# spec: the JAX program, confirmed by an independent C program to 5 digits
CHECKERBOARD = [231.2663, 228.9215, 226.3952, 223.6802, 220.7710, 217.6642, 214.3595, 210.8589]
LIFE = [105.8443, 117.3424, 102.4273]
LIFE_HARD = [108, 120, 105]
PUBLISHED_GATES = [
    ("checkerboard", 3040),
    ("checkerboard-async", 4064),
    ("life", 2543),
    ("grow", 4540),
    ("letter", 4600),
]


def random_integers(key, shape, span):
    """Integers in [0, span), as jax.random.randint draws them."""
    wide, count = np.uint32(span), math.prod(shape)
    high, low = (wiring.random_bits(half, count) % wide for half in wiring.split(key))
    with np.errstate(over="ignore"):
        multiplier = np.uint32(2**16 % span) * np.uint32(2**16 % span) % wide
        return ((high * multiplier + low) % wide).astype(np.int64).reshape(shape)


def train_on(config, batches):
    """Training on given starts instead of samebits's own draws: the published ones."""
    published = FAMILY.__class__(**{**vars(FAMILY), "batch": lambda config, loaded, step: batches[step % len(batches)]})
    with Workers(2) as team:
        trainer = Trainer(published, resolve(published, config), team)
        rows = [trainer.step() for _ in range(len(batches))]
    return [row["soft_loss"] for row in rows], [row["hard_loss"] for row in rows]


def test_checkerboard_losses_are_the_published_ones():
    config = find_preset("checkerboard", "full")
    loaded, key, batches = FAMILY.load(config), wiring.random_key(23), []
    for _ in CHECKERBOARD:
        key, sub = wiring.split(key)
        bits = random_integers(sub, (config.batch_size, 16, 16, 8), 2)
        batches.append(data.with_targets(config, loaded, bits.astype(np.float32), Purpose.BATCH, 0))
    soft, hard = train_on(config, batches)
    assert soft == pytest.approx(CHECKERBOARD, rel=1e-5)
    assert hard == [256] * len(CHECKERBOARD)


def test_life_losses_are_the_published_ones():
    config = find_preset("life", "published")
    loaded, batches = FAMILY.load(config), []
    key, _ = wiring.split(wiring.random_key(23))
    for _ in LIFE:
        key, sub = wiring.split(key)
        boards = random_integers(sub, (config.batch_size,), 512)
        batches.append(
            data.as_batch(config, loaded.patterns.grids[boards], loaded.patterns.targets[boards], Purpose.BATCH, 0)
        )
    soft, hard = train_on(config, batches)
    assert soft == pytest.approx(LIFE, rel=1e-5)
    assert hard == LIFE_HARD


@pytest.mark.parametrize(("task", "gates"), PUBLISHED_GATES)
def test_gate_counts_are_the_published_ones(task, gates):
    assert FAMILY.slot_size(find_preset(task, "full")) == 4 * gates


@pytest.mark.parametrize(("task", "gates"), [("checkerboard", 1496), ("life", 183)])
def test_small_gate_counts(task, gates):
    assert FAMILY.slot_size(find_preset(task, "small")) == 4 * gates


def test_another_wiring_seed_gives_other_wires():
    config = find_preset("life", "small")
    first, second = wiring.wires(config), wiring.wires(override(config, {"wiring_seed": 24}))
    assert any(not np.array_equal(first[name], second[name]) for name in first)


def test_unique_wires_are_unique_pairs():
    found = wiring.unique_wires(wiring.random_key(1), 17, 128)
    pairs = set(map(tuple, np.sort(found.T, axis=1).tolist()))
    assert len(pairs) == 128
    assert (found[0] != found[1]).all()
    assert set(found.ravel().tolist()) == set(range(17))


def test_the_first_kernel_pairs_each_neighbour_with_the_centre():
    found = wiring.first_kernel_wires(wiring.random_key(5))
    assert sorted(found[0].tolist()) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert set(found[1].tolist()) == {4}
