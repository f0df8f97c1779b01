from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.engine import merge
from samebits.engine.family import Wave
from samebits.engine.merge import TreeSum, sum_tree
from samebits.engine.units import near_equal, plan_waves
from samebits.engine.workers import Workers
from samebits.errors import SamebitsError
from tests import naive


def rows_of(units, width, seed=0):
    # Magnitudes far apart: any other order of additions shows in the last bits.
    draw = np.random.default_rng(seed)
    return (draw.normal(size=(units, width)) * 10.0 ** draw.integers(-6, 6, (units, width))).astype(np.float32)


def folded(rows, cuts, workers):
    total = TreeSum(rows.shape[1], len(rows), rows.dtype)
    for start, end in pairwise(cuts):
        total.push(rows[start:end].copy(), workers)
    return root_of(total, workers).copy()


def root_of(total, workers):
    root = total.finish(workers)
    workers.join()
    return root


@pytest.mark.jit_off
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.data())
def test_any_waves_give_the_bits_of_the_tree(units, data):
    cuts = sorted({0, units, *data.draw(st.lists(st.integers(0, units), max_size=5))})
    rows = rows_of(units, 7, seed=units)
    with Workers(1) as workers:
        np.testing.assert_array_equal(folded(rows, cuts, workers), naive.tree_sum(rows))


NARROW, WIDE = 3 * merge.SLICE + 17, 64 * merge.WIDE_SLICE + 17


@pytest.mark.parametrize(
    ("units", "width"), [(units, NARROW) for units in (1, 2, 3, 5, 7, 16, 33)] + [(5, WIDE), (8, WIDE)]
)
def test_workers_do_not_change_the_sum(units, width, monkeypatch):
    monkeypatch.setattr(merge, "LITTLE", 0)  # make even small sums go through the pool
    rows = rows_of(units, width)
    expected = naive.tree_sum(rows)
    for count in (1, 2, 3, 5):
        with Workers(count) as workers:
            np.testing.assert_array_equal(folded(rows, [0, units], workers), expected)


@pytest.mark.jit_off
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 4), st.data())
def test_rows_folded_as_they_come_give_the_bits_of_the_tree(units, levels, data):
    """Waves of any size, and in each the units ready in any order."""
    cuts = sorted({0, units, *data.draw(st.lists(st.integers(0, units), max_size=5))})
    rows = rows_of(units, 7, seed=units)
    with Workers(1) as workers:
        total = TreeSum(7, units, rows.dtype)
        for start, end in pairwise(cuts):
            wave, arrivals = np.full_like(rows[start:end], np.nan), workers.counters(end - start)
            for unit in data.draw(st.permutations(range(end - start))):
                row = np.full(7, np.nan, rows.dtype) if merge.is_awaited(arrivals, unit, start) else wave[unit]
                row[:] = rows[start + unit]
                merge.fold_up(wave, row, arrivals, unit, start, levels)
            total.push(wave, workers, levels)
        np.testing.assert_array_equal(root_of(total, workers), naive.tree_sum(rows))


def test_the_tree_is_not_a_plain_sum():
    rows = rows_of(9, 1000)
    assert not np.array_equal(naive.tree_sum(rows), np.add.accumulate(rows)[-1])


def test_a_sum_is_ready_again_after_finish():
    rows = rows_of(6, 5)
    with Workers(1) as workers:
        total = TreeSum(5, 6, np.float32)
        for _ in range(2):
            total.push(rows.copy(), workers)
            np.testing.assert_array_equal(root_of(total, workers), naive.tree_sum(rows))


def test_too_many_units_are_refused():
    with Workers(1) as workers, pytest.raises(ValueError, match="made for fewer"):
        TreeSum(3, 3, np.float32).push(rows_of(4, 3), workers)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 70))
def test_sum_tree_is_the_same_tree(count):
    values = rows_of(count, 1)[:, 0].astype(np.float64)
    assert sum_tree(values.copy()) == naive.tree_sum(values)


def test_waves_cover_all_groups_once_and_fit():
    units = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    megabyte = 1 << 20
    waves = plan_waves(units, unit_bytes=megabyte, group_bytes=megabyte, slot_memory=11)
    assert waves[0].first_group == 0
    assert waves[-1] == Wave(waves[-1].first_group, 8, waves[-1].first_unit, 31)
    for before, after in pairwise(waves):
        assert (before.last_group, before.last_unit) == (after.first_group, after.first_unit)
    for wave in waves:
        assert wave.last_unit - wave.first_unit + wave.last_group - wave.first_group <= 11


@pytest.mark.parametrize(("parts", "expected"), [(1, 1), (3, 3), (4, 4), (9, 8)])
def test_micro_batches_are_that_many_waves(parts, expected):
    assert len(plan_waves(np.ones(8, int), 1, 1, 256, parts)) == expected


def test_one_group_too_large_is_a_clear_error():
    with pytest.raises(SamebitsError, match=r"slot_memory is 2 MB; .* needs 5 MB; set slot_memory to at least 5"):
        plan_waves(np.array([1, 4]), 1 << 20, 1 << 20, 2)


def test_near_equal():
    assert near_equal(196, 4).tolist() == [0, 49, 98, 147, 196]
    assert near_equal(20, 7).tolist() == [0, 2, 5, 8, 11, 14, 17, 20]
