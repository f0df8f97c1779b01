"""Numbers that are next to nothing. CPUs do not agree which results are too small for float32: x86 rounds first, ARM
does not. So denormal numbers are 0 wherever we compute, and what may differ around 2⁻¹²⁶ never reaches a parameter."""

import threading

import numpy as np
import pytest

from samebits.arithmetic.elementary import log
from samebits.arithmetic.simd import SUMS, exp, wide_squares
from samebits.arithmetic.softmax import softmax
from samebits.compiler.jit import kernel
from samebits.config import TrainConfig
from samebits.devices.cpu.modes import FLUSHING, X86_DEFAULT, set_mode
from samebits.devices.cpu.optimizer import AdamW
from samebits.devices.cpu.sync import finish, wait_for
from samebits.devices.cpu.tree import SLICE
from samebits.devices.cpu.workers import Workers
from samebits.families.logic_ca import gates
from samebits.families.logic_ca.gate_kernels import GateRows, gate_backward, gate_forward
from samebits.families.logic_ca.program import WRITES_A, WRITES_B

FLUSH_BITS = FLUSHING & ~X86_DEFAULT
DTYPES = [np.float32, np.float64]
TINY = 2.0**-64  # as devices/cpu/optimizer.py has it: written out, so that it cannot move unseen
SMALLEST = np.float32(2.0**-126)  # that is normal
TOO_SMALL = [0.0, 2.0**-149, 1e-40, 2.0**-127, 2.0**-126, 2.0**-125, 1e-30, 2.0**-65]  # all below TINY


def test_denormals_are_flushed_in_every_worker_and_restored_outside():
    tiny, found = np.array([1e-40], np.float32), np.ones((3, 1), np.float32)

    met = threading.Barrier(3)

    def body(worker):
        met.wait()
        np.multiply(tiny, np.float32(1), out=found[worker])

    before = set_mode(0x1F80)
    set_mode(before)
    with Workers(3) as workers:
        workers.run(body)
    assert set(found.ravel().tolist()) == {0.0}
    assert set_mode(before) & FLUSH_BITS == before & FLUSH_BITS  # the other bits are sticky exception flags
    assert (tiny * np.float32(1))[0] > 0


@kernel
def scale_all(worker, here, everybody, out, x, factor):
    """Every worker, all of it."""
    finish(here, 0)
    wait_for(here, 0, everybody)
    for i in range(x.size):
        out[worker, i] = x[i] * factor


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_denormal_inputs_and_results_are_0_in_compiled_code(dtype, count):
    normal = np.finfo(dtype).tiny
    x = np.array([normal, normal / 2, -normal / 2, np.finfo(dtype).smallest_subnormal, 3 * normal], dtype)
    grown, shrunk = np.ones((2, count, x.size), dtype)
    with Workers(count) as workers:
        workers.run(scale_all, workers.counters(1), count, grown, x, dtype(2.0**60))
        workers.run(scale_all, workers.counters(1), count, shrunk, x, dtype(0.5))
    for row in grown:
        assert row.tolist() == [normal * 2.0**60, 0, 0, 0, 3 * normal * 2.0**60]
    for row in shrunk:
        assert row.tolist() == [0, 0, 0, 0, 1.5 * normal]
    scale_all(0, workers.counters(1), 0, grown, x, dtype(2.0**60))
    assert grown[0].all()  # outside, they are what they were


@kernel
def compute_small(worker, here, everybody, exps, row, squares, logs):
    finish(here, 0)
    wait_for(here, 0, everybody)
    for i in range(exps.shape[1]):
        exps[worker, i] = exp(exps[worker, i])
    softmax(row[worker], 0, row.shape[1], row.shape[1])
    squares[worker] = wide_squares(row[worker, :4])
    logs[worker] = log(logs[worker])


def test_exp_softmax_squares_and_log_of_next_to_nothing():
    count = 2
    exps = np.tile(np.array([-1e30, -88, -87.4, -87.3, -87, 1e-40, -1e-40], np.float32), (count, 1))
    row, squares = np.full((count, 16), -200, np.float32), np.empty(count)
    row[:, 8], logs = 0, np.full(count, np.finfo(np.float64).tiny / 8)
    with Workers(count) as workers:
        workers.run(compute_small, workers.counters(1), count, exps, row, squares, logs)
    assert (exps >= SMALLEST).all()
    assert (exps[:, 5:] == 1).all()
    assert (row[:, 8] == 1).all()
    others = np.delete(row, 8, axis=1)
    assert ((others == 0) | (others >= SMALLEST)).all()
    assert (squares <= 4 * float(others.max()) ** 2).all()
    assert (logs == -np.inf).all()


@kernel
def one_gate(worker, here, everybody, values, adjoint, sums, coef, width):
    """Inputs a, b and the output, side by side; so are their adjoints."""
    finish(here, 0)
    wait_for(here, 0, everybody)
    gate_forward(values[worker], 0, width, 2 * width, coef, width)
    rows = GateRows(0, width, 0, width, 2 * width, WRITES_A | WRITES_B)
    gate_backward(sums[worker], adjoint[worker], values[worker], rows, coef, width)


