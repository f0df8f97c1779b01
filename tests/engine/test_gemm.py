"""Products: equal to NumPy's, on parts of larger arrays, with nothing beside them touched; and the same bits whatever
the tile, because every number is one chain of multiply-adds."""

import numpy as np
import pytest

from samebits.engine.gemm import (
    DEPTH,
    ROWS,
    multiply,
    multiply_packed,
    multiply_transposed,
    pack_panels,
    packed_size,
    panel_size,
    transposed_size,
)
from samebits.engine.simd import LANES

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
    packed = np.full(packed_size(k, n), np.nan, np.float32)
    pack_panels(packed, np.ascontiguousarray(b.T) if transpose_b else b, transpose_b)
    multiply_packed(found, a, packed, np.empty(ROWS * LANES, np.float32), False)
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


@pytest.mark.parametrize("product", [multiply, multiply_transposed])
def test_scratch_that_is_too_small_is_refused(product):
    a = np.ones((16, 16), np.float32)
    with pytest.raises(ValueError, match="too small"):
        product(np.empty_like(a), a, a, np.empty(panel_size(15), np.float32), False)
