"""Products: equal to NumPy's, on parts of larger arrays, with nothing beside them touched; and the same bits whatever
the tile, because every number is one chain of multiply-adds."""

import numpy as np
import pytest

from samebits.arithmetic.gemm import (
    DEPTH,
    ROWS,
    fill_panels,
    multiply,
    multiply_panels,
    multiply_transposed,
    panel_size,
    panels_size,
    transposed_size,
)
from samebits.arithmetic.simd import LANES
from tests import naive

DTYPES = [np.float32, np.float64]
SIZES = [(1, 1, 1), (5, 7, 9), (8, 16, 48), (9, 3, 49), (16, 33, 64), (33, 12, 97), (2, DEPTH + 3, 17)]


def operands(sizes, dtype, transpose_a, seed=0):
    """Blocks of wider arrays: the distance between rows is not the width."""
    m, k, n = sizes
    draw = np.random.default_rng(seed)
    a = draw.normal(size=((k, m + 3) if transpose_a else (m, k + 3))).astype(dtype)[:, 2:-1]
    b = draw.normal(size=(k, n + 5)).astype(dtype)[:, 1:-4]
    return a, b, draw.normal(size=(m, n + 2)).astype(dtype)


@pytest.mark.jit_off
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_products_equal_numpys(dtype, sizes, add, transpose_a):
    a, b, whole = operands(sizes, dtype, transpose_a)
    before, out = whole.copy(), whole[:, 1:-1]
    expected = (a.T if transpose_a else a).astype(np.float64) @ b + (out if add else 0)
    (multiply_transposed if transpose_a else multiply)(
        out, a, b, np.empty(transposed_size(sizes[1], sizes[0]), dtype), add
    )
    np.testing.assert_allclose(out, expected, rtol=0, atol=(1e-4 if dtype == np.float32 else 1e-12))
    np.testing.assert_array_equal(whole[:, [0, -1]], before[:, [0, -1]])


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("transpose_b", [False, True])
def test_packed_products_have_the_same_bits(sizes, transpose_b):
    m, k, n = sizes
    a, b, _ = operands(sizes, np.float32, False)
    panel = np.empty(panel_size(k), np.float32)
    wanted, found = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    multiply(wanted, a, b, panel, False)
    packed = np.full(panels_size(k, n), np.nan, np.float32)
    fill_panels(packed, np.ascontiguousarray(b.T) if transpose_b else b, transpose_b)
    multiply_panels(found, a, packed, np.empty(ROWS * LANES, np.float32), False)
    np.testing.assert_array_equal(found, wanted)


def test_every_number_is_one_chain_whatever_the_tile():
    """A row computed as part of 8, as part of 33, alone, or with a transposed: always the same bits."""
    a, b, _ = operands((33, 64, 97), np.float32, False)
    panel = np.empty(transposed_size(64, 33), np.float32)
    whole, transposed = np.empty((33, 97), np.float32), np.empty((33, 97), np.float32)
    multiply(whole, a, b, panel, False)
    multiply_transposed(transposed, np.ascontiguousarray(a.T), b, panel, False)
    np.testing.assert_array_equal(transposed, whole)
    for rows in (slice(0, 8), slice(5, 13), slice(31, 32)):
        for columns in (slice(0, 97), slice(3, 20), slice(96, 97)):
            part = np.empty((rows.stop - rows.start, columns.stop - columns.start), np.float32)
            multiply(part, a[rows], b[:, columns], panel, False)
            np.testing.assert_array_equal(part, whole[rows, columns])


LONG = [(2, DEPTH + 3, 3), (ROWS + 1, 2 * DEPTH + 6, 50), (ROWS, DEPTH, LANES), (ROWS, DEPTH + 1, 48)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", LONG)
@pytest.mark.parametrize("add", [False, True])
def test_long_products_are_panels_each_one_chain_added_in_order(dtype, sizes, add):
    """The corners of every kind of tile, against the plain model."""
    m, k, n = sizes
    a, b, before = operands(sizes, dtype, False)
    before = np.ascontiguousarray(before[:, 1:-1])
    rows, columns = sorted({0, m - 1}), sorted({0, n - 1, *({15, 16, 47, 48} & set(range(n)))})
    expected = naive.product(a[rows], b[:, columns], before[np.ix_(rows, columns)] if add else None)

    def transposed(out, a, b, scratch, add):
        multiply_transposed(out, np.ascontiguousarray(a.T), b, scratch, add)

    def packed(out, a, b, scratch, add, transposed=False):
        panels = np.full(panels_size(k, n), np.nan, dtype)
        fill_panels(panels, np.ascontiguousarray(b.T) if transposed else b, transposed)
        multiply_panels(out, a, panels, np.empty(ROWS * LANES, dtype), add)

    def packed_transposed(out, a, b, scratch, add):
        packed(out, a, b, scratch, add, True)

    for compute in (multiply, transposed, packed, packed_transposed):
        out = before.copy()
        compute(out, a, b, np.empty(transposed_size(k, m), dtype), add)
        np.testing.assert_array_equal(out[np.ix_(rows, columns)], expected, err_msg=compute.__name__)


def test_panels_show_in_the_last_bits():
    """What the test above would miss if its numbers were too kind."""
    a, b, _ = operands((2, DEPTH + 3, 3), np.float32, False)
    one_chain = np.zeros((2, 3), np.float32)
    for i, j in np.ndindex(2, 3):
        for left, right in zip(a[i], b[:, j], strict=True):
            one_chain[i, j] = naive.fma(left, right, one_chain[i, j])
    assert not np.array_equal(naive.product(a, b), one_chain)


@pytest.mark.parametrize("product", [multiply, multiply_transposed])
def test_scratch_that_is_too_small_is_refused(product):
    a = np.ones((16, 16), np.float32)
    with pytest.raises(ValueError, match="too small"):
        product(np.empty_like(a), a, a, np.empty(panel_size(15), np.float32), False)
