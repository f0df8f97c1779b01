"""Packed simulation against a circuit walked gate by gate in NumPy, and against the model itself."""

import numpy as np
import pytest

from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families import discover, find_preset
from samebits.families.logic_ca import reference
from samebits.families.logic_ca.circuits.circuit import DROPPED, Circuit, full_circuit, live_channels
from samebits.families.logic_ca.circuits.pruning import prune
from samebits.families.logic_ca.model import LogicModel
from samebits.families.logic_ca.simulation import packed, packed_kernels
from samebits.verify.gradients import spread_params

FAMILY = discover()["logic_ca"]
AND, AND_NOT, PASS_A, XOR, OR = 1, 2, 3, 6, 7
TABLE = reference.sixteen_operations(*np.indices((2, 2)))  # [a, b, operation]
SIZES = [(3, 3), (1, 1), (2, 64), (5, 70), (64, 64), (65, 129), (7, 200)]


def make_circuit(inputs, gates, outputs):
    ops, a, b = np.array(gates, np.int64).reshape(-1, 3).T
    return Circuit(
        np.array(inputs, np.int32).reshape(-1, 2), ops.astype(np.uint8), a.astype(np.int32), b.astype(np.int32),
        np.array(outputs, np.int32),
    )  # fmt: skip


def life_circuit():
    """Conway's Life in 26 gates: three adders give the low bit of the count and four carries of weight 2."""
    gates = []

    def gate(op, a, b):
        gates.append((op, a, b))
        return 8 + len(gates)

    def add(a, b, c):
        half = gate(XOR, a, b)
        return gate(XOR, half, c), gate(OR, gate(AND, a, b), gate(AND, half, c))

    (low1, carry1), (low2, carry2) = add(0, 1, 2), add(3, 5, 6)
    low3, carry3 = gate(XOR, 7, 8), gate(AND, 7, 8)
    odd, carry4 = add(low1, low2, low3)
    one_or_three = gate(XOR, gate(XOR, carry1, carry2), gate(XOR, carry3, carry4))
    too_many = gate(OR, gate(AND, carry1, carry2), gate(AND, carry3, carry4))
    two_or_three = gate(AND_NOT, one_or_three, too_many)
    return make_circuit([(p, 0) for p in range(9)], gates, [gate(AND, two_or_three, gate(OR, odd, 4))])


def random_circuit(seed, channels, gates=40):
    """Any operation on any earlier node; outputs may be inputs, constants, or the same node twice."""
    draw = np.random.default_rng(seed)
    inputs = [(p, c) for p in range(9) for c in range(channels) if draw.random() < 0.8] or [(4, 0)]
    n = len(inputs)
    found = [(draw.integers(16), draw.integers(n + g), draw.integers(n + g)) for g in range(gates)]
    return make_circuit(inputs, found, draw.integers(0, n + gates, channels))


def naive_step(circuit, grids, periodic):
    seen = reference.patches(grids, periodic)
    nodes = [seen[..., p, c] for p, c in circuit.inputs]
    for op, a, b in zip(circuit.ops, circuit.a, circuit.b, strict=True):
        nodes.append(TABLE[nodes[a], nodes[b], op])
    return np.stack([nodes[node] for node in circuit.outputs], axis=-1)


def naive(circuit, grids, steps, periodic, fire=None, damage=None):
    """All states, (steps + 1, B, H, W, C)."""
    states = [grids.astype(np.int64)]
    for t in range(steps):
        new = naive_step(circuit, states[-1], periodic)
        if fire is not None:
            new = np.where(fire[t][:, :, None], new, states[-1])
        if damage is not None:
            y, x, height, width = damage[t]
            new[:, y : y + height, x : x + width] = 0
        states.append(new)
    return np.stack(states)


def random_bits(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.uint8)


def random_damage(steps, height, width, seed=0):
    """Rectangles of every kind: none, inside, sticking out, wider than a word."""
    draw = np.random.default_rng(seed)
    return draw.integers(0, [height, width, height + 1, width + 1], (steps, 4))


def life_rule(grids, periodic):
    total = reference.patches(grids, periodic).sum(axis=3) - grids
    return ((total == 3) | ((total == 2) & (grids == 1))).astype(np.uint8)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_life(size, periodic):
    grids = expected = random_bits((2, *size, 1))
    for _ in range(4):
        expected = life_rule(expected, periodic)
    with Workers(2) as team:
        found = packed.simulate(life_circuit(), grids, 4, periodic, team)
    assert found.dtype == np.uint8
    assert np.array_equal(found, expected)


