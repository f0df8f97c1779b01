"""total, dot and wide_squares read memory from an address on; what they would misread is refused by the compiler."""

import numpy as np
import pytest
from numba.core.errors import TypingError

from samebits.arithmetic.simd import dot, total, wide_squares
from samebits.compiler.jit import kernel

TABLE = np.arange(80.0).reshape(40, 2)


@kernel
def total_of(x):
    return total(x)


@kernel
def dot_of(x, y):
    return dot(x, y)


@kernel
def squares_of(x):
    return wide_squares(x)


@pytest.mark.parametrize(
    ("sum_of", "rows"),
    [
        (total_of, [TABLE[:, 0]]),
        (total_of, [TABLE]),
        (squares_of, [TABLE[:, 0]]),
        (dot_of, [TABLE[0], TABLE.T[0]]),
        (dot_of, [TABLE[0], TABLE[0].astype(np.float32)]),
    ],
)
def test_what_is_no_contiguous_row_of_one_type_is_refused(sum_of, rows):
    with pytest.raises(TypingError, match="takes contiguous vectors of one type, not array"):
        sum_of(*rows)


def test_rows_of_a_table_are_taken():
    assert total_of(TABLE[7]) == 29
    assert dot_of(TABLE[7], TABLE[0]) == 15
    assert squares_of(TABLE[1].astype(np.float32)) == 13
