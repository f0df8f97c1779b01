"""The contract between engine and families: a record of plain functions and data. Nothing is overridden.

A family computes; the engine trains. The worker count never reaches its arithmetic: kernels hand compiled work to the
device, and write one row per unit. What only some verbs need is optional, and stands in training/parts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array
from samebits.config import TrainConfig
from samebits.training.parts import Bench, Model, Report

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
    about: Mapping[str, str] = field(default_factory=dict)  # a line for every preset but small and full
    verify: Mapping[str, Any] = field(default_factory=dict)  # what `samebits verify` turns on: every draw is in play
    one_batch: bool = False  # the same batch at every step and seed: a fixed start, and nothing drawn


class Kernels(NamedTuple):
    """What a family computes on one kind of device (devices/interface.py). All of it is posted."""

    # (config, constants, params, batch, wave, slots, losses, device): one row of sums and one float64 loss per unit.
    # What it returns is handed to pull_back.
    gradient: Callable[[Any, Constants, Any, Batch, Wave, Any, Any, Any], Any]
    # (config, constants, params, batch, wave, rows, device): one float64 row of sums per unit
    evaluate: Callable[[Any, Constants, Any, Batch, Wave, Any, Any], None]
    # (config, params, merged, gradient out, what `gradient` returned, device); None where slots hold the gradient
    pull_back: Callable[[Any, Any, Any, Any, Any, Any], None] | None = None
    folded: int = 0  # levels of the tree that `gradient` folds itself, with merge.fold_up; its slots must be small
    # (config, wave): levels that it folds on a GPU, so that slots have a row for every node of that level; with one the
    # wave begins, and with one it ends
    nodes: Callable[[Any, Wave], int] | None = None
    # (batch): what can be done for the next one while this one is computed
    ahead: Callable[[Batch], None] | None = None


class Metrics(NamedTuple):
    """Names of columns."""

    loss: str  # of the training loss in metrics.csv
    columns: tuple[str, ...]  # of the rows that Kernels.evaluate fills
    batch: tuple[str, ...]  # of `summarise`, that each logged step also takes of its training batch
    evaluation: tuple[str, ...]  # of `summarise`, logged at every evaluation as eval_…
    best: str  # the one, lower is better, that picks the best checkpoint


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
    kernels: Mapping[str, Kernels]  # by kind of device; always "cpu"
    # (config, constants, params, batch) → the mean loss, in plain NumPy and float64: what the kernels are held to
    reference: Callable[[Any, Constants, Params, Batch], float]
    metrics: Metrics
    summarise: Callable[[Any, Mapping[str, float], Batch], dict[str, float]]  # merged sums → metrics
    model: Callable[[Any, Params, Constants], Model]  # what samebits.load returns
    # Columns of metrics.csv that are sums, and over how many of what: ("cell", config → {column: how many}). So curves
    # of a batch and of an evaluation can be compared. None where all of them are means.
    sums: tuple[str, Callable[[Any], Mapping[str, float]]] | None = None

    # (config, settings as a user gives them) → settings as a config keeps them: files are opened and functions called
    # here, so that a config only checks values.
    read_settings: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]] = field(
        default=lambda config, settings: settings
    )
    # Once, when training begins: the config with the keys that follow from the data filled in (a vocabulary's size, the
    # data's hash). config.toml keeps them, so that a run knows its data again.
    prepare: Callable[[Any], Any] = field(default=lambda config: config)
    # Those keys, of a run's config.toml: a new run that is given another one's file finds its own.
    derived: Callable[[Mapping[str, Any]], Collection[str]] = field(default=lambda values: ())
    # A line to print beside the hash of a run whose inputs may differ elsewhere; empty where they cannot.
    caveat: Callable[[Any], str] = field(default=lambda config: "")
    # (config, constants of a checkpoint): raises where they are not of this config. Kernels index by them, so they are
    # checked before a kernel sees them. By default they must be those that `constants` makes.
    check_constants: Callable[[Any, Constants], None] | None = None
    # Config keys that make a task's canary (verify/canary.py): small, and of nothing that this machine alone has.
    canary: Mapping[str, Any] = field(default_factory=dict)
    # What else a family computes inside the promise, such as samples: (workers) → arrays on fixed inputs, by name.
    probes: Mapping[str, Callable[[Any], Sequence[Array]]] = field(default_factory=dict)

    # Once, after the last step of the schedule: (config, constants, params, data, workers, tell) → other parameters, or
    # None. Every process does it, on its CPU, so it is a function of these alone; `tell` takes a row for who watches.
    finish: Callable[[Any, Constants, Params, Any, Any, Callable[[dict[str, Any]], None]], Params | None] | None = None

    # The optional parts.
    # (model, workers, perhaps options of its own, as data=): what `samebits eval` shows
    report: Callable[..., Report] | None = None
    glimpse: Callable[[Any, Any], str] | None = None  # (model, workers): a text to show while it learns (sample_every)
    verbs: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # render, sample, predict, circuit …
    bench: Bench = field(default_factory=Bench)


def parameter_count(family: Family, config: TrainConfig) -> int:
    return sum(int(np.prod(shape)) for _, shape in family.layout(config))
