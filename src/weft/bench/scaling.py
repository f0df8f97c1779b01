"""Step time against worker count, and against what the machine itself can give.

Each measurement is a process of its own, so that memory is its own and nothing is warm from another. Independent
single-worker copies running side by side show how much N cores really are: they share caches, memory and clocks, and
wait for nothing. `of_copies` is our steps a second over theirs, the medians of all of them added up. Copies neither
start nor end at one moment, and one that runs while others do not is faster than they all are together; so
`of_overlap` compares with the steps they finished while all of them were running.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from weft.config import TrainConfig
from weft.engine.family import Family
from weft.errors import WeftError
from weft.verify.bits import compare

ROUNDS = 3


def check_bits(family: Family, config: TrainConfig, counts: Sequence[int]) -> str:
    """Prove before timing: one hash for all counts."""
    found = compare(family, config, counts, 2)
    if len(set(found.values())) != 1:
        raise WeftError(f"the worker counts {list(counts)} give different bits; a timing would be meaningless")
    return next(iter(found.values()))[0]


def _start(arguments: Sequence[str], workers: int, steps: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "weft",
        "profile",
        *arguments,
        "--workers",
        str(workers),
        "--steps",
        str(steps),
        "--json",
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"})


def _result(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = process.communicate()
    if process.returncode != 0:
        raise WeftError(f"a measuring process ended with {process.returncode}; try: weft profile")
    return dict(json.loads(output))


def overlap(runs: Sequence[dict[str, Any]]) -> float | None:
    """Steps a second of processes side by side, counted while all were running; None if they never all were."""
    begin, end = max(run["step_ends"][0] for run in runs), min(run["step_ends"][-1] for run in runs)
    if begin >= end:
        return None
    return sum(begin < moment <= end for run in runs for moment in run["step_ends"]) / (end - begin)


def scaling(arguments: Sequence[str], counts: Sequence[int], steps: int, copies: bool) -> list[dict[str, Any]]:
    """One row a count; counts take turns, so that a slow moment of the machine hits them alike."""
    rows: dict[int, list[dict[str, Any]]] = {count: [] for count in counts}
    side_by_side: dict[int, list[float]] = {count: [] for count in counts}
    overlaps: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(ROUNDS):
        for count in counts:
            rows[count].append(_result(_start(arguments, count, steps)))
            if copies:
                running = [_start(arguments, 1, steps) for _ in range(count)]
                results = [_result(process) for process in running]
                side_by_side[count].append(sum(1 / result["median"] for result in results))
                overlaps[count] += [found for found in [overlap(results)] if found is not None]
    table = []
    slowest = min(rows[counts[0]], key=_median)
    for count in counts:
        best = min(rows[count], key=_median)
        row = {
            **{name: value for name, value in best.items() if name != "step_ends"},
            "medians": [run["median"] for run in rows[count]],
            "speed_up": slowest["median"] / best["median"],
        }
        if copies:
            row["copies_steps_per_second"] = 1e3 * statistics.median(side_by_side[count])
            row["of_copies"] = 1 / statistics.median(row["medians"]) / statistics.median(side_by_side[count])
            if overlaps[count]:
                row["overlap_steps_per_second"] = statistics.median(overlaps[count])
                own = [found for found in (overlap([run]) for run in rows[count]) if found is not None]
                row["of_overlap"] = statistics.median(own) / row["overlap_steps_per_second"]
        table.append(row)
    return table


def _median(run: dict[str, Any]) -> float:
    return float(run["median"])
