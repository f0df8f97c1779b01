"""weft from Python: the same as the command line, NumPy in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from weft.config import TrainConfig, override, read_toml
from weft.engine.arrays import Array
from weft.engine.family import Family
from weft.engine.params import weights_hash
from weft.engine.runfolder import METRICS, RunFolder
from weft.engine.train import Observer, Outcome, latest_weights, resolve, run_training
from weft.engine.workers import Workers
from weft.errors import WeftError
from weft.families import discover, find_preset, find_task
from weft.report.plots import read_columns

RUNS = Path("runs")


@dataclass
class Run:
    """A run folder after training."""

    path: Path
    outcome: Outcome

    @cached_property
    def weights(self) -> Array:
        """The flat float32 vector of the last checkpoint."""
        return latest_weights(open_run(self.path))[0]

    @property
    def weights_hash(self) -> str:
        return weights_hash(self.weights)

    @cached_property
    def metrics(self) -> dict[str, Array]:
        """metrics.csv by column; what was not measured at a step is NaN."""
        return read_columns(self.path / METRICS)

    @property
    def model(self) -> Any:
        return load(self.path)


def configure(
    task: str, preset: str | None, settings: Mapping[str, Any], file: Path | None = None
) -> tuple[Family, str, TrainConfig]:
    """A checked config: the preset, then the TOML file's keys, then the settings."""
    family, _ = find_task(task)
    tables = read_toml(file) if file else {}
    # A run's own config.toml can be given as it is: its keys are in a table of their own.
    from_file = tables.get("config", tables)
    if not isinstance(from_file, dict):
        raise WeftError(f"{file}: config is {from_file!r}; it must be a table of keys; write [config] above them")
    chosen = preset or "full"
    return family, chosen, override(find_preset(task, chosen), {**from_file, **settings})


def new_folder(task: str) -> Path:
    """The next free runs/TASK-N."""
    number = 1
    while (RUNS / f"{task}-{number}").exists():
        number += 1
    return RUNS / f"{task}-{number}"


def open_run(path: str | Path) -> RunFolder:
    return RunFolder.open(Path(path), discover())


def train(
    task: str,
    *,
    preset: str | None = None,
    workers: int | str = "auto",
    out: str | Path | None = None,
    config_file: str | Path | None = None,
    observe: Observer | None = None,
    **settings: Any,
) -> Run:
    """Train a task from nothing into a new run folder. Settings are config keys: steps, batch_size, seed, lr …"""
    family, chosen, config = configure(task, preset, settings, Path(config_file) if config_file else None)
    with Workers(workers) as team:
        path = Path(out) if out is not None else new_folder(task)
        run = RunFolder.create(path, family, task, chosen, resolve(family, config))
        return Run(path, run_training(run, team, observe=observe))


def resume(
    path: str | Path,
    *,
    steps: int | None = None,
    workers: int | str = "auto",
    checkpoint: str = "last",
    keep: int | None = None,
    observe: Observer | None = None,
) -> Run:
    """Continue a run exactly; `steps` is the new total. A run killed before its first checkpoint starts at step 0."""
    with Workers(workers) as team:
        run = open_run(path)
        changed = {key: value for key, value in (("steps", steps), ("keep", keep)) if value is not None}
        if changed:
            run.change(changed)
        return Run(run.path, run_training(run, team, checkpoint, observe))


def load(path: str | Path, checkpoint: str = "last", dtype: str = "float32") -> Any:
    """The trained model of a run folder, or of one checkpoint folder inside it."""
    folder = Path(path)
    if folder.parent.name == "checkpoints":
        folder, checkpoint = folder.parent.parent, folder.name
    run = open_run(folder)
    params, found, _ = latest_weights(run, checkpoint)
    return run.family.model(run.config, params.astype(dtype, copy=False), found.constants)
