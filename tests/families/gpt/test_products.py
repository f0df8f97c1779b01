"""Long sums of decoding and attention: panels of 512 terms, each one chain, added in order (arithmetic/gemm.py)."""

from __future__ import annotations

import numpy as np
import pytest

from samebits.arithmetic.gemm import DEPTH, ROWS, multiply, panel_size
from samebits.families.gpt.attention import gather_columns, gather_rows, padded
from samebits.families.gpt.decoding import times
from tests import naive

DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("depth", [1, 7, DEPTH, DEPTH + 3, 2 * DEPTH + 6])
def test_one_row_has_the_bits_of_the_plain_model_and_of_a_product_of_many(depth, add, dtype):
    draw = np.random.default_rng(depth)
    x, w = draw.normal(size=(ROWS, depth)).astype(dtype), draw.normal(size=(depth, 5)).astype(dtype)
    before = draw.normal(size=(ROWS, 5)).astype(dtype)
    many, out = before.copy(), before[0].copy()
    multiply(many, x, w, np.empty(panel_size(depth), dtype), add)
    times(out, x[0], w, add)
    np.testing.assert_array_equal(out, many[0])
    np.testing.assert_array_equal(out, naive.product(x[:1], w, before[:1] if add else None)[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", [0, 1, (DEPTH - 1) // ROWS, DEPTH // ROWS])
def test_attention_over_long_contexts_sums_by_panels(block, dtype):
    """Over the tokens up to a row's own, and from it on: panels begin at the same tokens for all."""
    T, d, r = DEPTH + 5, 2, block * ROWS
    R, C, E = padded(T, d)
    draw = np.random.default_rng(block)
    weights, b = np.zeros((R, C), dtype), np.zeros((R, E), dtype)
    weights[:T, :T] = np.tril(draw.normal(size=(T, T)))
    b[:T, :d] = draw.normal(size=(T, d))
    rows = [r, min(r + ROWS, T) - 1]
    out = np.full((R, E), np.nan, dtype)
    gather_rows(out, weights, b, r)
    np.testing.assert_array_equal(out[rows, :d], naive.product(weights[rows, :R], b[:, :d]))
    gather_columns(out, weights, b, r)
    np.testing.assert_array_equal(out[rows, :d], naive.product(weights[:, rows].T, b[:, :d]))
