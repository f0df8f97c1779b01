"""samebits from Python: the same as the command line, NumPy in and out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from samebits import checks
from samebits.alike import check_alike, facts, folder_of_job, one_folder, start_of
from samebits.arithmetic.arrays import Array
from samebits.config import TrainConfig, override, read_toml
from samebits.devices.choose import device_for
from samebits.devices.cpu.modes import require_nearest
from samebits.devices.interface import Device
from samebits.errors import SamebitsError
from samebits.families import discover, find_preset, find_task
from samebits.groups.torchrun import joined, links_for
from samebits.metrics import read_columns
from samebits.progress import shown_compiling, watched
from samebits.report import notebook
from samebits.report.plots import Picture, plot_losses
from samebits.runs.loop import Interrupts, Observer, Outcome, latest_weights, run_training
from samebits.runs.runfolder import METRICS, RunFolder
from samebits.training.ahead import compile_ahead
from samebits.training.computation import kernels_for
from samebits.training.contract import Family
from samebits.training.params import views, weights_hash
from samebits.training.parts import Model
from samebits.training.trainer import resolve

RUNS = Path("runs")
MOST_NAME = 40  # characters of a checkpoint's name
M = TypeVar("M")


@dataclass(eq=False)
class Run:
    """A run folder after training."""

    path: Path
    outcome: Outcome

    def __repr__(self) -> str:
        return f"Run({self.path}, step {self.outcome.step}, weights sha256:{self.outcome.weights[:12]}…)"

    @cached_property
    def weights(self) -> Array:
        """The flat float32 vector of the last checkpoint."""
        return latest_weights(open_run(self.path))[0]

    @property
    def weights_hash(self) -> str:
        """SHA-256 of the weights' bytes, as `samebits train` prints it."""
        return weights_hash(self.weights)

    @cached_property
    def metrics(self) -> dict[str, Array]:
        """metrics.csv by column, as pandas.DataFrame takes it; what was not measured at a step is NaN.

        Automata sum their losses over cells and samples; beside these are means, `…_per_cell`, which can be compared.
        """
        columns, (per, counts) = read_columns(self.path / METRICS, self.path), sums_of(open_run(self.path))
        means = {f"{name}_per_{per}": columns[name] / count for name, count in counts.items() if name in columns}
        return {**columns, **means, "step": columns["step"].astype(np.int64)}

    def plot(self) -> Picture:
        """The losses over the steps, drawn anew as plots/loss.png in the run folder. A notebook shows it."""
        run = open_run(self.path)
        path = plot_losses(self.path, run.task, *sums_of(run))
        if path is None:
            raise SamebitsError(f"{self.path} has too few losses to draw a curve; train for more steps")
        return Picture(path)

    @property
    def model(self) -> Model:
        """What `load` gives for this run."""
        return load(self.path)

    def _repr_html_(self) -> str:
        """The run as a notebook shows it."""
        run, steps = open_run(self.path), self.metrics["step"]
        facts = {
            "preset": run.preset,
            "step": f"{int(steps[-1]) if len(steps) else 0:,} of {run.config.steps:,}",
            "parameters": f"{self.weights.size:,}",
            "weights": f"sha256:{self.weights_hash[:16]}…",
        }
        rows = notebook.sizes(views(run.family.layout(run.config), self.weights))
        return notebook.card(f"{run.task} in {self.path}", facts, rows, notebook.loss_curve(self.metrics))


def configure(
    task: str, preset: str | None, settings: Mapping[str, Any], file: Path | None = None
) -> tuple[Family, str, TrainConfig]:
    """A checked config: the preset, then the TOML file's keys, then the settings."""
    require_nearest()
    task, preset = checks.text("task", task), None if preset is None else checks.text("preset", preset)
    for key in settings:
        checks.text("a settings key", key)
    family, _ = find_task(task)
    tables = read_toml(file) if file else {}
    # A run's own config.toml can be given as it is: its keys are in a table of their own.
    from_file = tables.get("config", tables)
    if not isinstance(from_file, dict):
        raise SamebitsError(f"{file}: config is {from_file!r}; it must be a table of keys; write [config] above them")
    if "run" in tables:
        theirs = tables["run"].get("task") if isinstance(tables["run"], dict) else None
        if theirs != task:
            raise SamebitsError(
                f"{file} is of task {theirs}; this is {task}; use: samebits train {theirs} --config {file}"
            )
        filled_in = {*family.derived(from_file), *(["schedule_steps"] if _follows_steps(from_file) else [])}
        from_file = {key: value for key, value in from_file.items() if key not in filled_in}
    chosen = "full" if preset is None else preset
    base, given = find_preset(task, chosen), {**from_file, **settings}
    given = dict(family.read_settings(base, given))
    return family, chosen, override(base, {**_shorter_warm_up(base, given), **given})


