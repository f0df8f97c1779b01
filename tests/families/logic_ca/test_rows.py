"""Tables of automata for groups of threads, without a device; tests/gpu/test_automata.py has their bits."""

import numpy as np
import pytest

from samebits.errors import SamebitsError
from samebits.families.logic_ca.rows import FIELD, _words, ordered


def test_rows_that_read_the_same_colour_are_kept_apart():
    colours = np.array([[0], [0], [0], [0], [1], [1], [1], [1]])
    sequence = ordered(colours, 1, 2)
    assert sorted(sequence) == list(range(8))
    assert all(len({int(colours[row, 0]) for row in sequence[i : i + 2]}) == 2 for i in range(0, 8, 2))


def test_a_circuit_that_is_too_large_for_a_row_is_refused():
    largest = (1 << FIELD) - 1
    assert int(_words(np.array([[largest, 1, 2]]))[0]) == largest + (1 << FIELD) + (2 << 2 * FIELD)
    with pytest.raises(SamebitsError, match=r"2,097,152 places .* --device cpu"):
        _words(np.array([[largest + 1, 0, 0]]))
