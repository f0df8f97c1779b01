import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.arithmetic import rng
from samebits.arithmetic.rng import Purpose

WORD = st.integers(0, 2**64 - 1)


@pytest.mark.jit_off
@settings(max_examples=200, deadline=None)
@given(st.tuples(WORD, WORD, WORD, WORD), st.tuples(WORD, WORD))
def test_philox_is_numpys_word_for_word(counter, key):
    # NumPy steps its 256-bit counter before the first block, so it is started one below.
    number = sum(word << (64 * i) for i, word in enumerate(counter))
    before = (number - 1) % 2**256
    words = [(before >> (64 * i)) & (2**64 - 1) for i in range(4)]
    theirs = np.random.Philox(counter=np.array(words, np.uint64), key=np.array(key, np.uint64)).random_raw(4)
    ours = rng.philox(*map(np.uint64, counter), *map(np.uint64, key))
    assert list(ours) == theirs.tolist()


@pytest.mark.jit_off
def test_words_are_philox_at_their_indices():
    drawn = rng.words((3, 6), seed=9, purpose=Purpose.RENDER, step=5, index=7, extra=2)
    for row in range(3):
        for block in range(2):
            counter = [np.uint64(x) for x in (block, 2, 7 + row, 5)]
            expected = rng.philox(*counter, np.uint64(9), np.uint64(Purpose.RENDER))
            assert drawn[row, 4 * block : 4 * block + 4].tolist() == list(expected)[: 6 - 4 * block]


def test_a_row_does_not_depend_on_how_many_are_drawn():
    many = rng.bits((5, 100), 3, Purpose.BATCH, 11)
    alone = rng.bits((1, 100), 3, Purpose.BATCH, 11, index=4)
    np.testing.assert_array_equal(many[4], alone[0])


@pytest.mark.parametrize(
    "changed", [{"seed": 2}, {"purpose": Purpose.EVALUATION}, {"step": 1}, {"index": 1}, {"extra": 1}]
)
def test_every_index_matters(changed):
    base = {"seed": 1, "purpose": Purpose.BATCH, "step": 0, "index": 0, "extra": 0}
    assert not np.array_equal(rng.words((1, 8), **base), rng.words((1, 8), **{**base, **changed}))


def test_integers_cover_their_range_evenly():
    drawn = rng.integers((1, 60_000), 6, 0, Purpose.BATCH, 0)
    counts = np.bincount(drawn[0], minlength=6)
    assert counts.size == 6
    assert abs(counts - 10_000).max() < 500  # five standard deviations


def test_bits_are_fair():
    assert abs(rng.bits((1, 100_000), 0, Purpose.BATCH, 0).mean() - 0.5) < 0.01
