"""Vector code: exp, the largest number, softmax. Equal to NumPy's, on parts of larger arrays, with nothing beside them
touched."""

import numpy as np
import pytest

from samebits.engine.jit import kernel
from samebits.engine.simd import LANES, exp, largest, move
from samebits.engine.softmax import softmax, softmax_backward

DTYPES = [np.float32, np.float64]


@kernel
def exp_of(out, x):
    for i in range(x.size):
        out[i] = exp(x[i])


@kernel
def largest_of(x):
    return largest(x)


@pytest.mark.jit_off
@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 4e-7), (np.float64, 1e-14)])
def test_exp_is_exact_to_the_last_bits(dtype, error):
    x = np.concatenate([np.linspace(-87, 88, 997), [0.0, -0.0, 1.0, -1.0]]).astype(dtype)
    out = np.empty_like(x)
    exp_of(out, x)
    np.testing.assert_allclose(out, np.exp(x.astype(np.float64)), rtol=error)


@pytest.mark.jit_off
def test_exp_of_what_counts_for_nothing_is_next_to_nothing_and_a_nan_stays_one():
    out = np.empty(3, np.float32)
    exp_of(out, np.array([-1e30, np.nan, -np.inf], np.float32))
    assert 0 <= out[0] < 1e-37
    assert np.isnan(out[1])
    assert 0 <= out[2] < 1e-37


@pytest.mark.jit_off
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, LANES - 1, LANES, LANES + 1, 5 * LANES + 3])
def test_largest(dtype, size):
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=size).astype(dtype) - 3
        assert largest_of(x) == x.max()


@kernel
def move_one(out, at, x, start, scale):
    move(out, at, x, start, scale)


@kernel
def softmax_one(rows, at, width, count):
    softmax(rows, at, width, count)


@kernel
def softmax_backward_one(slopes, weights, at, width):
    softmax_backward(slopes, weights, at, width)


@pytest.mark.jit_off
@pytest.mark.parametrize("dtype", DTYPES)
def test_move(dtype):
    x, out = np.random.default_rng(0).normal(size=(3, 40)).astype(dtype), np.zeros((3, 50), dtype)
    move_one(out, 53, x, 45, dtype(0.3))
    expected = np.zeros_like(out)
    expected[1, 3 : 3 + LANES] = dtype(0.3) * x[1, 5 : 5 + LANES]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.jit_off
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("width", "count"), [(16, 1), (16, 15), (16, 16), (32, 17), (64, 49), (64, 64)])
def test_softmax_and_its_way_back(dtype, width, count):
    draw, near = np.random.default_rng(count), 1e-6 if dtype == np.float32 else 1e-14
    rows = (40 * draw.normal(size=(3, 80))).astype(dtype)  # past what exp could hold without the largest taken off
    found = rows.copy()
    softmax_one(found, 85, width, count)
    expected = rows.astype(np.float64)
    grown = np.exp(expected[1, 5 : 5 + count] - expected[1, 5 : 5 + count].max())
    expected[1, 5 : 5 + width] = 0
    expected[1, 5 : 5 + count] = grown / grown.sum()
    np.testing.assert_allclose(found, expected, rtol=0, atol=10 * near)
    assert not found[1, 5 + count : 5 + width].any()
    slopes = draw.normal(size=(3, 80)).astype(dtype)
    back = slopes.copy()
    softmax_backward_one(back, found, 85, width)
    p, s = expected[1, 5 : 5 + width], slopes[1, 5 : 5 + width]
    expected = slopes.astype(np.float64)
    expected[1, 5 : 5 + width] = p * (s - (p * s).sum())
    np.testing.assert_allclose(back, expected, rtol=0, atol=10 * near)


def test_softmax_with_a_nan_shows_it():
    row = np.zeros(LANES, np.float32)
    row[3] = np.nan
    softmax_one(row, 0, LANES, LANES)
    assert np.isnan(row).all()
