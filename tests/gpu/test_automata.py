"""Automata on a device: weights, losses and evaluations have the bits of the CPU."""

import numpy as np
import pytest

from samebits.arithmetic.rng import Purpose
from samebits.config import override
from samebits.families import find_preset, find_task
from samebits.families.logic_ca import data
from samebits.families.logic_ca.boards import cut
from samebits.families.logic_ca.gpu import kernels as on_gpu
from samebits.training.contract import Wave
from samebits.training.trainer import resolve
from tests.gpu.training import check_bits, trained

CASES = [
    ("checkerboard", {"ca_steps": 3}),
    ("checkerboard", {"ca_steps": 3, "harden_from": 0.0, "harden_full": 0.5, "steps": 4}),
    ("checkerboard", {"ca_steps": 2, "kernels": 11}),  # chains of 11 readers
    ("checkerboard-async", {"ca_steps": 3}),
    ("life", {}),
    ("grow", {"ca_steps": 3}),
    ("letter", {"ca_steps": 2}),
    ("grow", {"ca_steps": 4, "loss_steps": (1, 2, 4), "damage": 5, "damage_after": 2}),
    ("checkerboard-async", {"ca_steps": 3, "loss_steps": (2, 3), "damage": 5, "damage_after": 1}),
    ("grow", {"target": "heart", "start": "any", "boundary": "zeros", "batch_size": 2, "ca_steps": 3}),
]


@pytest.mark.parametrize(("task", "more"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_training_has_the_bits_of_the_cpu(gpu, task, more):
    check_bits(gpu, task, more)


@pytest.mark.parametrize(
    "more",
    [
        {"fire_rate": 0.6},
        {"fire_rate": 0.999, "damage": 2, "damage_after": 2},
        {"fire_rate": 1.0, "damage": 4, "damage_after": 1},
    ],
)
def test_what_cells_do_is_drawn_as_on_the_cpu(gpu, more):
    family, _ = find_task("checkerboard-async")
    sizes = {"ca_steps": 3, "height": 5, "width": 7, "batch_size": 1, "loss_steps": (3,), "seed": 2**40}
    config = resolve(family, override(find_preset("checkerboard-async", "small"), {**sizes, **more}))
    params, wires = gpu.upload(family.init(config, np.float32)), family.constants(config)
    for step in (*range(12), 10**12):
        drawn = family.batch(config, family.load(config), step)
        scene = on_gpu.scene_of(config, wires, params, *cut(config, drawn, Wave(0, 1, 0, 2)), gpu)
        run = on_gpu.Run(scene, gpu)
        run.draw()
        wanted = data.actions(config, Purpose.BATCH, step).table
        assert gpu.download(run.fire).reshape(wanted.shape).tolist() == wanted.tolist()


def test_waves_do_not_change_a_bit(gpu):
    family, _ = find_task("checkerboard")
    config = resolve(family, override(find_preset("checkerboard", "small"), {"ca_steps": 2, "batch_size": 6}))
    parts = override(config, {"micro_batches": 3})
    assert trained(family, parts, gpu) == trained(family, config, gpu)


@pytest.mark.parametrize(("lanes", "share", "low", "chained"), [(32, 16, 3, True), (64, 8, 2, False), (96, 4, 4, True)])
def test_whoever_has_which_cells(gpu, monkeypatch, lanes, share, low, chained):
    monkeypatch.setattr(on_gpu, "SHARES", (share,))
    monkeypatch.setattr(
        on_gpu, "fitting", lambda levels, backward, team, room: on_gpu._plan(levels, backward, low, chained)
    )
    on_gpu._way.cache_clear()
    check_bits(gpu, "checkerboard", {"ca_steps": 2, "lanes": lanes, "height": 7, "width": 9})
    on_gpu._way.cache_clear()


def test_values_outside_the_chip(gpu, monkeypatch):
    monkeypatch.setattr(on_gpu, "fitting", lambda *_: None)
    on_gpu._way.cache_clear()
    check_bits(gpu, "letter", {"ca_steps": 2})
    on_gpu._way.cache_clear()
