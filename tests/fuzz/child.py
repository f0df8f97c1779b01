"""Working through inputs, in a process that may die of one: before each it says which, after each how it ended.

python -m tests.fuzz.child BASES REPORT_FD UNTIL FIRST STRIDE LAST KINDS ALSO
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from tests.fuzz.bases import Bases, short_work
from tests.fuzz.judge import frame_of
from tests.fuzz.kinds import KINDS, BrokenRuleError, Outcome, draw_of, drawn_kind, load

MEMORY = 8 << 30  # bytes of address space: what asks for more gets a MemoryError, not the machine


class Finding(NamedTuple):
    """What should not have happened. Two are the same when sort, what and where are."""

    sort: str  # traceback, crash or hang
    what: str  # an exception's type, a signal, a broken rule
    where: str  # the innermost frame of samebits
    input: str  # KIND:SEED
    told: str


class Result(NamedTuple):
    outcome: Outcome
    finding: Finding | None


def attempted(name: str, seed: int, bases: Bases) -> Result:
    """One input, in an empty folder of its own that is gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="samebits-fuzz-"))
    try:
        with contextlib.chdir(place), warnings.catch_warnings():
            warnings.simplefilter("always")  # a warning is a line on standard error, whatever came before
            return Result(KINDS[name].run(draw_of(name, seed), place, bases), None)
    except Exception as error:
        return Result(Outcome(0, 0), finding_of(error, f"{name}:{seed}"))
    finally:
        _remove(place)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


def finding_of(error: Exception, label: str) -> Finding:
    if isinstance(error, BrokenRuleError):
        return Finding("traceback", error.rule, error.where, label, str(error))
    told = f"{type(error).__name__}: {error}\n" + "".join(traceback.format_exception(error, limit=-12))
    return Finding("traceback", type(error).__name__, frame_of(error), label, told)


def _remove(place: Path) -> None:
    """Whatever rights an input took away."""
    for folder, _, _ in os.walk(place):
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700)
    shutil.rmtree(place, ignore_errors=True)


def said(result: Result, seconds: float) -> dict[str, Any]:
    finding = result.finding._asdict() if result.finding else None
    return {"end": result.outcome[:2], "finding": finding, "seconds": round(seconds, 4)}


def prepare() -> None:
    """Limits, and a way to see where a process is that dies or hangs."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when it is over
    os.environ["SAMEBITS_COMMIT"] = "fuzz"  # else every run asks git


def work(bases: Bases, report: io.TextIOBase, until: float, seeds: range, names: list[str]) -> None:
    """The inputs of these seeds, until it is time."""
    with short_work():
        for number, seed in enumerate(seeds, start=1):
            if time.time() >= until:
                break
            name = drawn_kind(seed, names)
            print(json.dumps({"begin": [name, seed]}), file=report, flush=True)
            began = time.perf_counter()
            result = attempted(name, seed, bases)
            print(json.dumps(said(result, time.perf_counter() - began)), file=report, flush=True)
            if number % 200 == 0:
                gc.collect()


def main(bases: str, report: str, until: str, first: str, stride: str, last: str, kinds: str, also: str) -> None:
    prepare()
    load([name for name in also.split(",") if name])
    names = [name for name in kinds.split(",") if name]
    with os.fdopen(int(report), "w") as told:
        seeds = range(int(first), int(last) + 1, int(stride))
        work(Bases(Path(bases)), told, float(until), seeds, names)


if __name__ == "__main__":
    main(*sys.argv[1:])
