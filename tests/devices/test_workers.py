import faulthandler
import sys
import threading
import time

import numpy as np
import pytest

from samebits.arithmetic.arrays import LINE
from samebits.compiler.cores import available_cores
from samebits.compiler.jit import kernel
from samebits.devices.cpu.pool import worker_count
from samebits.devices.cpu.sync import NONE_LEFT, PAD, claim, fetch_add, finish, take, unit_at, wait_for
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.printing import shown
from tests.helpers import TIMEOUT


class Watchdog:
    """Ends the program, with a traceback of every thread, if what is inside takes for ever: a worker that waits in
    compiled code hears no exception. No result depends on how long it is."""

    def __enter__(self):
        faulthandler.dump_traceback_later(TIMEOUT, exit=True, file=sys.__stderr__)

    def __exit__(self, *ignored):
        faulthandler.cancel_dump_traceback_later()


@kernel
def count_tickets(worker, tickets, seen):
    while True:
        task = claim(tickets)
        if task >= seen.size:
            break
        seen[task] += 1


@kernel
def chain(worker, claims, progress, values, levels):
    """Unit u at level l becomes the sum of all units at level l − 1: wrong unless every dependency is waited for."""
    units = values.shape[1]
    level = cursor = 0
    while level < levels:
        cursor = take(claims, level, cursor, worker)
        if cursor == units:
            level, cursor = level + 1, 0
            continue
        u = unit_at(cursor, worker, units)
        wait_for(progress, 0, level * units)
        values[level + 1, u] = values[level].sum() % 1_000_003 + u
        finish(progress, 0)


@pytest.mark.jit_off
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_ticket_is_taken_once(count):
    seen = np.zeros(5000, np.int64)
    with Workers(count) as workers:
        workers.run(count_tickets, workers.tickets(), seen)
    assert set(seen.tolist()) == {1}


@pytest.mark.jit_off
@pytest.mark.parametrize("count", [1, 2, 3, 5, 16])
def test_levels_wait_for_each_other(count):
    levels, units = 300, 7
    expected = np.zeros((levels + 1, units), np.int64)
    expected[0] = np.arange(units)
    for level in range(levels):
        expected[level + 1] = expected[level].sum() % 1_000_003 + np.arange(units)
    values = np.zeros_like(expected)
    values[0] = expected[0]
    with Workers(count) as workers:
        workers.run(chain, workers.counters(units), workers.counters(1), values, levels)
    np.testing.assert_array_equal(values, expected)


@kernel
def mark(worker, here, out, value):
    """Nobody leaves before everybody has come: a post is closed by the first who does."""
    finish(here, 0)
    wait_for(here, 0, out.size)
    out[worker] += value


@kernel
def break_in(worker, here, everybody, broken):
    finish(here, 0)
    wait_for(here, 0, everybody)
    if worker == broken:
        raise ValueError("broken")


@kernel
def append(worker, tickets, text, length, value):
    """The next place of `text` is `value`: wrong if two bodies run at once."""
    if claim(tickets) == 0:
        text[length[0]] = value
        length[0] += 1


@kernel
def linger(worker, tickets, out):
    """Tasks that take a while."""
    while True:
        task = claim(tickets)
        if task >= out.size:
            break
        total = 0.0
        for i in range(2000):
            total += np.sqrt(float(i + task))
        out[task] = total


@kernel
def sum_up(worker, tickets, sums, values, place):
    """And leave nothing behind."""
    if claim(tickets) == 0:
        sums[place] = values.sum()
        values[:] = 0


@kernel
def answer(worker, out):
    return out[worker]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_worker_runs_a_body_once_awake_or_asleep(count):
    out = np.zeros(count, np.int64)
    with Workers(count) as workers:
        for _ in range(200):
            workers.run(mark, workers.counters(1), out, 1)
        time.sleep(0.05)  # longer than anybody spins
        workers.run(mark, workers.counters(1), out, 1)
        met = threading.Barrier(count)
        workers.run(lambda worker: (met.wait(), out.__setitem__(worker, out[worker] + 1)))  # and through Python
        workers.run(mark, workers.counters(1), out, 1)
    with workers:  # a team may work again
        workers.run(mark, workers.counters(1), out, 1)
    assert set(out.tolist()) == {204}


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_posts_run_one_after_another_in_their_order(count):
    """More of them than the ring holds, some for one worker alone, some with Python between them."""
    text, length = np.full(200, -1), np.zeros(1, np.int64)
    with Workers(count) as workers:
        for value in range(199):
            workers.post(append, workers.tickets(), text, length, value, alone=value % 3 == 0)
            if value % 50 == 0:
                time.sleep(0.002)
        workers.join()
        assert text[:199].tolist() == list(range(199))
        workers.run(append, workers.tickets(), text, length, 199)
    assert text[199] == 199


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_post_begins_when_all_who_came_have_left_the_one_before(count):
    tasks, values, sums = 40, np.zeros(40), np.zeros(100)
    expected = sum(float(np.sqrt(np.arange(task, task + 2000.0)).sum()) for task in range(tasks))
    with Workers(count) as workers:
        for place in range(sums.size):
            workers.post(linger, workers.tickets(), values)
            workers.post(sum_up, workers.tickets(), sums, values, place)
        workers.join()
    np.testing.assert_allclose(sums, expected)


