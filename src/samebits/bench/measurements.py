"""What `samebits bench` can measure: every task's training step, and a few things that are not training."""

from __future__ import annotations

from functools import cache

from samebits.bench.devices import NAME
from samebits.errors import SamebitsError, nearest
from samebits.families import discover
from samebits.training.contract import Family
from samebits.training.parts import Measurement

DISTANCES = Measurement(
    "exact graph edit distances beside networkx; tables of them by worker count", "samebits.bench.distances:distances"
)


@cache
def measurements() -> dict[str, Measurement]:
    """Distances, and what each family brings."""
    found = {"distances": DISTANCES}
    for family in discover().values():
        found |= family.bench.measurements
    return found


def check_name(name: str) -> None:
    known = [*(task for family in discover().values() for task in family.tasks), *measurements(), NAME]
    if name not in known:
        hints = dict.fromkeys(
            [nearest(name, known), f"known: {', '.join(sorted(known))}"]
        )  # the first may be the second
        raise SamebitsError(f"there is nothing called {name!r} to measure; {'; '.join(hints)}")


def timed_presets(family: Family) -> list[tuple[str, str]]:
    """(task, preset) pairs that --all times: presets made for timing beside peers where a family has any, else full."""
    made_for_it = [(task, "timing") for task, found in family.tasks.items() if "timing" in found.presets]
    return made_for_it or [(task, "full") for task in family.tasks]