def test_bands_wait_for_their_neighbours(monkeypatch):
    monkeypatch.setattr(packed, "BAND_WORDS", 4)
    grids = expected = random_bits((2, 120, 64, 1))
    for _ in range(100):
        expected = life_rule(expected, True)
    for workers in (2, 5):
        with Workers(workers) as team:
            assert np.array_equal(packed.simulate(life_circuit(), grids, 100, True, team), expected)


@pytest.mark.jit_off
@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_random_circuits_with_fire_and_damage(size, periodic, monkeypatch):
    monkeypatch.setattr(packed, "BAND_WORDS", 6)  # many bands, also in small grids
    seed = SIZES.index(size)
    channels, samples, steps = 1 + seed % 3, 1 + (seed + 1) % 3, 3 + seed % 2
    circuit, grids = random_circuit(seed, channels), random_bits((samples, *size, channels), seed)
    fire, damage = random_bits((steps, *size), seed + 1).astype(bool), random_damage(steps, *size, seed)
    for masks in ({}, {"fire": fire}, {"damage": damage}, {"fire": fire, "damage": damage}):
        expected = naive(circuit, grids, steps, periodic, **masks)[-1]
        for workers in (1, 2, 3, 5):
            with Workers(workers) as team:
                words = team.scratch("logic_ca.packed").per_worker("words", 10_000, np.uint64)
                words[:] = ~np.uint64(0)  # nothing may depend on old scratch
                found = packed.simulate(circuit, grids, steps, periodic, team, **masks)
            assert np.array_equal(found, expected), (workers, masks.keys())


@pytest.mark.jit_off
@pytest.mark.parametrize("op", range(16))
def test_every_operation(op):
    grids = random_bits((1, 4, 66, 2))
    circuit = make_circuit([(4, 0), (5, 1)], [(op, 0, 1), (PASS_A, 2, 0)], [3, 2])
    with Workers(1) as team:
        found = packed.simulate(circuit, grids, 1, True, team)
    assert np.array_equal(found, naive_step(circuit, grids.astype(np.int64), True))


def test_bands_and_passes_of_a_large_grid():
    """With the real constants: three bands a sample, several passes a band, the last one not full."""
    circuit, grids = random_circuit(3, 2), random_bits((2, 520, 70, 2))
    assert len(packed.set_up(circuit, grids, True, *nothing(520, 70)).board.bands) == 4
    expected = naive(circuit, grids, 3, False)[-1]
    for workers in (1, 3):
        with Workers(workers) as team:
            assert np.array_equal(packed.simulate(circuit, grids, 3, False, team), expected)


def nothing(height, width):
    return np.empty((0, height, width), bool), np.empty((0, 4), np.int64)


def small_model(boundary):
    config = override(
        find_preset("checkerboard", "small"),
        {"height": 5, "width": 7, "boundary": boundary, "channels": 3, "kernels": 2, "update": (12, 6, 3)},
    )
    weights = spread_params(FAMILY, config, 0).astype(np.float32)
    return LogicModel(config, weights, FAMILY.constants(config))


@pytest.mark.parametrize("boundary", ["periodic", "zeros"])
@pytest.mark.parametrize("trajectory", [True, False])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_rollout_takes_the_packed_way_to_the_same_bytes(boundary, trajectory, asynchronous, monkeypatch):
    model, grids = small_model(boundary), random_bits((3, 6, 67, 3))
    fire = random_bits((5, 6, 67), seed=1) if asynchronous else None
    given = {"steps": 5, "trajectory": trajectory, "fire": fire, "workers": 2}
    wanted = model.rollout(grids, packed=False, **given)
    monkeypatch.setattr(LogicModel, "_gate_by_gate", None)  # whoever calls it fails
    for kind in (bool, np.int64, np.float64):
        found = model.rollout(grids.astype(kind), **given)
        assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


def test_cells_in_between_are_not_packed():
    model, grids = small_model("zeros"), np.full((1, 5, 7, 3), 0.5)
    assert np.array_equal(model.rollout(grids, 1), model.rollout(grids, 1, packed=False))
    assert not np.isin(model.rollout(grids, 1), (0, 1)).all()


def test_a_rollout_is_of_the_weights_as_they_are_now():
    model, grids = small_model("zeros"), random_bits((1, 5, 7, 3))
    before, gates = model.rollout(grids, 2), len(model.circuit.ops)
    model.weights[:] *= -1
    after = model.rollout(grids, 2)
    assert np.array_equal(after, model.rollout(grids, 2, packed=False))
    assert not np.array_equal(after, before)
    assert len(model.circuit.ops) != gates


