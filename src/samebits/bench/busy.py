"""What others do on this machine while nothing of ours runs: a measurement beside them is of the two together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SECONDS = 0.4  # to look at them
NOTICED = 0.2  # cores: less is what any machine does now and then
STAT = Path("/proc/stat")
IDLE, WAITS, GUESTS = (
    3,
    4,
    8,
)  # columns of its first line: user, nice, system, idle, iowait, irq, softirq, steal, guest …


class Reading(NamedTuple):
    at: float  # seconds
    used: float  # core-seconds of the whole machine, what its host took away included
    own: float  # of these, ours


def read(path: Path = STAT) -> Reading | None:
    """None where the machine does not tell."""
    try:
        line = path.read_text(encoding="ascii").partition("\n")[0].split()
        ticks = [int(word) for word in line[1:]]
        used = (sum(ticks[:GUESTS]) - ticks[IDLE] - ticks[WAITS]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    ours = os.times()
    return Reading(time.monotonic(), used, ours.user + ours.system)


def others_busy(
    reading: Callable[[], Reading | None] = read, wait: Callable[[float], None] = time.sleep
) -> float | None:
    """How many cores others keep busy; without /proc the load of the last minute, and None where nothing is known."""
    before = reading()
    if before is not None:
        wait(SECONDS)
        after = reading()
        if after is not None and after.at > before.at:
            others = (after.used - before.used) - (after.own - before.own)
            return round(max(0.0, others / (after.at - before.at)), 2)
    with suppress(OSError, AttributeError):
        return round(os.getloadavg()[0], 2)
    return None


def warning(others: float | None, cores: int) -> str:
    """A line for who measures; empty where nobody is in the way."""
    if others is None or others < NOTICED:
        return ""
    return (
        f"this machine is busy: others use {others:.1f} of its {cores} cores, so times will be longer than they should "
        "be, and scatter; measure again when it is idle"
    )
