"""Products of the widths that have tiles of their own, and of those that have not."""

from __future__ import annotations

import numpy as np
import pytest

from samebits.engine.gemm import transposed_size
from samebits.families.graph.products import multiply, multiply_transposed


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