@pytest.mark.parametrize("boundary", ["periodic", "zeros"])
def test_the_models_hard_rollout(boundary):
    model = small_model(boundary)
    config, weights = model.config, model.weights
    circuit = full_circuit(config, weights.reshape(-1, 16), model.constants)
    grids = random_bits((3, 6, 67, 3))
    expected = reference.rollout(config, model.params, grids.astype(np.float64), 5, soft=False)
    with Workers(2) as team:
        assert np.array_equal(model.rollout(grids, 5, workers=team, packed=False), expected)
        for one in (circuit, prune(circuit)):
            assert np.array_equal(packed.simulate(one, grids, 5, boundary == "periodic", team), expected)
        live = live_channels(circuit)
        small = packed.simulate(prune(circuit, live), grids, 5, boundary == "periodic", team)
    assert np.array_equal(small[..., live], expected[..., live])


@pytest.mark.parametrize(("steps", "every"), [(7, 3), (6, 2), (6, 1), (2, 5), (0, 1)])
def test_frames(steps, every):
    circuit, grids = random_circuit(5, 3), random_bits((2, 6, 70, 3))
    fire, damage = random_bits((steps, 6, 70)).astype(bool), random_damage(steps, 6, 70)
    states = naive(circuit, grids, steps, True, fire, damage)
    with Workers(2) as team:
        final, frames = packed.simulate(circuit, grids, steps, True, team, fire, damage, every=every, visible=2)
    assert np.array_equal(final, states[-1])
    assert frames.dtype == np.uint8
    assert np.array_equal(frames, states[::every, ..., :2])


def test_dropped_channels_are_zero_from_the_first_step_on():
    circuit = make_circuit([(4, 0), (5, 0)], [(XOR, 0, 1)], [2, DROPPED])
    grids = random_bits((1, 5, 70, 2))
    expected = naive(make_circuit(circuit.inputs, [(XOR, 0, 1), (0, 0, 0)], [2, 3]), grids, 3, True)
    with Workers(1) as team:
        for steps in range(4):
            final, frames = packed.simulate(circuit, grids, steps, True, team, every=1, visible=2)
            assert np.array_equal(final, expected[steps])
            assert np.array_equal(frames, expected[: steps + 1])


def test_a_circuit_that_reads_what_it_does_not_compute_makes_one_step():
    circuit, grids = make_circuit([(4, 1)], [], [0, DROPPED]), random_bits((1, 3, 3, 2))
    with Workers(1) as team:
        assert np.array_equal(packed.simulate(circuit, grids, 1, True, team)[..., 0], grids[..., 1])
        with pytest.raises(SamebitsError, match="reads channel 1 but does not compute it"):
            packed.simulate(circuit, grids, 2, True, team)


def test_values_die_and_wires_are_no_gates():
    chain = [(XOR, 0, 1)]
    for g in range(1, 200):
        chain += [(PASS_A if g % 2 else XOR, 1 + g, 0)]
    unused = [(AND, 0, 1)] * 10
    placement = packed.place_circuit(make_circuit([(4, 0), (5, 0)], chain + unused, [201]), 1, 1)
    assert len(placement.gates) == 100
    assert placement.size <= 4 * packed_kernels.PASS


def test_throughput_is_a_rate():
    with Workers(1) as team:
        assert packed.throughput(life_circuit(), 64, 2, team) > 0


GRIDS = random_bits((1, 4, 5, 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grids": GRIDS[0]}, "grids have shape"),
        ({"grids": np.zeros((1, 4, 5, 2), np.uint8)}, "C = 1"),
        ({"grids": GRIDS * 0.5 + 0.1}, "neither 0 nor 1"),
        ({"steps": -1}, "steps is -1"),
        ({"fire": np.ones((2, 4, 5), bool)}, "fire has shape"),
        ({"damage": np.zeros((3, 3), int)}, "damage has shape"),
        ({"damage": np.full((3, 4), -1)}, "negative"),
        ({"every": 0}, "every is 0"),
        ({"every": 1, "visible": 2}, "visible is 2"),
        ({"circuit": make_circuit([(9, 0)], [], [0])}, "inputs outside"),
        ({"circuit": make_circuit([(0, 1)], [], [0])}, "inputs outside"),
        ({"circuit": make_circuit([(0, 0)], [(AND, 0, 1)], [1])}, "gate 0 of the circuit reads node 1"),
        ({"circuit": make_circuit([(0, 0)], [], [1])}, "outputs"),
    ],
)
def test_bad_input_is_refused(changes, message):
    args = {"circuit": life_circuit(), "grids": GRIDS, "steps": 3, "periodic": True, **changes}
    with Workers(1) as team, pytest.raises(SamebitsError, match=message):
        packed.simulate(**args, workers=team)