@pytest.mark.parametrize(
    ("a", "b", "allowed"),
    [
        (2.0**-63, 2.0**-63, {2.0**-126}),
        (2.0**-64, 2.0**-63, {0.0}),
        (2.0**-64, 2.0**-64, {0.0}),
        (2.0**-130, 2.0**60, {0.0}),  # a denormal input
        (2.0**-126, 1.0, {2.0**-126}),
        (2.0**-126, 1 - 2.0**-24, {0.0}),
        (2.0**-126 * (1 + 2.0**-23), 1 - 2.0**-23, {0.0, 2.0**-126}),  # rounded, it is normal: here CPUs differ
    ],
)
def test_gates_at_the_end_of_the_numbers(a, b, allowed):
    """a AND b, and its gradient the other way round: d · b, with d as small as a was."""
    count, width, coef = 2, SUMS, np.array([0, 0, 0, 1], np.float32)
    values, adjoint = np.empty((2, count, 3 * width), np.float32)
    sums = np.zeros((count, 4), np.float32)
    values[:, :width], values[:, width : 2 * width], adjoint[:, 2 * width :] = a, b, a
    with Workers(count) as workers:
        workers.run(one_gate, workers.counters(1), count, values, adjoint, sums, coef, width)
    assert set(values[:, 2 * width :].ravel().tolist()) <= allowed
    assert set(adjoint[:, :width].ravel().tolist()) <= allowed
    for found in (values, adjoint, sums):  # all on this one
        np.testing.assert_array_equal(found[0], found[1])
    assert ((sums == 0) | (np.abs(sums) >= SMALLEST)).all()


def trained(gradients, params, config, workers=1):
    """(parameters, moments, norms) after a step with each gradient."""
    with Workers(workers) as team:
        optimiser = AdamW(team, params.copy())
        norms = []
        for step, gradient in enumerate(gradients):
            optimiser.step(config, gradient.copy(), 1.0, step, config.lr)
            team.join()
            norms.append(optimiser.outcome().norm)
    return optimiser.params, optimiser.first, optimiser.second, norms


CLIPS = [{}, {"clip_element": 0.5}, {"clip_norm": 3.0}, {"clip_element": 1e-25, "clip_norm": 1e-25}]


@pytest.mark.jit_off
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("clip", CLIPS)
def test_gradients_below_tiny_never_reach_a_parameter(dtype, clip):
    """Not even one that is 0, which any number would change; nor the moments, nor the norm."""
    size = SLICE + 100
    config = TrainConfig(lr=0.1, weight_decay=0.0, **clip)
    draw = np.random.default_rng(0)
    params = draw.normal(size=size).astype(dtype)
    params[::3] = 0
    small = (draw.choice(TOO_SMALL, (3, size)) * draw.choice([-1, 1], (3, size))).astype(dtype)
    found, first, second, norms = trained(small, params, config)
    np.testing.assert_array_equal(found, params)
    assert not first.any()
    assert not second.any()
    assert norms == [0, 0, 0]


@pytest.mark.jit_off
@pytest.mark.parametrize("clip", CLIPS[:3])
def test_beside_others_they_are_0_too(clip):
    """A gradient with and without them, among numbers that count: the same bits everywhere."""
    size = 2 * SLICE
    config = TrainConfig(lr=0.1, **clip)
    draw = np.random.default_rng(1)
    params = draw.normal(size=size).astype(np.float32)
    gradients = draw.normal(size=(3, size)).astype(np.float32)
    gradients[:, ::2] = 0
    noisy = gradients.copy()
    noisy[:, ::2] = draw.choice(TOO_SMALL, (3, size // 2))
    one, other = trained(gradients, params, config), trained(noisy, params, config)
    assert one[3] == other[3]
    for mine, yours in zip(one[:3], other[:3], strict=True):
        np.testing.assert_array_equal(mine, yours)


@pytest.mark.jit_off
@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_itself_is_a_gradient(dtype):
    below = np.nextafter(dtype(TINY), dtype(0))
    gradient = np.array([TINY, -TINY, below, -below, np.nan], dtype)
    config = TrainConfig(lr=0.1, weight_decay=0.0)
    found, first, _, norms = trained([gradient[:4]], np.zeros(4, dtype), config)
    assert (found != 0).tolist() == [True, True, False, False]
    assert (first != 0).tolist() == [True, True, False, False]
    assert norms == [pytest.approx(2**0.5 * TINY)]
    assert np.isnan(trained([gradient], np.zeros(5, dtype), config)[3][0])


def test_the_gradient_counts_after_it_is_divided():
    """By the step's count: what is small is the mean."""
    config = TrainConfig(lr=0.1, weight_decay=0.0)
    with Workers(1) as team:
        optimiser = AdamW(team, np.zeros(2, np.float32))
        optimiser.step(config, np.array([2.0**-60, 2.0**-63], np.float32), 4.0, 0, 0.1)
        team.join()
        assert (optimiser.params != 0).tolist() == [True, False]


def test_what_gates_pull_back_from_next_to_nothing_changes_no_gate():
    """Where one CPU keeps 2⁻¹²⁶ and another does not, both train the same model."""
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(5, 16)).astype(np.float32)
    logits[1:3] = 0
    logits[3, 2] = 300  # decided: the other chances are next to nothing themselves
    soft = np.zeros(0, bool)
    trained_logits = []
    for size in (0.0, 2.0**-126, 2.0**-127 + 2.0**-149, 2.0**-66):
        params, gradient = logits.copy(), np.full((5, 16), np.nan, np.float32)
        sums = np.full((5, 4), size, np.float32)
        with Workers(2) as team:
            _, chances = gates.training_coefficients(params, soft, team)
            gates.pull_back(gradient, chances, sums, team)
            optimiser = AdamW(team, params.reshape(-1))
            optimiser.step(TrainConfig(lr=0.1, weight_decay=0.0), gradient.reshape(-1), 1.0, 0, 0.1)
            team.join()
        trained_logits.append(params)
    for found in trained_logits:
        np.testing.assert_array_equal(found, logits)


def test_a_parameter_that_is_denormal_becomes_0():
    params = np.array([2.0**-126, 2.0**-127, -1e-40, 1.0], np.float32)
    found = trained([np.zeros(4, np.float32)], params, TrainConfig(weight_decay=0.0))[0]
    assert found.tolist() == [2.0**-126, 0, 0, 1]
