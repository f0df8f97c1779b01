"""Kernels against the plain reference, on shapes the presets do not have."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.config import build, override
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families import discover, find_preset
from samebits.families.logic_ca import data, gates, reference
from samebits.families.logic_ca.config import LogicConfig, layout
from samebits.families.logic_ca.model import LogicModel
from samebits.families.logic_ca.program import compile_program
from samebits.families.logic_ca.tiling import neighbour_columns, of_wave, tiling
from samebits.families.logic_ca.wiring import wires
from samebits.training.contract import Wave
from samebits.training.params import views
from samebits.verify.gradients import finite_difference_error, spread_params

FAMILY = discover()["logic_ca"]
TINY = override(
    find_preset("checkerboard", "small"),
    {"height": 5, "width": 7, "channels": 3, "kernels": 2, "update": (12, 6, 3), "ca_steps": 3, "batch_size": 2},
)


def model_of(config, dtype=np.float64, seed=0):
    params = spread_params(FAMILY, config, seed).astype(dtype)
    return LogicModel(config, params, FAMILY.constants(config))


def random_grids(shape, seed=0, bits=False):
    draw = np.random.default_rng(seed)
    return draw.integers(0, 2, shape).astype(float) if bits else draw.random(shape)


def test_the_matrix_is_the_sixteen_operations():
    a, b = np.random.default_rng(0).random((2, 50))
    terms = np.stack([np.ones_like(a), a, b, a * b], axis=-1)
    np.testing.assert_allclose(terms @ gates.MATRIX, reference.sixteen_operations(a, b), atol=1e-15)


def test_hard_gates_take_the_first_of_equals():
    logits = np.zeros((3, 16), np.float32)
    logits[1, [4, 9]] = 2
    logits[2, 15] = 1
    np.testing.assert_array_equal(gates.hard_coefficients(logits), gates.MATRIX.T[[0, 4, 15]])


@pytest.mark.jit_off
@pytest.mark.parametrize("boundary", ["periodic", "zeros"])
@pytest.mark.parametrize("shape", [(1, 3, 3), (3, 4, 5), (2, 9, 8), (1, 13, 11)])
@pytest.mark.parametrize("soft", [True, False])
def test_rollouts_match_the_reference_on_any_grid(boundary, shape, soft):
    config = override(TINY, {"boundary": boundary})
    model = model_of(config)
    grids = random_grids((*shape, 3), bits=not soft)
    expected = reference.rollout(config, model.params, grids, 3, soft)
    np.testing.assert_allclose(model.rollout(grids, 3, soft=soft, workers=2), expected, atol=1e-12)


def test_hard_rollouts_are_exact_bits():
    found = model_of(TINY, np.float32).rollout(random_grids((2, 6, 6, 3), bits=True), 5)
    assert set(np.unique(found)) <= {0.0, 1.0}


def test_a_trajectory_holds_every_step():
    model = model_of(TINY)
    grids = random_grids((2, 5, 5, 3))
    frames = model.rollout(grids, 4, soft=True, trajectory=True)
    np.testing.assert_array_equal(frames[0], grids)
    for t in range(5):
        np.testing.assert_array_equal(frames[t], model.rollout(grids, t, soft=True))


def test_results_are_not_overwritten_by_the_next_call():
    config = override(find_preset("life", "small"), {})
    model = model_of(config, np.float32)
    with Workers(1) as team:
        first = model.rollout(random_grids((1, 6, 6, 1), 1), 1, soft=True, workers=team)
        kept = first.copy()
        model.rollout(random_grids((1, 6, 6, 1), 2), 1, soft=True, workers=team)
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_loss_and_gradient_take_several_target_channels(channels):
    model = model_of(TINY)
    grids, targets = random_grids((2, 4, 6, 3)), random_grids((2, 4, 6, channels), 1)
    loss, gradient = model.loss_and_gradient(grids, targets, workers=3)
    assert loss == pytest.approx(reference.loss(TINY, model.params, grids, targets), rel=1e-12)
    name, index, step = "update.1.logits", (2, 5), 1e-4
    slope = 0.0
    for sign in (1, -1):
        moved = {key: value.copy() for key, value in model.params.items()}
        moved[name][index] += sign * step
        slope += sign * reference.loss(TINY, moved, grids, targets) / (2 * step)
    assert gradient[name][index] == pytest.approx(slope, rel=1e-5)


def test_plain_targets_are_one_channel():
    model = model_of(TINY)
    grids, targets = random_grids((2, 5, 5, 3)), random_grids((2, 5, 5), 1)
    assert model.loss_and_gradient(grids, targets)[0] == model.loss_and_gradient(grids, targets[..., None])[0]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_model_gradients_are_the_same_bits_for_any_worker_count(workers):
    model = model_of(TINY, np.float32)
    grids, targets = random_grids((3, 9, 9, 3)), random_grids((3, 9, 9), 1)
    loss, gradient = model.loss_and_gradient(grids, targets, workers=1)
    other, also = model.loss_and_gradient(grids, targets, workers=workers)
    assert loss == other
    for name, value in gradient.items():
        np.testing.assert_array_equal(value, also[name])


@pytest.mark.parametrize("update", [(8, 5, 3, 2, 1), (5, 3, 2, 1), (4, 2, 1)])
def test_outputs_nobody_reads_get_no_gradient(update):
    """An odd layer's last gate may stay unread, as published; its adjoint must be 0, not what was there before."""
    config = override(find_preset("life", "small"), {"kernels": 7, "update": update, "batch_size": 2})
    assert finite_difference_error(FAMILY, config) < 1e-6