@kernel
def count_up(worker, entries, out):
    """Long enough for another one to come, if it may."""
    fetch_add(entries, 0, 1)
    for i in range(out.size):
        out[i] = np.sqrt(float(i))


def test_little_work_is_for_one_worker_alone():
    entries, out = np.zeros(1, np.int64), np.zeros(20_000)
    with Workers(2) as workers:
        for _ in range(300):
            workers.post(count_up, entries, out, alone=True)
            workers.post(count_up, entries, out[:1])  # wakes the other one
        workers.join()
        assert 600 <= entries[0] <= 900
        entries[0] = 0
        for _ in range(300):
            workers.post(count_up, entries, out, alone=True)
        workers.join()
    assert entries[0] == 300


@pytest.mark.parametrize("count", [2, 3, 5])
def test_little_work_is_shared_by_those_who_are_told_to(count):
    """The body returns only when all have come; alone, it would wait for ever."""
    out = np.zeros(count, np.int64)
    with Watchdog(), Workers(count, share_little=True) as workers:
        for _ in range(20):
            workers.run(mark, workers.counters(1), out, 1, alone=True)
            workers.post(mark, workers.counters(1), out, 1, alone=True)
            workers.join()
    assert set(out.tolist()) == {40}


def test_nobody_waits_for_a_worker_that_does_not_come(monkeypatch):
    seen = np.zeros(100, np.int64)
    monkeypatch.setattr(Workers, "_serve", lambda *args: None)  # two of its threads are gone at once
    with Watchdog(), Workers(3) as workers:
        workers.run(count_tickets, workers.tickets(), seen)
    assert set(seen.tolist()) == {1}


def test_arguments_live_until_their_post_is_over():
    """The caller has let go of them long before."""
    sums = np.zeros(12)
    with Workers(2) as workers:
        for place in range(12):
            values = np.full(50_000, float(place))
            workers.post(linger, workers.tickets(), np.empty(40))
            workers.post(sum_up, workers.tickets(), sums, values, place)
            del values
            np.full(50_000, -1.0)  # takes the memory if it is free
        workers.join()
    assert sums.tolist() == [50_000.0 * place for place in range(12)]


def test_what_an_error_left_posted_is_worked_off():
    seen = np.zeros(100, np.int64)

    def stop_halfway():
        with Workers(2) as workers:
            workers.post(count_tickets, workers.tickets(), seen)
            raise KeyError

    with pytest.raises(KeyError):
        stop_halfway()
    assert set(seen.tolist()) == {1}


def test_a_body_is_compiled_for_each_kind_of_arguments():
    with Workers(3) as workers:
        for value in (2, 0.5, 2, 0.5):
            for dtype in (np.float32, np.float64, np.int64):
                out = np.zeros(3, dtype)
                workers.run(mark, workers.counters(1), out, value)
                assert set(out.tolist()) == {dtype(value)}


@pytest.mark.parametrize("broken", [0, 2])
def test_an_error_in_compiled_code_reaches_the_caller(broken):
    with Workers(3) as workers:
        with pytest.raises(RuntimeError) as caught:
            workers.run(break_in, workers.counters(1), 3, broken)
        assert str(caught.value) == "break_in raised an error in 1 of 3 workers: ValueError: broken"
        assert isinstance(caught.value.__cause__, ValueError)
        assert caught.value.__cause__.args == ("broken",)
        workers.run(break_in, workers.counters(1), 3, 7)


@kernel
def break_with_a_value(worker, tickets, value):
    if claim(tickets) == 0:
        raise IndexError(value)


def test_an_error_made_while_it_ran_is_named_without_its_words():
    """Numba makes its arguments only for a caller of its own."""
    with Workers(2) as workers:
        with pytest.raises(RuntimeError) as caught:
            workers.run(break_with_a_value, workers.tickets(), 5)
        assert str(caught.value) == "break_with_a_value raised an error in 1 of 2 workers"
        assert caught.value.__cause__ is None


