"""Working memory: kept, grown and aligned; one memory for all shapes of a name, and none for two owners."""

import numpy as np

from samebits.arithmetic.arrays import LINE
from samebits.devices.cpu.scratch import MOST_VIEWS, Scratch
from samebits.devices.cpu.workers import Workers


def test_buffers_are_kept_aligned_and_grown():
    scratch = Workers(2).scratch("us")
    first = scratch.buffer("a", (10, 3), np.float32)
    first[:] = 7
    assert scratch.buffer("a", (5, 3), np.float32)[0, 0] == 7
    assert scratch.buffer("a", (1000, 3), np.float64).shape == (1000, 3)
    rows = scratch.per_worker("b", 33, np.float32)
    assert rows.shape == (2, 33)
    assert rows.ctypes.data % LINE == 0


def test_a_buffer_that_grew_is_one_memory_for_all_its_shapes():
    scratch = Scratch(1)
    scratch.buffer("a", (2, 3), np.float32)
    grown = scratch.buffer("a", (4, 3), np.float32)
    grown[:] = 5
    assert (scratch.buffer("a", (2, 3), np.float32) == 5).all()


def test_the_same_is_given_out_every_step():
    """A step asks for dozens of them: making a view anew costs more than looking it up. Not without end, though."""
    scratch = Scratch(1)
    first = scratch.buffer("a", (2, 3), np.float32)
    assert scratch.buffer("a", (2, 3), np.float32) is first
    for size in range(3 * MOST_VIEWS):
        scratch.buffer("a", (1 + size % (2 * MOST_VIEWS),), np.float32)
        assert len(scratch._views) <= MOST_VIEWS


def test_two_owners_never_share_memory():
    """Not even under one name, of one shape, and after either has grown."""
    with Workers(2) as workers:
        for size in (8, 100, 50, 1000):
            one = workers.scratch("one").buffer("a", (size,), np.float32)
            two = workers.scratch("two").buffer("a", (size // 2, 2), np.float32)
            mine, yours = (workers.scratch(owner).per_worker("b", size, np.int64) for owner in ("one", "two"))
            assert not np.shares_memory(one, two)
            assert not np.shares_memory(mine, yours)
            one[:], two[:] = 1, 2
            assert (one == 1).all()
            assert np.shares_memory(workers.scratch("one").buffer("a", (size,), np.float32), one)
        assert workers.scratch("one") is workers.scratch("one")