@pytest.mark.parametrize("lanes", [32, 64, 96])
@pytest.mark.parametrize("perceive", [(8,), (8, 4), (8, 5, 3)])
def test_any_lanes_and_perceive_depth(lanes, perceive):
    settings = {"lanes": lanes, "perceive": perceive, "update": (40, 20, 10, 5, 3), "ca_steps": 2}
    assert finite_difference_error(FAMILY, override(TINY, settings), per_tensor=2) < 1e-6


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 300), st.sampled_from([32, 64]))
def test_tilings_cover_every_cell_once(samples, cells, lanes):
    plan = tiling(samples, cells, lanes)
    sizes = np.diff(plan.tiles)
    assert plan.tiles[0] == 0
    assert plan.tiles[-1] == samples * cells
    assert sizes.min() >= 1
    assert sizes.max() <= lanes
    assert plan.group_samples[-1] == samples
    assert plan.units == plan.group_tiles.sum() == len(sizes)
    starts = plan.tiles[np.concatenate([[0], np.cumsum(plan.group_tiles)])]
    np.testing.assert_array_equal(starts, plan.group_samples * cells)
    cut = of_wave(plan, Wave(0, len(plan.group_tiles), 0, plan.units))
    for ours, whole in zip(cut, plan, strict=True):
        np.testing.assert_array_equal(ours, whole)


def test_two_samples_keep_eight_workers_busy():
    config = find_preset("checkerboard", "full")
    assert tiling(2, config.height * config.width, config.lanes).units >= 8


@pytest.mark.parametrize("periodic", [True, False])
def test_neighbours_are_those_of_the_reference(periodic):
    grids = random_grids((2, 4, 5, 1))
    columns = neighbour_columns(2, 4, 5, periodic)
    flat = np.append(grids.ravel(), 0.0)
    expected = reference.patches(grids, periodic)[..., 0].reshape(-1, 9).T
    np.testing.assert_array_equal(flat[columns], expected)


def test_the_forward_pass_reuses_its_rows():
    """The live placement is what keeps the forward pass in the L1 cache."""
    config = find_preset("checkerboard", "full")
    program = compile_program(config, wires(config))
    assert program.live_size < program.full_size / 5
    assert program.adjoint_size < program.full_size / 5


def test_who_asks_for_another_program_in_between_changes_nothing():
    """Two threads that train different configs, as unluckily as can be: the other asks before every line."""
    (one, ours), (other, theirs) = ((config, wires(config)) for config in (TINY, find_preset("life", "small")))
    wanted = compile_program(one, ours)

    def between(frame, event, arg):
        if frame.f_code is compile_program.__code__:
            assert compile_program(other, theirs) is not wanted
            return between
        return None

    before = sys.gettrace()
    sys.settrace(between)
    try:
        found = compile_program(one, ours), compile_program(one, ours)
    finally:
        sys.settrace(before)
    assert found[0] is found[1] is wanted


