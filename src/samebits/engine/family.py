"""The contract between engine and families: a record of plain functions and data. Nothing is overridden.

A family computes; the engine trains. The worker count never reaches its arithmetic: it hands compiled work to
`workers`, and writes one row per unit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from samebits.config import TrainConfig
from samebits.engine.arrays import Array
from samebits.engine.workers import Workers

Params = Array  # one flat vector
Constants = Mapping[str, Array]  # integer arrays such as wires: saved and shown, never optimised
Layout = Sequence[tuple[str, tuple[int, ...]]]


class Batch(NamedTuple):
    """What one step works on. `arrays` is the family's own; `divisor` divides the merged sums once, after the root."""

    arrays: Any
    samples: int
    divisor: float


class Wave(NamedTuple):
    """A run of whole groups of the step, and of their units."""

    first_group: int
    last_group: int  # exclusive
    first_unit: int
    last_unit: int  # exclusive


@dataclass(frozen=True)
class Task:
    """Something to train: its presets (always `small` and `full`), and a line of what to expect."""

    presets: Mapping[str, TrainConfig]
    summary: str
    expect: str
    checks: tuple[TrainConfig, ...]  # small enough to hold the kernels to the reference by finite differences
    verify: Mapping[str, Any] = field(
        default_factory=dict
    )  # what `samebits verify` turns on, so that every draw is in play


@dataclass
class Report:
    """What `samebits eval` prints, and curves to plot, if there are any."""

    rows: list[dict[str, Any]]
    curves: dict[str, Array] = field(default_factory=dict)
    title: str = ""
    x: str = ""
    y: str = ""
    plot: str = "curves"  # name of the picture


@dataclass(frozen=True)
class Family:
    name: str
    config: type[TrainConfig]
    tasks: Mapping[str, Task]

    layout: Callable[[Any], Layout]  # like all below: of a config that `prepare` has seen
    init: Callable[[Any, DTypeLike], Params]
    constants: Callable[[Any], Constants]
    slot_size: Callable[[Any], int]  # numbers per unit; the parameter count where there is no pull_back
    group_bytes: Callable[[Any], int]  # working memory of one group in flight, slots not counted

    load: Callable[[Any], Any]
    batch: Callable[[Any, Any, int], Batch]  # (config, data, step)
    evaluation: Callable[[Any, Any, bool], Batch]  # (config, data, full): what `evaluate` is judged on
    groups: Callable[[Any, Batch], Array]  # units per group, a function of config and batch alone

    # (config, constants, params, batch, wave, slots, losses, workers): one row of sums and one float64 loss per unit;
    # what it leaves posted, the engine waits for
    gradient: Callable[[Any, Constants, Params, Batch, Wave, Array, Array, Workers], None]
    # (config, params, merged, gradient out, workers), posted as well: merged is not there before a join;
    # None where slots hold the gradient itself
    pull_back: Callable[[Any, Params, Array, Array, Workers], None] | None
    # (config, constants, params, batch, wave, rows, workers): one float64 row of sums per unit
    evaluate: Callable[[Any, Constants, Params, Batch, Wave, Array, Workers], None]
    eval_columns: tuple[str, ...]  # of those rows
    # (config, constants, params, batch) → the mean loss, in plain NumPy and float64: what the kernels are held to
    reference: Callable[[Any, Constants, Params, Batch], float]
    summarise: Callable[[Any, Mapping[str, float], Batch], dict[str, float]]  # merged sums → metrics

    loss_name: str  # the column of the training loss in metrics.csv
    batch_metrics: tuple[str, ...]  # metrics of `summarise` that each logged step also takes of its training batch
    eval_metrics: tuple[str, ...]  # metrics of `summarise` logged at every evaluation, as eval_…
    best_metric: str  # the one, lower is better, that picks the best checkpoint

    model: Callable[[Any, Params, Constants], Any]  # what samebits.load returns
    report: Callable[[Any, Workers], Report]  # (model, workers): what `samebits eval` shows
    flops: Callable[[Any], float]  # floating-point operations of one training step
    # Once, when training begins: the config with the keys that follow from the data filled in (a vocabulary's size, the
    # data's hash). config.toml keeps them, so that a run knows its data again.
    prepare: Callable[[Any], Any] = field(default=lambda config: config)
    folded: int = 0  # levels of the tree that `gradient` folds itself, with merge.fold_up; its slots must be small
    # Those keys, of a run's config.toml: a new run that is given another one's file finds its own.
    derived: Callable[[Mapping[str, Any]], Collection[str]] = field(default=lambda values: ())
    # What a step works through, for the progress line: a word in the plural, and how many of them. Of any config.
    work: tuple[str, Callable[[Any], float]] | None = None
    verbs: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # render, sample, predict, circuit …
    # What no implementation of a training step can do without, for `samebits bench`: its matrix products, as (m, k, n,
    # how many), or else the bytes its kernels read and write if none were in the first-level cache.
    products: Callable[[Any], Sequence[tuple[int, int, int, int]]] | None = None
    traffic: Callable[[Any], float] | None = None


def parameter_count(family: Family, config: TrainConfig) -> int:
    return sum(int(np.prod(shape)) for _, shape in family.layout(config))
