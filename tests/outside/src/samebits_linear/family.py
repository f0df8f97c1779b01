"""Linear regression: a small family with options, a glimpse and a page. No report, no verbs, nothing for benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike
from pydantic import Field

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array, aligned
from samebits.arithmetic.rng import Purpose
from samebits.config import OUTSIDE_HASH, TrainConfig, override
from samebits.devices.cpu.workers import Workers
from samebits.training.contract import Batch, Constants, Family, Filled, Kernels, Layout, Metrics, Task, Work
from samebits.training.params import views
from samebits.training.parts import Glimpse, Option, Page
from samebits_linear.kernels import double, worker

LAYOUT: Layout = [("weight", (3,)), ("bias", (1,))]
TRUE = (0.5, -1.5, 2.0, 0.25)


class LinearConfig(TrainConfig):
    unit_samples: int = Field(8, ge=1, description="samples a unit of work")
    noise: float = Field(0.1, ge=0, le=1, description="how far a target may be from the plane")
    show_every: int = Field(
        0, ge=0, description="show the weights every so many steps; 0: never", json_schema_extra=OUTSIDE_HASH
    )


FULL = LinearConfig(steps=200, batch_size=64, lr=0.05, weight_decay=0.0, eval_every=50, eval_samples=100)
SMALL = override(FULL, {"steps": 20, "batch_size": 19, "unit_samples": 4, "eval_every": 10})


@dataclass
class LinearModel:
    config: LinearConfig
    weights: Array
    constants: Constants
    params: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        self.params = views(LAYOUT, self.weights)


def init(config: LinearConfig, dtype: DTypeLike) -> Array:
    return aligned(4, dtype)


def samples(config: LinearConfig, count: int, purpose: int, step: int) -> Batch:
    uniform = (rng.words((count, 4), config.seed, purpose, step) >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1
    y = TRUE[3] + config.noise * uniform[:, 3]
    for k in range(3):
        y += TRUE[k] * uniform[:, k]
    return Batch((uniform[:, :3].astype(np.float32, order="C"), y.astype(np.float32)), count, float(count))


def groups(config: LinearConfig, batch: Batch) -> Array:
    return np.ones(-(-batch.samples // config.unit_samples), np.int64)


def gradient(work: Work[LinearConfig, Workers], slots: Array, losses: Array) -> Filled:
    n, wave, workers = work.config.unit_samples, work.wave, work.device
    X, y = (array[n * wave.first_unit : n * wave.last_unit] for array in work.batch.arrays)
    workers.post(worker, workers.tickets(), slots, losses, work.params, X, y, n)
    return Filled()


def pull_back(work: Work[LinearConfig, Workers], merged: Array, out: Array, carried: None) -> None:
    work.device.post(double, work.device.tickets(), out, merged, alone=True)


def evaluate(work: Work[LinearConfig, Workers], rows: Array) -> None:
    unused = work.device.scratch("linear").buffer("slots", (len(rows), 4), work.params.dtype)
    gradient(work, unused, rows)


def reference(config: LinearConfig, constants: Constants, params: Array, batch: Batch) -> float:
    X, y = batch.arrays
    return float(((X @ params[:3] + params[3] - y) ** 2).sum() / batch.divisor)


def summarise(config: LinearConfig, sums: Mapping[str, float], batch: Batch) -> dict[str, float]:
    return {"loss": sums["loss"] / batch.samples}


def shown(model: LinearModel, workers: Workers) -> str:
    return "weights " + ", ".join(f"{weight:.2f}" for weight in model.weights.tolist())


FAMILY = Family(
    name="linear",
    config=LinearConfig,
    tasks={
        "linear": Task(
            presets={"full": FULL, "small": SMALL},
            summary="find four numbers",
            expect="they are 0.5, -1.5, 2 and 0.25",
            checks=(override(SMALL, {"batch_size": 5, "unit_samples": 2}),),
        )
    },
    layout=lambda config: LAYOUT,
    init=init,
    constants=lambda config: {},
    slot_size=lambda config: 4,
    group_bytes=lambda config: 64,
    load=lambda config: None,
    batch=lambda config, data, step: samples(config, config.batch_size, Purpose.BATCH, step),
    evaluation=lambda config, data, full: samples(config, config.eval_samples, Purpose.EVALUATION, 0),
    groups=groups,
    kernels={"cpu": Kernels(gradient, evaluate, pull_back)},
    reference=reference,
    metrics=Metrics(loss="loss", columns=("loss",), batch=(), evaluation=("loss",), best="loss"),
    summarise=summarise,
    model=LinearModel,
    glimpse=Glimpse(shown, lambda config: config.show_every),
    options={
        "train": {
            "noise": Option("how far a target may be from the plane", float, metavar="DISTANCE"),
            "show_every": Option("show the weights every so many steps", int, metavar="STEPS"),
        }
    },
    commands=("samebits resume DIR --steps 400",),
    page=Page(details=lambda config: {"noise": config.noise, "plane": "0.5, -1.5, 2 and 0.25"}),
)