def test_life_step_is_conways():
    blinker = np.zeros((1, 5, 5, 1))
    blinker[0, 2, 1:4] = 1
    turned = data.life_step(blinker)
    np.testing.assert_array_equal(turned, blinker.transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(data.life_step(turned), blinker)


def test_life_patterns_are_all_different():
    assert len({pattern.tobytes() for pattern in data.life_patterns()}) == 512


def test_the_checkerboard_has_squares():
    board = data.checkerboard(6, 6, 2)[..., 0]
    assert board[:2, :2].tolist() == [[0, 0], [0, 0]]
    assert board[:2, 2:4].tolist() == [[1, 1], [1, 1]]
    assert board[2:4, 2:4].tolist() == [[0, 0], [0, 0]]


def test_names_and_shapes_of_the_parameters():
    config = find_preset("checkerboard", "full")
    model = LogicModel(config, FAMILY.init(config, np.float32), FAMILY.constants(config))
    assert model.params["perceive.0.logits"].shape == (16, 8, 16)
    assert model.params["perceive.0.wires"].shape == (2, 8)
    assert model.params["update.3.logits"].shape == (256, 16)
    assert model.params["update.15.wires"].shape == (2, 8)
    assert list(views(layout(config), model.weights)) == [name for name, _ in layout(config)]
    assert (model.config.channels, model.config.ca_steps) == (8, 20)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"update": (100, 8)}, "100 gates on 264 inputs"),
        ({"update": (256, 128, 64, 32, 16)}, "end it with channels, 8"),
        ({"perceive": (4, 2)}, "start the list with 8"),
        ({"perceive": (8, 40)}, "only 28 different pairs"),
        ({"lanes": 48}, "multiple of 32"),
        ({"update": (256, 0, 8)}, "from 1 to"),
    ],
)
def test_networks_that_cannot_be_wired_are_refused(changes, message):
    with pytest.raises(SamebitsError, match=message):
        override(find_preset("checkerboard", "full"), changes)


def test_life_must_be_one_bit_on_a_torus():
    base = find_preset("life", "small").model_dump()
    with pytest.raises(SamebitsError, match="boundary"):
        build(LogicConfig, {**base, "boundary": "zeros"})
    with pytest.raises(SamebitsError, match="channels"):
        build(LogicConfig, {**base, "channels": 2})


@pytest.mark.parametrize("shape", [(2, 5, 5), (2, 5, 5, 4), (0, 5, 5, 3)])
def test_grids_of_a_wrong_shape_are_refused(shape):
    with pytest.raises(SamebitsError, match="they must be"):
        model_of(TINY).rollout(np.zeros(shape), 1)


def test_targets_of_a_wrong_shape_are_refused():
    with pytest.raises(SamebitsError, match="targets have shape"):
        model_of(TINY).loss_and_gradient(np.zeros((2, 5, 5, 3)), np.zeros((2, 5, 4)))


def test_targets_that_are_no_cells_are_refused():
    for wrong in (np.nan, -0.5, 2.0):
        with pytest.raises(SamebitsError, match=f"targets hold {wrong}; a cell is 0 or 1"):
            model_of(TINY).loss_and_gradient(np.zeros((2, 5, 5, 3)), np.full((2, 5, 5), wrong))


def test_a_cell_fires_unless_it_is_told_0():
    """256 is 0 in eight bits, and so is 0.5 as a whole number: neither is 0 here."""
    model, grids = model_of(TINY), random_grids((1, 4, 5, 3), bits=True)
    for value in (True, 1, 256, 0.5, -1):
        np.testing.assert_array_equal(
            model.rollout(grids, 2, fire=np.full((2, 4, 5), value)), model.rollout(grids, 2), strict=True
        )
    for value in (False, 0, -0.0):
        np.testing.assert_array_equal(model.rollout(grids, 2, fire=np.full((2, 4, 5), value)), grids)
    np.testing.assert_array_equal(model.rollout(grids, 0, fire=np.zeros((0, 4, 5))), grids)
    with pytest.raises(SamebitsError, match="fire holds nan"):
        model.rollout(grids, 1, fire=np.full((1, 4, 5), np.nan))


def test_a_trajectory_that_no_memory_holds_is_refused():
    with pytest.raises(SamebitsError, match="steps is 2147483647; it must be fewer"):
        model_of(TINY).rollout(np.ones((64, 64, 64, 3)), 2**31 - 1, trajectory=True)  # 12 petabytes