@kernel
def break_while_others_wait(worker, here, never, done, everybody, broken):
    """All come; one raises; the others wait for what will not be, and would then write."""
    finish(here, 0)
    wait_for(here, 0, everybody)
    if worker == broken:
        raise ValueError("broken")
    wait_for(never, 0, 1)
    done[worker] += 1


@kernel
def break_while_others_take(worker, here, tickets, claims, seen, everybody, broken):
    """All come; one raises; the others go on taking tickets and claims until they get none."""
    finish(here, 0)
    wait_for(here, 0, everybody)
    if worker == broken:
        raise ValueError("broken")
    while claim(tickets) < NONE_LEFT:
        seen[worker] += 1
    level = 0
    while take(claims, level, 0, 0) < claims.size // PAD:
        seen[worker] += 1
        level += 1


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("broken", [0, 1])
def test_an_error_hangs_nobody_who_waits(count, broken):
    done = np.zeros(count, np.int64)
    with Watchdog(), Workers(count) as workers:
        for _ in range(5):
            args = workers.counters(1), workers.counters(1), done, count, broken
            with pytest.raises(RuntimeError, match=f"in 1 of {count} workers: ValueError: broken"):
                workers.run(break_while_others_wait, *args)
        out = np.zeros(count, np.int64)
        workers.run(mark, workers.counters(1), out, 1)  # and the team still works
        assert set(out.tolist()) == {1}


@pytest.mark.parametrize("broken", [0, 1])
def test_an_error_stops_those_who_take_tasks(broken):
    seen = np.zeros(3, np.int64)
    with Watchdog(), Workers(3) as workers:
        for _ in range(5):
            args = workers.counters(1), workers.tickets(), workers.counters(4), seen, 3, broken
            with pytest.raises(RuntimeError, match="in 1 of 3 workers: ValueError: broken"):
                workers.run(break_while_others_take, *args)
        again = np.zeros(5000, np.int64)
        workers.run(count_tickets, workers.tickets(), again)
        assert set(again.tolist()) == {1}


def test_an_error_stops_what_is_posted_after_it_and_is_told_by_its_own_name():
    """What comes after worked on what it left; it is none of the caller's results."""
    seen = np.zeros(5000, np.int64)
    with Watchdog(), Workers(2) as workers:
        workers.post(count_tickets, workers.tickets(), seen)
        workers.post(break_in, workers.counters(1), 2, 1)
        workers.post(count_tickets, workers.tickets(), seen)
        with pytest.raises(RuntimeError, match="break_in raised an error in 1 of 2 workers"):
            workers.join()
        assert set(seen.tolist()) == {1}
        workers.run(count_tickets, workers.tickets(), seen)
        assert set(seen.tolist()) == {2}


@kernel
def break_at_once(worker, value):
    raise KeyError(value)


def test_of_several_errors_the_first_is_told():
    """What is posted after an error may break over what it left."""
    with Watchdog(), Workers(2) as workers:
        workers.post(break_in, workers.counters(1), 2, 1)
        workers.post(break_at_once, 5)
        with pytest.raises(RuntimeError, match=r"break_in raised an error .*: ValueError: broken"):
            workers.join()


def test_a_body_that_returns_something_is_refused():
    with Workers(2) as workers, pytest.raises(TypeError, match="answer returns something"):
        workers.run(answer, np.zeros(2))


def test_an_error_in_any_worker_reaches_the_caller():
    met = threading.Barrier(3)

    def body(worker):
        met.wait()
        if worker == 2:
            raise RuntimeError("worker 2 broke")

    with Workers(3) as workers:
        with pytest.raises(RuntimeError, match="worker 2 broke"):
            workers.run(body)
        workers.run(lambda worker: None)  # and the team still works


def test_counters_have_a_cache_line_each():
    workers = Workers(3)
    assert workers.counters(3).size == 3 * PAD
    assert workers.schedule.workers == 3
    assert workers.schedule.clock.shape == (3, PAD)
    assert workers.schedule.clock.ctypes.data % LINE == 0


BAD = ["0", "-1", "abc", "", "1.5", "99999", "9" * 5000, 0, -1, 4097, 10**5000, 2.0, True, None, b"2", [2], object()]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: shown(bad)[:20])
def test_bad_counts_are_named(bad):
    with pytest.raises(SamebitsError, match=r"workers is .*it must be 'auto' or a whole number"):
        worker_count(bad)


def test_auto_is_the_cores_of_this_process():
    assert worker_count("auto") == available_cores() >= 1
    assert worker_count(" 7 ") == worker_count("007") == worker_count(7) == worker_count(np.int8(7)) == 7
