"""The fuzzer, briefly: some inputs of every kind, those that once found something, and what is planted is seen."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator

import pytest

from tests.fuzz import bases as prepared
from tests.fuzz.child import attempted
from tests.fuzz.kinds import Outcome, draw_of, drawn_kind, load
from tests.fuzz.parent import Found, Plan, fuzz
from tests.fuzz.regressions import REGRESSIONS

SEEDS = range(12)
LIMIT = 60  # seconds an input may take, compiling included
PLANTED = ("planted-crash", "planted-good", "planted-hang", "planted-traceback")


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """The small runs that inputs copy."""
    with prepared.short_work():
        yield prepared.make(tmp_path_factory.mktemp("bases"))


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """A loop that does not end is a failure here, not a test run that does not end."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ends_well(kind: str, seed: int, bases: prepared.Bases) -> Outcome:
    with limited(LIMIT):
        result = attempted(kind, seed, bases)
    assert result.finding is None, f"python -m tests.fuzz --once {kind}:{seed}\n{result.finding.told}"
    return result.outcome


@pytest.mark.parametrize("kind", sorted(load()))
def test_inputs_end_well(bases, kind):
    """And a kind whose inputs are all refused alike would test little."""
    outcomes = [ends_well(kind, seed, bases) for seed in SEEDS]
    assert all(one.accepted + one.refused for one in outcomes)
    assert len({one.told for one in outcomes}) > 1


@pytest.mark.parametrize(("kind", "seed"), REGRESSIONS, ids=[f"{kind}:{seed}" for kind, seed in REGRESSIONS])
def test_what_once_found_something(bases, kind, seed):
    ends_well(kind, seed, bases)


def test_an_input_is_a_function_of_its_seed(bases):
    """So that --once shows what a run of minutes saw: bases made twice are the same bytes, and draws are the same."""
    assert draw_of("state", 7).random() == draw_of("state", 7).random() != draw_of("state", 8).random()
    told = [attempted("config-values", seed, bases).outcome.told for seed in (1, 1)]
    assert told[0] == told[1]


def test_bases_hold_nothing_of_this_machine(bases, tmp_path):
    again = prepared.make(tmp_path)
    for name in prepared.BASES:
        files = sorted(path.relative_to(bases.folder) for path in (bases.folder / name).rglob("*") if path.is_file())
        assert files
        for file in files:
            assert (bases.folder / file).read_bytes() == (again.folder / file).read_bytes(), file


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Found:
    """A run of the fuzzer over seeds that draw everything planted, by a child that dies and hangs."""
    load(["tests.fuzz.planted"])
    first = next(seed for seed in range(1000) if {drawn_kind(seed + i, PLANTED) for i in range(4)} == set(PLANTED))
    folder = tmp_path_factory.mktemp("planted")
    plan = Plan(folder, time.time() + 120, 1, limit=1.0, kinds=PLANTED, also=("tests.fuzz.planted",), last=first + 3)
    return fuzz(plan, first)


def test_the_fuzzer_goes_on_after_what_it_finds(planted):
    assert planted.inputs == 4
    assert planted.tallies["planted-good"].accepted == 1


@pytest.mark.parametrize(
    ("sort", "what", "where"),
    [
        ("traceback", "AttributeError", "config.py:"),
        ("crash", "SIGABRT", "outside samebits"),
        ("hang", "no end", "outside samebits"),
    ],
)
def test_the_fuzzer_sees_what_is_planted(planted, sort, what, where):
    found = [finding for finding in planted.findings.values() if finding.sort == sort]
    assert len(found) == 1
    assert found[0].what == what
    assert found[0].where.startswith(where)
    assert found[0].input.startswith(f"planted-{sort}:")
    assert planted.tallies[f"planted-{sort}"].sorts[sort] == 1
