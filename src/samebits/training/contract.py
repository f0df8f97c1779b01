"""The contract between training and families: a record of plain functions and data. Nothing is overridden.

A family computes; the engine trains. The worker count never reaches its arithmetic: kernels hand compiled work to the
device, and write one row per unit. What only some verbs need is optional, and is in training/parts.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array
from samebits.config import TrainConfig
from samebits.devices.cpu.workers import Workers
from samebits.devices.interface import Vector
from samebits.training.parts import Bench, Glimpse, MakeModel, Option, Page, Report, Start

Params = Array  # one flat vector
Constants = Mapping[str, Array]  # integer arrays such as wires: saved and shown, never optimised
Layout = Sequence[tuple[str, tuple[int, ...]]]

C = TypeVar("C", bound=TrainConfig)  # a family's config
D = TypeVar("D")  # its data
C_contra = TypeVar("C_contra", bound=TrainConfig, contravariant=True)
D_contra = TypeVar("D_contra", contravariant=True)
Computer = TypeVar("Computer")  # what a kernel runs on: Workers, or a GPU


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

    @property
    def units(self) -> int:
        return self.last_unit - self.first_unit


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


class Work(NamedTuple, Generic[C, Computer]):
    """What a kernel is given: one wave of a batch, and the model. Vectors are on the device."""

    config: C
    constants: Constants
    params: Vector
    state: Mapping[str, Vector]  # the family's mutable state (Family.state); empty where it declares none
    batch: Batch
    wave: Wave
    device: Computer


class Filled(NamedTuple):
    """What a gradient kernel reports of the rows that it fills.

    Row i begins at unit first_unit + i · (units of the wave / rows), and holds the node of the tree with `level` levels
    below it that begins there: at level 0 the unit itself. A node that would reach beyond the wave is left as smaller
    nodes, each in the row where it begins, as arithmetic/tree.py numbers them.
    """

    level: int = 0
    carried: Any = None  # handed to pull_back


class GradientKernel(Protocol):
    """Posts the gradient: a row of sums, and one float64 loss, for every unit of the wave.

    A row is slot_size(config) numbers, then statistics(config) numbers for update_state.
    """

    def __call__(self, work: Work[Any, Any], slots: Vector, losses: Vector) -> Filled: ...


class EvaluateKernel(Protocol):
    """Posts the evaluation: one float64 row of sums (Metrics.columns) for every unit of the wave."""

    def __call__(self, work: Work[Any, Any], rows: Vector) -> None: ...


class PullBackKernel(Protocol):
    """Posts the gradient of the parameters, from the merged sums and what the last wave's gradient carried."""

    def __call__(self, work: Work[Any, Any], merged: Vector, out: Vector, carried: Any) -> None: ...


class UpdateStateKernel(Protocol):
    """Posts the update of work.state, in place, from the merged statistics of a step.

    It runs once a step, in every process: after the gradient and the metrics of the step's batch, which see the state
    as it was, and before the optimizer and the next step, which see the new one.
    """

    def __call__(self, work: Work[Any, Any], statistics: Vector) -> None: ...


class Kernels(NamedTuple):
    """What a family computes on one kind of device (devices/interface.py). All of it is posted."""

    gradient: GradientKernel
    evaluate: EvaluateKernel
    pull_back: PullBackKernel | None = None  # None where slots hold the gradient itself
    update_state: UpdateStateKernel | None = None  # None where the family declares no state
    # (config, wave) → the level of the nodes for which `gradient` gets rows, where that is not 0: units >> level rows
    # are allocated. The wave then begins and ends with whole nodes.
    row_level: Callable[[Any, Wave], int] | None = None
    ahead: Callable[[Batch], None] | None = None  # work for the next batch that can be done while this one is computed


class Metrics(NamedTuple):
    """Names of columns."""

    loss: str  # of the training loss in metrics.csv
    columns: tuple[str, ...]  # of the rows that Kernels.evaluate fills
    batch: tuple[str, ...]  # of `summarise`, that each logged step also takes of its training batch
    evaluation: tuple[str, ...]  # of `summarise`, logged at every evaluation as eval_…
    best: str  # the one, lower is better, that picks the best checkpoint


class MakeBatch(Protocol[C_contra, D_contra]):
    """The batch of a training step: a function of config, data and step alone."""

    def __call__(self, config: C_contra, data: D_contra, step: int) -> Batch: ...


class MakeEvaluation(Protocol[C_contra, D_contra]):
    """What a run is evaluated on while it trains; with `full` what `samebits eval` uses."""

    def __call__(self, config: C_contra, data: D_contra, full: bool) -> Batch: ...


class Reference(Protocol[C_contra]):
    """The mean loss, in plain NumPy and float64: what the kernels are held to."""

    def __call__(self, config: C_contra, constants: Constants, params: Params, batch: Batch) -> float: ...


