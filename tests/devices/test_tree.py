import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.arithmetic.tree import sum_tree
from samebits.devices.cpu import tree as merge
from samebits.devices.cpu.tree import Node, TreeSum
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.training.contract import Wave
from samebits.training.units import near_equal, plan_waves
from tests import naive


def rows_of(units, width, seed=0):
    # Magnitudes far apart: any other order of additions shows in the last bits.
    draw = np.random.default_rng(seed)
    return (draw.normal(size=(units, width)) * 10.0 ** draw.integers(-6, 6, (units, width))).astype(np.float32)


def folded(rows, cuts, workers):
    total = TreeSum(workers, rows.shape[1], len(rows), rows.dtype)
    for start, end in pairwise(cuts):
        total.push(rows[start:end].copy(), end - start)
    return root_of(total, workers).copy()


def root_of(total, workers):
    root = total.finish()
    workers.join()
    return root


@pytest.mark.jit_off
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.data())
def test_any_waves_give_the_bits_of_the_tree(units, data):
    rows = rows_of(units, 7, seed=units)
    with Workers(1) as workers:
        np.testing.assert_array_equal(folded(rows, cuts_of(data, 0, units), workers), naive.tree_sum(rows))


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
    rows = rows_of(units, 7, seed=units)
    with Workers(1) as workers:
        total = TreeSum(workers, 7, units, rows.dtype)
        for start, end in pairwise(cuts_of(data, 0, units)):
            total.push(folded_wave(rows, start, end, levels, data, workers), end - start, levels)
        np.testing.assert_array_equal(root_of(total, workers), naive.tree_sum(rows))


@pytest.mark.jit_off
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.integers(0, 3), st.data())
def test_sums_of_any_ranges_make_the_bits_of_the_tree(units, levels, data):
    """Each range by a sum of its own, in waves; one that begins at 0 takes in the few nodes each has left."""
    rows = rows_of(units, 7, seed=units)
    with Workers(1) as workers:
        whole = TreeSum(workers, 7, units, rows.dtype)
        for begin, end in pairwise(cuts_of(data, 0, units)):
            part = TreeSum(workers, 7, units, rows.dtype)
            part.start(begin)
            for start, stop in pairwise(cuts_of(data, begin, end)):
                part.push(folded_wave(rows, start, stop, levels, data, workers), stop - start, levels)
            for node in nodes_of(part, workers, begin, end):
                np.testing.assert_array_equal(node.row, naive.tree_sum(rows[slice(*node.units)]))
                whole.take(node)
        np.testing.assert_array_equal(root_of(whole, workers), naive.tree_sum(rows))


@pytest.mark.jit_off
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 70), st.data())
def test_a_sum_that_begins_anywhere_takes_in_nodes_too(units, data):
    """Sums of sums: the nodes of neighbouring ranges, in any mixture with rows, become those of their union."""
    rows = rows_of(units, 7, seed=units)
    begin = data.draw(st.integers(0, units - 1))
    with Workers(1) as workers:
        both = TreeSum(workers, 7, units, rows.dtype)
        both.start(begin)
        for start, stop in pairwise(cuts_of(data, begin, units)):
            if data.draw(st.booleans()):
                both.push(rows[start:stop].copy(), stop - start)
                continue
            part = TreeSum(workers, 7, units, rows.dtype)
            part.start(start)
            part.push(rows[start:stop].copy(), stop - start)
            for node in nodes_of(part, workers, start, stop):
                both.take(node)
        for node in nodes_of(both, workers, begin, units):
            np.testing.assert_array_equal(node.row, naive.tree_sum(rows[slice(*node.units)]))


def cuts_of(data, begin, end):
    return sorted({begin, end, *data.draw(st.lists(st.integers(begin, end), max_size=5))})


def folded_wave(rows, start, end, levels, data, workers):
    """The rows of these units, ready in any order, and folded as they come."""
    wave, arrivals = np.full_like(rows[start:end], np.nan), workers.counters(end - start)
    for unit in data.draw(st.permutations(range(end - start))):
        row = np.full(rows.shape[1], np.nan, rows.dtype) if merge.is_awaited(arrivals, unit, start) else wave[unit]
        row[:] = rows[start + unit]
        merge.fold_up(wave, row, arrivals, unit, start, levels)
    return wave


def nodes_of(part, workers, begin, end):
    """Copies of what the sum over these units hands out: side by side, and as few as can be."""
    workers.join()
    nodes = [Node(node.level, node.place, node.row.copy()) for node in part.nodes()]
    ends = [begin, *(node.units[1] for node in nodes)]
    assert [node.units[0] for node in nodes] == ends[:-1]
    assert ends[-1] == end
    assert len(nodes) == naive.fewest_nodes(begin, end) <= max(1, 2 * math.log2(end - begin))
    return nodes


def test_the_tree_is_not_a_plain_sum():
    rows = rows_of(9, 1000)
    assert not np.array_equal(naive.tree_sum(rows), np.add.accumulate(rows)[-1])


def test_a_sum_is_ready_again_after_finish():
    rows = rows_of(6, 5)
    with Workers(1) as workers:
        total = TreeSum(workers, 5, 6, np.float32)
        for _ in range(2):
            total.push(rows.copy(), len(rows))
            np.testing.assert_array_equal(root_of(total, workers), naive.tree_sum(rows))


def test_too_many_units_are_refused():
    with Workers(1) as workers, pytest.raises(ValueError, match="made for fewer"):
        TreeSum(workers, 3, 3, np.float32).push(rows_of(4, 3), 4)


def test_a_node_that_does_not_begin_where_the_sum_ends_is_refused():
    with Workers(1) as workers:
        total = TreeSum(workers, 3, 16, np.float32)
        total.push(rows_of(4, 3), 4)
        for place, first in ((0, 0), (2, 8)):
            with pytest.raises(ValueError, match=f"the node begins at unit {first}; this sum ends at 4"):
                total.take(Node(2, place, rows_of(1, 3)[0]))
        total.take(Node(2, 1, rows_of(1, 3)[0]))
        assert (total.begin, total.end) == (0, 8)


def test_only_a_sum_that_begins_at_0_has_a_root():
    rows = rows_of(6, 3)
    with Workers(1) as workers:
        total = TreeSum(workers, 3, 8, np.float32)
        total.start(2)
        total.push(rows[2:], len(rows) - 2)
        with pytest.raises(ValueError, match="this sum begins at unit 2; only one that begins at 0 has a root"):
            total.finish()
        total.start()
        total.push(rows, len(rows))
        np.testing.assert_array_equal(root_of(total, workers), naive.tree_sum(rows))


@pytest.mark.parametrize(("begin", "end"), [(1, 12), (5, 33), (16, 17)])
def test_workers_do_not_change_the_nodes(begin, end, monkeypatch):
    monkeypatch.setattr(merge, "LITTLE", 0)
    rows = rows_of(end, NARROW)
    for count in (1, 2, 3, 5):
        with Workers(count) as workers:
            part = TreeSum(workers, NARROW, end, np.float32)
            part.start(begin)
            part.push(rows[begin : begin + 1].copy(), 1)
            part.push(rows[begin + 1 :].copy(), len(rows) - begin - 1)
            for node in nodes_of(part, workers, begin, end):
                np.testing.assert_array_equal(node.row, naive.tree_sum(rows[slice(*node.units)]))


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
