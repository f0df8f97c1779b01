"""Products inside kernels: equal to NumPy's, on parts of larger arrays, added to what is there, for any caller."""

import numpy as np
import pytest

from weft.engine.blas import product, product_at, product_bt
from weft.engine.workers import Workers

WAYS = {"ab": (product, False, False), "abt": (product_bt, False, True), "atb": (product_at, True, False)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes", [(5, 7, 9), (1, 1, 1), (1, 64, 3), (64, 16, 1), (33, 128, 65)])
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_products_equal_numpys(dtype, way, sizes, beta):
    m, k, n = sizes
    function, flip_a, flip_b = WAYS[way]
    draw = np.random.default_rng(0)
    # Blocks of wider arrays: the leading dimension is not the width.
    a = draw.normal(size=((k, m + 3) if flip_a else (m, k + 3))).astype(dtype)[:, 2:-1]
    b = draw.normal(size=((n, k + 5) if flip_b else (k, n + 5))).astype(dtype)[:, 1:-4]
    whole = draw.normal(size=(m, n + 2)).astype(dtype)
    before, out = whole.copy(), whole[:, 1:-1]
    expected = (a.T if flip_a else a).astype(np.float64) @ (b.T if flip_b else b) + beta * out.astype(np.float64)
    with Workers(1):
        function(out, a, b, beta)
    np.testing.assert_allclose(out, expected, rtol=0, atol=(1e-4 if dtype == np.float32 else 1e-12))
    np.testing.assert_array_equal(whole[:, [0, -1]], before[:, [0, -1]])  # nothing beside the block was touched
