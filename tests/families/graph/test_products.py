"""Products of the widths that have tiles of their own, and of those that have not."""

from __future__ import annotations

import numpy as np
import pytest

from samebits.arithmetic.gemm import DEPTH, transposed_size
from samebits.families.graph.products import ROWS, multiply, multiply_transposed
from tests import naive


@pytest.mark.parametrize("shape", [(13, 5, 64), (6, 130, 128), (1, 1, 64), (20, 9, 48), (7, 3, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_those_of_numpy_and_touch_nothing_else(shape, dtype):
    m, k, n = shape
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(m, k)).astype(dtype), draw.normal(size=(k, n)).astype(dtype)
    panel = np.empty(transposed_size(k, m), dtype)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype is np.float32 else {"rtol": 1e-11, "atol": 1e-11}
    for compute, left in ((multiply, a), (multiply_transposed, np.ascontiguousarray(a.T))):
        wide = np.full((m, n + 3), 7, dtype)
        compute(wide[:, :n], left, b, panel)
        np.testing.assert_allclose(wide[:, :n], a.astype(np.float64) @ b, **close)
        assert (wide[:, n:] == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, DEPTH + 3, 3), (ROWS + 1, 2 * DEPTH + 6, 128), (ROWS, DEPTH, 64)])
def test_long_products_are_panels_each_one_chain_added_in_order(shape, dtype):
    """As those of the engine: the model does not depend on which of them a machine takes."""
    m, k, n = shape
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(m, k)).astype(dtype), draw.normal(size=(k, n)).astype(dtype)
    rows, columns = sorted({0, m - 1}), sorted({0, n - 1, n // 2})
    expected = naive.product(a[rows], b[:, columns])
    for compute, left in ((multiply, a), (multiply_transposed, np.ascontiguousarray(a.T))):
        out = np.empty((m, n), dtype)
        compute(out, left, b, np.empty(transposed_size(k, m), dtype))
        np.testing.assert_array_equal(out[np.ix_(rows, columns)], expected)
