"""Where the time of a training step goes. Everything is measured in one process that does nothing else."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from samebits.compiler.jit import kernel
from samebits.config import TrainConfig
from samebits.devices.cpu.sync import BACKWARD, FORWARD, WAITING, ticks
from samebits.devices.cpu.workers import Workers
from samebits.groups.exchange import Links
from samebits.training.ahead import compile_ahead
from samebits.training.contract import Batch, Family
from samebits.training.trainer import Trainer, resolve

WARM_UP = 3
PARTS = {"fold_worker": "merge", "root_worker": "merge", "optimise_worker": "optimiser"}  # and those of the family


@dataclass
class Profile:
    """Milliseconds of a step. `parts` sum to the mean step; forward counts recomputed values too, and data and other
    only the time in which nobody computed."""

    workers: int
    steps: int
    median: float
    fastest: float
    slowest: float
    parts: dict[str, float]
    gigaflops: float
    peak_megabytes: float
    sent: int = 0  # bytes a step to other processes, and the least that there can be
    least_sent: int = 0

    def record(self) -> dict[str, object]:
        return asdict(self)


def peak_megabytes() -> float:
    """The most memory this process ever held, interpreter included."""
    status = Path("/proc/self/status")
    if status.exists():  # a process starts with its parent's ru_maxrss: what it was before it became another program
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # bytes on macOS


@kernel
def now() -> int:
    return ticks()


def profile(family: Family, config: TrainConfig, workers: int, steps: int, links: Links | None = None) -> Profile:
    """Time `steps` training steps after a warm-up."""
    drawn: list[tuple[int, int]] = []

    def timed_batch(config: Any, data: Any, step: int) -> Batch:
        begin = now()
        batch = family.batch(config, data, step)
        drawn.append((begin, now()))
        return batch

    ready = resolve(family, config)
    with Workers(workers) as team:
        compile_ahead(family, ready, team)
        trainer = Trainer(replace(family, batch=timed_batch), ready, team, links=links)
        for _ in range(WARM_UP):
            trainer.advance()
        drawn.clear()
        sent = links.sent if links else 0
        team.log, team.schedule.clock[:] = [], 0
        times, begin = [], now()
        for _ in range(steps):
            start = time.perf_counter()
            trainer.advance()
            times.append(1e3 * (time.perf_counter() - start))
        mean, tick = statistics.fmean(times), sum(times) / max(1, now() - begin) / steps
        counted = team.schedule.clock.sum(axis=0)
        sent = (links.sent - sent) // steps if links else 0
    parts = {name: tick * spent for name, spent in computing(team.log, {**PARTS, **family.bench.parts}).items()}
    # The kernels count ticks per worker; their shares cut the wall-clock time of the gradient. Waiting is "other".
    measured = int(counted[[FORWARD, BACKWARD, WAITING]].sum())
    if measured:  # a family may not count
        gradient = parts.pop("gradient", 0.0) / measured
        parts = {"forward": gradient * counted[FORWARD], "backward": gradient * counted[BACKWARD]} | parts
    parts["data"] = tick * idle(drawn, team.log)
    parts["other"] = mean - sum(parts.values())
    median = statistics.median(times)
    return Profile(
        workers,
        steps,
        median,
        min(times),
        max(times),
        {name: float(value) for name, value in parts.items()},
        family.bench.flops(trainer.config) / median / 1e6 if family.bench.flops else 0.0,
        peak_megabytes(),
        sent,
        least_sent(trainer, links.size) if links else 0,
    )


def least_sent(trainer: Trainer, processes: int) -> int:
    """Bytes that a process must send in a step, however it is done: nearly two rows of sums."""
    row = trainer.family.slot_size(trainer.config) * trainer.params.itemsize
    return 2 * (processes - 1) * row // processes


def computing(log: Sequence[tuple[str, int, int]], parts: Mapping[str, str]) -> dict[str, int]:
    """Ticks by part of a step, from the first worker's start to the last one's end; what has no name is gradient."""
    found = dict.fromkeys(("gradient", "merge", "optimiser"), 0)
    for name, started, ended in log:
        found[parts.get(name, "gradient")] += ended - started
    return found


def idle(intervals: Sequence[tuple[int, int]], log: Sequence[tuple[str, int, int]]) -> float:
    """How much of these intervals nobody computed in."""
    spans = np.array([[started, ended] for _, started, ended in log], np.float64)
    done = np.cumsum(spans[:, 1] - spans[:, 0])
    places, covered = spans.reshape(-1), np.stack([done - (spans[:, 1] - spans[:, 0]), done], axis=1).reshape(-1)
    begins, ends = np.array(intervals, np.float64).T
    return float((ends - begins - np.interp(ends, places, covered) + np.interp(begins, places, covered)).sum())
