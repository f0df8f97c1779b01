"""A family with mutable state, as small as can be: y = w · (x − m) + b, where m is a running mean of the inputs.

Every step uses m as the step before left it, and then moves it towards the mean of its own batch. `seen` counts
samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import Field

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array, aligned
from samebits.arithmetic.rng import Purpose
from samebits.arithmetic.simd import fused
from samebits.compiler.jit import kernel
from samebits.config import TrainConfig, override
from samebits.devices.cpu.sync import claim
from samebits.devices.cpu.workers import Workers
from samebits.devices.gpu.device import Gpu
from samebits.training.contract import Batch, Constants, Family, Filled, Kernels, Layout, Metrics, Task, Work
from samebits.training.params import views

LAYOUT: Layout = [("weight", (3,)), ("bias", (1,))]
SIZE, STATISTICS = 4, 4  # numbers of a gradient; Σx and the number of samples
RATE = np.float32(0.25)  # of the running mean
SOURCE = (str(Path(__file__).with_suffix(".cl")),)


class RunningConfig(TrainConfig):
    unit_samples: int = Field(4, ge=1, description="samples a unit of work")


FULL = RunningConfig(steps=12, batch_size=19, lr=0.05, weight_decay=0.0, eval_every=4, eval_samples=9, log_every=1)


@dataclass
class RunningModel:
    config: RunningConfig
    weights: Array
    constants: Constants
    params: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        self.params = {**views(LAYOUT, self.weights), **self.constants}


@kernel
def unit(slot: Array, params: Array, mean: Array, X: Array, y: Array) -> float:
    """Σ (w · (x − m) + b − y)², its gradient, and the statistics of the inputs."""
    slot[:] = 0
    loss = 0.0
    for i in range(y.size):
        error = params[3] - y[i]
        for k in range(3):
            error = fused(params[k], X[i, k] - mean[k], error)
        loss += np.float64(error) * np.float64(error)
        for k in range(3):
            slot[k] = fused(error + error, X[i, k] - mean[k], slot[k])
            slot[4 + k] += X[i, k]
        slot[3] += error + error
        slot[7] += 1
    return loss


@kernel
def worker(
    index: int, tickets: Array, slots: Array, losses: Array, model: tuple[Array, Array], X: Array, y: Array, n: int
) -> None:
    while True:
        u = claim(tickets)
        if u >= slots.shape[0]:
            break
        losses[u, 0] = unit(slots[u], model[0], model[1], X[n * u : n * (u + 1)], y[n * u : n * (u + 1)])


@kernel
def move_mean(index: int, tickets: Array, mean: Array, seen: Array, sums: Array, rate: float) -> None:
    if claim(tickets) == 0:
        for k in range(3):
            mean[k] = fused(rate, sums[k] / sums[3] - mean[k], mean[k])
        seen[0] += np.int64(sums[3])


def points_of(work: Work) -> tuple[Array, Array, int]:
    """The wave's samples, and how many a unit has."""
    n, wave = work.config.unit_samples, work.wave
    X, y = (array[n * wave.first_unit : n * wave.last_unit] for array in work.batch.arrays)
    return X, y, n


def gradient(work: Work[RunningConfig, Workers], slots: Array, losses: Array) -> Filled:
    model = work.params, work.state["mean"]
    work.device.post(worker, work.device.tickets(), slots, losses, model, *points_of(work))
    return Filled()


def evaluate(work: Work[RunningConfig, Workers], rows: Array) -> None:
    shape = len(rows), SIZE + STATISTICS
    gradient(work, work.device.scratch("running").buffer("unused", shape, work.params.dtype), rows)


def update_state(work: Work[RunningConfig, Workers], statistics: Array) -> None:
    mean, seen = work.state["mean"], work.state["seen"]
    work.device.post(move_mean, work.device.tickets(), mean, seen, statistics, RATE, alone=True)


def gradient_on_gpu(work: Work[RunningConfig, Gpu], slots: Array, losses: Array) -> Filled:
    X, y, n = points_of(work)
    sent = work.device.scratch("running").send("batch", {"X": X, "y": y}, np.float32)
    work.device.post(
        work.device.program(SOURCE)["gradient"], len(slots), 1, slots, losses, work.params, work.state["mean"],
        sent["X"], sent["y"], n, len(y),
    )  # fmt: skip
    return Filled()


def evaluate_on_gpu(work: Work[RunningConfig, Gpu], rows: Array) -> None:
    shape = len(rows), SIZE + STATISTICS
    gradient_on_gpu(work, work.device.scratch("running").buffer("unused", shape, np.float32), rows)


def update_state_on_gpu(work: Work[RunningConfig, Gpu], statistics: Array) -> None:
    move = work.device.program(SOURCE)["move_mean"]
    work.device.post(move, 1, 1, work.state["mean"], work.state["seen"], statistics, float(RATE))


def samples(config: RunningConfig, count: int, purpose: int, step: int) -> Batch:
    """Inputs around 3, so that their mean matters."""
    uniform = (rng.words((count, 4), config.seed, purpose, step) >> np.uint64(11)).astype(np.float64) * 2.0**-52
    X, noise = (uniform[:, :3] + 2).astype(np.float32, order="C"), uniform[:, 3]
    return Batch((X, (X[:, 0] - 2 * X[:, 1] + 0.1 * noise).astype(np.float32)), count, float(count))


def reference(config: RunningConfig, constants: Constants, params: Array, batch: Batch) -> float:
    X, y = batch.arrays
    return float(((X @ params[:3] + params[3] - y) ** 2).sum() / batch.divisor)  # at the first step m is 0


def summarise(config: RunningConfig, sums: Mapping[str, float], batch: Batch) -> dict[str, float]:
    return {"loss": sums["loss"] / batch.samples}


FAMILY = Family(
    name="running",
    config=RunningConfig,
    tasks={
        "running": Task(
            presets={"full": FULL, "small": FULL},
            summary="linear regression of inputs without their running mean",
            expect="weights 1, -2 and 0",
            checks=(override(FULL, {"batch_size": 5, "unit_samples": 2}),),
        )
    },
    layout=lambda config: LAYOUT,
    init=lambda config, dtype: aligned(SIZE, dtype),
    constants=lambda config: {},
    slot_size=lambda config: SIZE,
    group_bytes=lambda config: 64,
    state=lambda config: {"mean": np.zeros(3, np.float32), "seen": np.zeros(1, np.int64)},
    statistics=lambda config: STATISTICS,
    load=lambda config: None,
    batch=lambda config, data, step: samples(config, config.batch_size, Purpose.BATCH, step),
    evaluation=lambda config, data, full: samples(config, config.eval_samples, Purpose.EVALUATION, 0),
    groups=lambda config, batch: np.ones(-(-batch.samples // config.unit_samples), np.int64),
    kernels={
        "cpu": Kernels(gradient, evaluate, update_state=update_state),
        "gpu": Kernels(gradient_on_gpu, evaluate_on_gpu, update_state=update_state_on_gpu),
    },
    reference=reference,
    metrics=Metrics(loss="loss", columns=("loss",), batch=("loss",), evaluation=("loss",), best="loss"),
    summarise=summarise,
    model=RunningModel,
)
