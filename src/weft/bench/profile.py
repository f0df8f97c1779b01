"""Where the time of a training step goes. Everything is measured in one process that does nothing else."""

from __future__ import annotations

import resource
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from weft.config import TrainConfig
from weft.engine.family import Family
from weft.engine.sync import BACKWARD, FORWARD, WAITING
from weft.engine.train import Clock, Trainer, resolve
from weft.engine.workers import Workers

WARM_UP = 3


@dataclass
class Profile:
    """Milliseconds of a step. `parts` sum to the mean step; forward counts recomputed values too."""

    workers: int
    steps: int
    median: float
    fastest: float
    slowest: float
    parts: dict[str, float]
    gigaflops: float
    peak_megabytes: float

    def record(self) -> dict[str, object]:
        return asdict(self)


def peak_megabytes() -> float:
    """The most memory this process ever held, interpreter included."""
    status = Path("/proc/self/status")
    if status.exists():  # a process starts with its parent's ru_maxrss: what it was before it became another program
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # bytes on macOS


def profile(family: Family, config: TrainConfig, workers: int, steps: int) -> Profile:
    """Time `steps` training steps after a warm-up."""
    with Workers(workers) as team:
        trainer = Trainer(family, resolve(family, config), team)
        for _ in range(WARM_UP):
            trainer.step()
        trainer.clock = Clock()
        team.ticks[:] = 0
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            trainer.step()
            times.append(1e3 * (time.perf_counter() - start))
        clock = {name: 1e3 * seconds / steps for name, seconds in trainer.clock.seconds.items()}
        ticks = team.ticks.sum(axis=0)
    # The kernels count ticks per worker; their shares cut the wall-clock time of the gradient. Waiting is "other".
    measured = int(ticks[[FORWARD, BACKWARD, WAITING]].sum())
    shares = {"gradient": 1.0}  # of a family that does not count
    if measured:
        shares = {"forward": ticks[FORWARD] / measured, "backward": ticks[BACKWARD] / measured}
    parts = {name: clock["gradient"] * float(share) for name, share in shares.items()}
    parts |= {name: clock[name] for name in ("merge", "optimiser", "data")}
    parts["other"] = statistics.fmean(times) - sum(parts.values())
    median = statistics.median(times)
    return Profile(
        workers,
        steps,
        median,
        min(times),
        max(times),
        parts,
        family.flops(trainer.config) / median / 1e6,
        peak_megabytes(),
    )