class Summarise(Protocol[C_contra]):
    """Metrics from the merged sums of an evaluation."""

    def __call__(self, config: C_contra, sums: Mapping[str, float], batch: Batch) -> dict[str, float]: ...


class Finish(Protocol[C_contra, D_contra]):
    """Runs once, after the last step of the schedule: returns other parameters, or None.

    Every process does it, on its CPU, so it is a function of its arguments alone. `tell` takes a row for the observer.
    """

    def __call__(
        self,
        config: C_contra,
        constants: Constants,
        params: Params,
        data: D_contra,
        workers: Workers,
        tell: Callable[[dict[str, Any]], None],
    ) -> Params | None: ...


@dataclass(frozen=True)
class Family(Generic[C, D]):
    name: str
    config: type[C]
    tasks: Mapping[str, Task]

    layout: Callable[[C], Layout]  # like all below: of a config that `prepare` has seen
    init: Callable[[C, DTypeLike], Params]
    constants: Callable[[C], Constants]
    slot_size: Callable[[C], int]  # numbers per unit; the parameter count where there is no pull_back
    group_bytes: Callable[[C], int]  # working memory of one group in flight, slots not counted

    load: Callable[[C], D]
    batch: MakeBatch[C, D]
    evaluation: MakeEvaluation[C, D]
    groups: Callable[[C, Batch], Array]  # units per group, a function of config and batch alone
    kernels: Mapping[str, Kernels]  # by kind of device; always "cpu"
    reference: Reference[C]
    metrics: Metrics
    summarise: Summarise[C]
    model: MakeModel[C]  # what samebits.load returns
    # Columns of metrics.csv that are sums, and over how many of what: ("cell", config → {column: how many}). So curves
    # of a batch and of an evaluation can be compared. None where all of them are means.
    sums: tuple[str, Callable[[C], Mapping[str, float]]] | None = None

    # Mutable state: arrays that a run changes besides its parameters, such as running statistics, with their initial
    # values. They are in checkpoints, in every process of a group and on the device; `model` gets them with the
    # constants. Kernels.update_state changes them once a step, from `statistics` numbers that follow the gradient in
    # each slot and are merged by the same tree.
    state: Callable[[C], Mapping[str, Array]] = field(default=lambda config: {})
    statistics: Callable[[C], int] = field(default=lambda config: 0)

    # (config, settings as a user gives them) → settings as a config keeps them: files are opened and functions called
    # here, so that a config only checks values.
    read_settings: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]] = field(
        default=lambda config, settings: settings
    )
    # Once, when training begins: the config with the keys that follow from the data filled in (a vocabulary's size, the
    # data's hash). config.toml keeps them, so that a run knows its data again.
    prepare: Callable[[C], C] = field(default=lambda config: config)
    # Those keys, of a run's config.toml: a new run that is given another one's file finds its own.
    derived: Callable[[Mapping[str, Any]], Collection[str]] = field(default=lambda values: ())
    # A line to print beside the hash of a run whose inputs may differ elsewhere; empty where they cannot.
    caveat: Callable[[C], str] = field(default=lambda config: "")
    # (config, constants of a checkpoint): raises where they are not of this config. Kernels index by them, so they are
    # checked before a kernel sees them. By default they must be those that `constants` makes.
    check_constants: Callable[[C, Constants], None] | None = None
    # Config keys that make a task's canary (verify/canary.py): small, and of nothing that this machine alone has.
    canary: Mapping[str, Any] = field(default_factory=dict)
    # What else a family computes inside the promise, such as samples: (workers) → arrays on fixed inputs, by name.
    probes: Mapping[str, Callable[[Workers], Sequence[Array]]] = field(default_factory=dict)
    finish: Finish[C, D] | None = None

    # The optional parts.
    # (model, workers, perhaps options of its own, as data=): what `samebits eval` shows
    report: Callable[..., Report] | None = None
    glimpse: Glimpse | None = None  # what to show of a model while it trains
    start: Start | None = None  # weights that training begins with instead of those of `init`
    verbs: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # render, sample, predict, circuit …
    # By verb of the command line, then by key: options that are for this family. For `train` a key is a config key, for
    # `eval` an argument of `report`, for others an argument of the verb's function.
    options: Mapping[str, Mapping[str, Option]] = field(default_factory=dict)
    commands: tuple[str, ...] = ()  # what to type after training, DIR for the run's folder; `train` prints the first
    page: Page = field(default_factory=Page)
    bench: Bench = field(default_factory=Bench)


def next_commands(family: Family, folder: str) -> list[str]:
    """The commands to type after training. `folder` is the run's, quoted for a shell."""
    return [re.sub(r"\bDIR\b", lambda match: folder, command) for command in family.commands]


def parameter_count(family: Family, config: TrainConfig) -> int:
    return sum(int(np.prod(shape)) for _, shape in family.layout(config))
