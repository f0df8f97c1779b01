"""Every family and task found, for the contract tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from samebits.families import discover


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `family` and `task` runs for every task of every family found."""
    if {"family", "task"} <= set(metafunc.fixturenames):
        pairs = [(family, task) for family in discover().values() for task in family.tasks]
        metafunc.parametrize(("family", "task"), pairs, ids=[f"{family.name}-{task}" for family, task in pairs])


# Tests of half a minute each. The last of them must not begin when all others are done, and the first should not
# before kernels that all share are compiled: they begin in the middle of the last part of the list that a process gets.
LONG = ("tests/test_docs.py", "tests/test_new_family.py", "tests/test_outside_family.py", "tests/test_sweep.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    long = [item for item in items if item.nodeid.startswith(LONG)]
    short = [item for item in items if not item.nodeid.startswith(LONG)]
    place = len(short) * 3 // 4
    items[:] = short[:place] + long + short[place:]


@pytest.fixture(scope="session", autouse=True)
def short_turns() -> Iterator[None]:
    """What is timed in a test is not looked at: no need to wait until caches are warm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("samebits.bench.contest.LEAST_SECONDS", 0.0)
        yield


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises, as on a terminal; a process started in the background would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
