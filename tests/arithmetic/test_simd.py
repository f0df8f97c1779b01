"""Vector code: sums in their stated order, exp, the largest number, softmax. Equal to NumPy's, on parts of larger
arrays, with nothing beside them touched; and bit for bit to plain models."""

import numpy as np
import pytest

from samebits.arithmetic.simd import LANES, SUMS, dot, exp, fused, largest, move, total, wide_squares
from samebits.arithmetic.softmax import softmax, softmax_backward
from samebits.compiler.jit import kernel
from tests import naive

DTYPES = [np.float32, np.float64]


@kernel
def total_of(x):
    return total(x)


@kernel
def dot_of(x, y):
    return dot(x, y)


@kernel
def wide_squares_of(x):
    return wide_squares(x)


@kernel
def fused_one(x, y, z):
    return fused(x, y, z)


def numbers(size, dtype, seed=0):
    """Magnitudes far apart, so that any other order of additions shows; from an odd place of a longer row."""
    draw = np.random.default_rng(seed)
    return (draw.normal(size=size + 7) * 10.0 ** draw.integers(-5, 5, size + 7)).astype(dtype)[3 : 3 + size]


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_are_32_running_ones_folded_by_halves(dtype):
    for size in range(201):
        x, y = numbers(size, dtype, size), numbers(size, dtype, 1000 + size)
        for found, expected in (
            (total_of(x), naive.total(x)),
            (dot_of(x, y), naive.dot(x, y)),
            (wide_squares_of(x), naive.wide_squares(x)),
        ):
            assert np.array(found, type(expected)) == expected, size


@pytest.mark.jit_off
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, LANES, SUMS + 5, 200])
def test_sums_of_whole_numbers_are_exact(dtype, size):
    x, y = np.random.default_rng(size).integers(-50, 50, (2, size)).astype(dtype)
    assert total_of(x) == x.sum()
    assert dot_of(x, y) == (x * y).sum()
    assert wide_squares_of(x) == (x * x).sum()


@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_rounds_once(dtype):
    twice = 0
    for seed in range(200):
        x, y, z = np.random.default_rng(seed).normal(size=3).astype(dtype)
        z = -x * y + z * dtype(1e-3)  # most of the product is taken away: what it was rounded to shows
        found = dtype(fused_one(x, y, z))
        assert found == naive.fma(x, y, z)
        twice += found != x * y + z
    assert twice > 20


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
@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_of_what_counts_for_nothing_is_next_to_nothing_and_a_nan_stays_one(dtype):
    out = np.empty(3, dtype)
    exp_of(out, np.array([-1e30, np.nan, -np.inf], dtype))
    assert 0 <= out[0] < 1e-37
    assert np.isnan(out[1])
    assert 0 <= out[2] < 1e-37


@pytest.mark.parametrize(("dtype", "smallest"), [(np.float32, -87.0), (np.float64, -708.0)])
def test_exp_is_never_below_the_smallest_normal_number(dtype, smallest):
    """CPUs do not agree where numbers become too small (devices/cpu/modes.py): here none does."""
    x = np.concatenate([np.linspace(2 * smallest, smallest, 500), [-1e4, -1e30, -np.inf]]).astype(dtype)
    out = np.empty_like(x)
    exp_of(out, x)
    assert np.finfo(dtype).tiny <= out.min()
    assert set(out.tolist()) == {out[-1]}
    np.testing.assert_allclose(out[-1], np.exp(smallest), rtol=1e-6 if dtype == np.float32 else 1e-12)


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [*range(1, 50), 64, 95, 96, 97, 128, 199])
def test_softmax_and_its_way_back_have_the_bits_of_the_plain_chain(dtype, count):
    """Sums in the order of all sums, over the row up to a whole number of vectors: the rest of it is zeros."""
    width = -(-count // LANES) * LANES
    draw = np.random.default_rng(count)
    row = (5 * draw.normal(size=width)).astype(dtype)
    expected = np.zeros(width, dtype)
    exp_of(expected[:count], row[:count] - row[:count].max())
    expected *= dtype(1) / naive.total(expected)
    softmax_one(row, 0, width, count)
    np.testing.assert_array_equal(row, expected)
    slopes = draw.normal(size=width).astype(dtype)
    expected = row * (slopes - naive.dot(row, slopes))
    softmax_backward_one(slopes, row, 0, width)
    np.testing.assert_array_equal(slopes, expected)


def test_softmax_with_a_nan_shows_it():
    row = np.zeros(LANES, np.float32)
    row[3] = np.nan
    softmax_one(row, 0, LANES, LANES)
    assert np.isnan(row).all()