def _shorter_warm_up(preset: TrainConfig, given: Mapping[str, Any]) -> dict[str, int]:
    """A preset's warm-up is for the preset's length: of a run that is asked to be shorter it takes a tenth at most."""
    length = given.get("schedule_steps") or given.get("steps")
    if "warmup_steps" in given or not isinstance(length, int) or length >= (preset.schedule_steps or preset.steps):
        return {}
    return {"warmup_steps": min(preset.warmup_steps, max(0, length) // 10)}


def _follows_steps(values: Mapping[str, Any]) -> bool:
    """Whether a run's schedule was as long as the run, as it is unless told otherwise."""
    return values.get("schedule_steps") == values.get("steps")


def new_folder(task: str) -> Path:
    """The next free runs/TASK-N, made: nobody else gets it."""
    number = 1
    while True:
        path = RUNS / f"{task}-{number}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise SamebitsError(f"{path} cannot be made ({error.strerror}); name a folder with --out") from None
        else:
            return path


def open_run(path: str | Path) -> RunFolder:
    require_nearest()
    return RunFolder.open(checks.path("path", path), discover())


def open_device(
    device: str = "cpu", *, workers: int | str = "auto", inexact: bool = False
) -> AbstractContextManager[Device]:
    """A device for many calls: `with open_device("gpu") as device: model.rollout(…, device=device)`.

    cpu, gpu, cuda or opencl, cuda:1 the second such. One that cannot keep the promise of equal bits is refused, but
    with `inexact`. `workers` are the CPU's, for what the device has no kernels for.
    """
    return device_for(device, workers, checks.flag("inexact", inexact))


def sums_of(run: RunFolder) -> tuple[str, Mapping[str, float]]:
    """Which columns of a run's metrics are sums, and over how many of what."""
    sums = run.family.sums
    return (sums[0], sums[1](run.config)) if sums else ("", {})


def train(
    task: str,
    *,
    preset: str | None = None,
    workers: int | str = "auto",
    device: str | Device = "cpu",
    inexact: bool = False,
    out: str | Path | None = None,
    config_file: str | Path | None = None,
    observe: Observer | None = None,
    interrupts: Interrupts | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Run:
    """Train a task from nothing into a new run folder. Settings are config keys: steps, batch_size, seed, lr …

    `observe(step, row)` is called after every step; row is a dict of the metrics where they were logged, as in
    metrics.csv (`step`, the losses, `grad_norm`, `lr`, and `eval_…` where it was evaluated), and empty at other steps.
    `progress`: True shows a bar, False does not; left out, it is shown at a terminal and in a notebook. The first
    Ctrl-C saves and returns, with `run.outcome.interrupted`; the second is a KeyboardInterrupt, and so is any while
    kernels are compiled, once on a machine, before there is a folder. `device` is cpu, gpu, cuda or opencl, cuda:1 the
    second such, and changes no bit; one that cannot promise that is refused, but with `inexact`.
    """
    _check_callbacks(observe, interrupts, progress)
    inexact = checks.flag("inexact", inexact)
    chosen_path = None if out is None else checks.path("out", out)
    file = None if config_file is None else checks.path("config_file", config_file)
    family, chosen, config = configure(task, preset, settings, file)
    with joined() as near, device_for(device, workers, inexact) as team:
        kernels_for(family, team)
        links = links_for(team, near)
        ready = resolve(family, config)  # first what may be refused: then nothing is left behind
        check_alike(links, lambda: facts(task, ready, "none", team) if links else {})
        with shown_compiling(progress):
            compile_ahead(family, ready, team)
        run, again = one_folder(
            links,
            lambda: chosen_path or folder_of_job(RUNS, task) or new_folder(task),
            lambda path: RunFolder.create(path, family, task, chosen, ready),
            lambda path: RunFolder(path, family, task, chosen, ready, ready.model_dump(mode="json")),
        )
        start = "last" if again else None
        with watched(progress, family, ready, observe) as told:
            return Run(run.path, run_training(run, team, start, told, interrupts, links=links))


def resume(
    path: str | Path,
    *,
    workers: int | str = "auto",
    device: str | Device = "cpu",
    inexact: bool = False,
    checkpoint: str | int = "last",
    observe: Observer | None = None,
    interrupts: Interrupts | None = None,
    other_bits: bool = False,
    new_metrics: bool = False,
    progress: bool | None = None,
    **settings: Any,
) -> Run:
    """Continue a run exactly, on whatever device. Settings are keys that change no bit of it: steps, the new total,
    keep, slot_memory …

    A run killed before its first checkpoint starts at step 0. One of a version that computed other bits is refused, or
    with `other_bits` continued, and its config.toml says so. One whose metrics.csv was changed is refused, or with
    `new_metrics` continued: the changed file is kept beside, and a new one begins. checkpoint is "last", "best" or a
    step number. `observe` and `progress` are as in `train`.
    """
    _check_callbacks(observe, interrupts, progress)
    folder, which = checks.path("path", path), _checkpoint(checkpoint)
    inexact = checks.flag("inexact", inexact)
    other_bits, new_metrics = checks.flag("other_bits", other_bits), checks.flag("new_metrics", new_metrics)
    with joined() as near, device_for(device, workers, inexact) as team:
        links = links_for(team, near)
        run: RunFolder | None = None

        def opened() -> dict[str, str]:
            nonlocal run
            run = open_run(folder)
            run.continue_bits(other_bits)
            if settings:
                run.change(settings)
            return facts(run.task, run.config, start_of(run, which), team) if links else {}

        check_alike(links, opened)
        assert run is not None
        with shown_compiling(progress), watched(progress, run.family, run.config, observe) as told:
            return Run(run.path, run_training(run, team, which, told, interrupts, new_metrics, links))


def _check_callbacks(observe: Any, interrupts: Any, progress: Any) -> None:
    if progress is not None:
        checks.flag("progress", progress)
    if observe is not None and not callable(observe):
        raise checks.refuse("observe", observe, "a function of step and row")
    if interrupts is not None and not isinstance(interrupts, Interrupts):
        raise checks.refuse("interrupts", interrupts, "a samebits.runs.loop.Interrupts", "leave it out")


def _checkpoint(given: Any) -> str:
    """last, best or a step number, which may be a number."""
    name = f"{step}" if (step := checks.index_of(given)) is not None and abs(step) <= checks.MOST else given
    if not isinstance(name, str) or len(name) > MOST_NAME:
        raise checks.refuse("checkpoint", given, "last, best or a step number")
    return checks.text("checkpoint", name)


def _dtype(given: Any) -> str:
    """float32 or float64, as a text or as NumPy's types."""
    name = given if isinstance(given, str) else np.dtype(given).name if isinstance(given, type | np.dtype) else None
    if name not in ("float32", "float64"):
        raise checks.refuse("dtype", given, "float32 or float64")
    return name


@overload
def load(path: str | Path, checkpoint: str | int = "last", dtype: str = "float32") -> Model: ...


@overload
def load(path: str | Path, checkpoint: str | int = "last", dtype: str = "float32", *, kind: type[M]) -> M: ...


def load(path: str | Path, checkpoint: str | int = "last", dtype: str = "float32", *, kind: Any = None) -> Any:
    """The trained model of a run folder, or of one checkpoint folder inside it.

    checkpoint is "last", "best" or a step number, dtype "float32" or "float64". What it can do depends on its family.
    `kind`, one of LogicModel, GraphModel and GptModel, refuses the others, and tells a type checker which it is.
    """
    folder, which, dtype = checks.path("path", path), _checkpoint(checkpoint), _dtype(dtype)
    if kind is not None and not isinstance(kind, type):
        raise checks.refuse(
            "kind", kind, "a class of models", "leave it out, or give LogicModel, GraphModel or GptModel"
        )
    if folder.parent.name == "checkpoints":
        folder, which = folder.parent.parent, folder.name
    run = open_run(folder)
    params, found, _ = latest_weights(run, which)
    model = run.family.model(run.config, params.astype(dtype, copy=False), found.arrays)
    if kind is not None and not isinstance(model, kind):
        raise SamebitsError(f"{path} is a run of {run.family.name}, whose model is no {kind.__name__}; leave kind out")
    return model
