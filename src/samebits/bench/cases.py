"""Rows of what is measured: who did it, how fast in each round; beside training steps also a case and a unit."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

OURS = "samebits"
ROUNDS = 5  # in which all systems take turns, so that a slow moment of the machine hits all alike
Row = dict[str, Any]


class Found(NamedTuple):
    """What a measurement brings back for its record."""

    settings: dict[str, Any]
    proof: str  # what was found equal before anything was timed
    rows: list[Row]


def row(case: str, system: str, threads: int, unit: str, rounds: Sequence[float]) -> Row:
    """`unit` is milliseconds of something, or something a second: "ms a pair", "tokens/s"."""
    return {
        "case": case,
        "system": system,
        "threads": threads,
        "unit": unit,
        "median": statistics.median(rounds),
        "medians": list(rounds),
    }


def compared(rows: list[Row], bound: str | None = None) -> list[Row]:
    """Fill in the ratios, case by case: each system against its own first count; all but the bound against ours."""
    for found in rows:
        case = [other for other in rows if other.get("case") == found.get("case")]
        own = next(other for other in case if other["system"] == found["system"])
        found["speed_up"] = times_as_fast(found, own)
        if found["system"] not in (OURS, bound):
            ours = [other for other in case if other["system"] == OURS]
            same = [other for other in ours if other["threads"] == found["threads"]]
            found["times_slower"] = times_as_fast((same or ours)[0], found)
    return rows


def times_as_fast(one: Row, other: Row) -> float:
    """How many times as fast the first is."""
    rate = one.get("unit", "ms").endswith("/s")
    ratio: float = one["median"] / other["median"] if rate else other["median"] / one["median"]
    return ratio
