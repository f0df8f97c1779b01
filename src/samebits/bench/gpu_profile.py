"""Where the time of a training step on a GPU goes: kernel by kernel, beside what bounds the step there."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any

from samebits.bench.on_gpu import Bound, bound_on, describe, ours_on_gpu
from samebits.bench.runner import Running, take_turn
from samebits.config import TrainConfig
from samebits.devices.choose import device_for
from samebits.training.contract import Family
from samebits.training.trainer import Trainer, resolve

WARM_UP = 3
TIMED_STEPS = 10  # kernel by kernel
MOST_SECONDS = 5.0


@dataclass
class KernelTime:
    kernel: str
    launches: float  # a step
    ms: float  # a step


@dataclass
class GpuProfile:
    """Milliseconds of a step. Kernels are timed one by one, the step as it is trained: what it takes beyond the sum of
    them is copies, waiting for the host and gaps; less than the sum, where the GPU overlaps what the clock keeps apart.
    """

    gpu: dict[str, str]
    steps: int
    median: float
    fastest: float
    slowest: float
    kernels: list[KernelTime]  # the longest first
    gigaflops: float
    megabytes: float
    bound: Bound | None

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"bound": self.bound and self.bound._asdict()}


def gpu_profile(family: Family, config: TrainConfig, asked: str, steps: int, inexact: bool = False) -> GpuProfile:
    """Time `steps` training steps after a warm-up, then a few kernel by kernel."""
    with device_for(asked, 1, inexact) as device:
        trainer = Trainer(family, resolve(family, config), device)
        on_gpu, gpu = ours_on_gpu(trainer), describe(device)
        running = Running(lambda number: None, lambda number, ready: trainer.advance(), lambda: trainer.params, on_gpu)
        take_turn(running, 0, WARM_UP, 0.0, MOST_SECONDS)
        times = take_turn(running, 0, steps, 0.0, MOST_SECONDS)
        megabytes = on_gpu.megabytes()
        timed: Any = device
        clock, some = timed.backend.start_clock(), min(steps, TIMED_STEPS)
        for _ in range(some):
            trainer.advance()
        on_gpu.wait()
        kernels = by_kernel(clock.take(), some)
    median = statistics.median(times)
    done = family.bench.flops(trainer.config) if family.bench.flops else 0.0
    return GpuProfile(
        gpu, len(times), median, min(times), max(times), kernels, done / median / 1e6, megabytes,
        bound_on(gpu["name"], family, trainer.config),
    )  # fmt: skip


def by_kernel(times: list[tuple[str, float]], steps: int) -> list[KernelTime]:
    found: dict[str, list[float]] = {}
    for name, ms in times:
        found.setdefault(name, []).append(ms)
    rows = [KernelTime(name, len(each) / steps, sum(each) / steps) for name, each in found.items()]
    return sorted(rows, key=lambda row: -row.ms)
