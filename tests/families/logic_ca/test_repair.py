"""The search over hard circuits: variants are judged exactly, a broken circuit is mended, always in the same way."""

import numpy as np
import pytest

import samebits
from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.families import find_task
from samebits.families.logic_ca import data
from samebits.families.logic_ca.circuits import circuit, repair
from samebits.families.logic_ca.circuits.repair_kernels import Trials
from samebits.families.logic_ca.simulation import packed
from samebits.families.logic_ca.wiring import wires
from samebits.verify.gradients import spread_params

FAMILY, TASK = find_task("checkerboard")
TINY = override(TASK.checks[0], {"repair": 8})
TORUS = override(TINY, {"boundary": "periodic"})
ASYNC = override(TINY, {"fire_rate": 0.6})
CONFIGS = {"zeros": TINY, "torus": TORUS, "asynchronous": ASYNC}
NONE = np.zeros((1, 0, 2), np.int64)


def random_logits(config, seed=3):
    return spread_params(FAMILY, config, seed).astype(np.float32).reshape(-1, 16)


def simulated(config, logits, starts, fire):
    """The visible channels after all steps, by the packed simulator."""
    full = circuit.full_circuit(config, logits, wires(config))
    masks = fire.reshape(-1, config.height, config.width) if fire.size else None
    with Workers(1) as team:
        after = packed.simulate(full, starts, config.ca_steps, config.boundary == "periodic", team, fire=masks)
    return after[..., :1]


def own_trials(config, logits, count=6):
    """Trials that the circuit of these logits passes."""
    starts = data.random_grids(config, count, data.REPAIR, 0)
    cells = config.height * config.width
    fire = data.fire_masks(config, data.REPAIR, 0, config.ca_steps, cells)
    wanted = simulated(config, logits, starts, fire)
    judged = np.zeros(config.ca_steps, np.uint8)
    judged[-1] = 1
    moved = [np.ascontiguousarray(np.moveaxis(part, 3, 1), np.uint8) for part in (starts, wanted)]
    masks = fire[None] if fire.size else np.zeros((0, 0, 0), np.uint8)
    return Trials(*moved, masks, judged, config.boundary == "periodic"), starts, fire


def searching(config, logits, trials, team):
    cell, numbers = repair.cell_of(config, wires(config))
    ops = np.argmax(logits, axis=1).astype(np.int64)
    return repair.Search(config, logits, ops, cell, numbers, trials, team)


@pytest.mark.jit_off
@pytest.mark.parametrize("name", CONFIGS)
def test_variants_are_judged_as_the_packed_simulator_runs_them(name):
    config = CONFIGS[name]
    logits = random_logits(config)
    trials, starts, fire = own_trials(config, logits, 2)
    with Workers(1) as team:
        search = searching(config, logits, trials, team)
        assert search.count(search.ops, NONE, np.arange(2))[0] == 0
        flips = search.singles(search.ops)
        chosen = flips[:: max(1, len(flips) // 70)]  # more than a word of them
        pairs = np.concatenate([chosen, chosen[::-1]], axis=1)
        for variants in (chosen, pairs):
            counts = search.count(search.ops, variants, np.arange(2))
            assert counts.any()
            for flip, found in list(zip(variants, counts, strict=True))[::12]:
                ops = search.ops.copy()
                for gate, op in flip:
                    ops[gate] = op
                after = simulated(config, np.eye(16)[ops], starts, fire)
                assert found == (np.moveaxis(after, 3, 1) != trials.targets).sum()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_broken_circuit_is_mended_in_the_same_way_by_any_number_of_workers(name):
    config = CONFIGS[name]
    right = random_logits(config, seed=5)
    trials, _, _ = own_trials(config, right, 40)
    with Workers(1) as team:
        search = searching(config, right, trials, team)
        flips = search.singles(search.ops)
        counts = search.count(search.ops, flips, np.arange(40))
        ops = search.ops.copy()
        for gate, op in flips[np.argsort(-counts, kind="stable")[[0, 40]], 0]:
            ops[gate] = op
    broken = repair.decide(right, ops)
    told = []
    found = []
    for count in (1, 3):
        with Workers(count) as team:
            found.append(repair.repair(config, wires(config), broken, trials, team, told.append))
            assert not searching(config, found[-1], trials, team).count_each(np.argmax(found[-1], axis=1)).any()
    assert found[0].tobytes() == found[1].tobytes()
    assert told[0] > 0
    with Workers(1) as team:
        assert repair.repair(config, wires(config), right, trials, team).tobytes() == right.tobytes()


def test_it_changes_no_more_gates_than_it_may():
    config = override(TINY, {"repair": 1})
    right = random_logits(config, seed=5)
    trials, _, _ = own_trials(config, right)
    other = random_logits(config, seed=6)
    with Workers(1) as team:
        found = repair.repair(config, wires(config), other, trials, team)
    assert (np.argmax(found, axis=1) != np.argmax(other, axis=1)).sum() <= 1


def test_a_changed_gate_swaps_two_logits_and_wins_ties():
    logits = np.zeros((2, 16), np.float32)
    logits[0, [3, 7]] = 5, 2
    logits[1, [2, 3, 7]] = 5  # the first of them decides
    found = repair.decide(logits, np.array([7, 7]))
    assert (found[0, 3], found[0, 7]) == (2, 5)
    assert np.argmax(found, axis=1).tolist() == [7, 7]


def test_it_comes_once_at_the_end_of_the_schedule_and_resume_ends_alike(tmp_path):
    settings = {"preset": "small", "ca_steps": 3, "height": 6, "width": 6, "repair": 2, "eval_every": 0}
    whole = samebits.train("checkerboard", steps=3, workers=1, out=tmp_path / "whole", **settings)
    plain = samebits.train("checkerboard", steps=3, workers=1, out=tmp_path / "plain", **{**settings, "repair": 0})
    assert whole.weights_hash != plain.weights_hash
    parts = samebits.train("checkerboard", steps=2, schedule_steps=3, workers=2, out=tmp_path / "parts", **settings)
    changed = (np.argmax(whole.weights.reshape(-1, 16), 1) != np.argmax(plain.weights.reshape(-1, 16), 1)).sum()
    assert 1 <= changed <= 2
    parts = samebits.resume(tmp_path / "parts", steps=3, workers=2)
    assert parts.weights_hash == whole.weights_hash
