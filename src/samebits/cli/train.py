"""samebits train"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from samebits import api
from samebits.cli.common import (
    BatchOption,
    DeviceOption,
    InexactOption,
    PresetOption,
    ProgressView,
    SeedOption,
    SetOption,
    TaskName,
    WorkerOption,
    settings_of,
    work_of,
)
from samebits.cli.family_options import given
from samebits.cli.launch import ProcessesOption, launch, without_processes
from samebits.cli.terminal import echo, say
from samebits.families import find_task
from samebits.groups.torchrun import launched, rank_and_size
from samebits.metrics import read_columns
from samebits.progress import with_samples
from samebits.report.plots import plot_losses
from samebits.runs.loop import Interrupts
from samebits.runs.runfolder import METRICS
from samebits.training.contract import Family, next_commands


def train(
    context: typer.Context,
    task: TaskName,
    preset: PresetOption = None,
    steps: Annotated[int | None, typer.Option("--steps", help="optimiser steps")] = None,
    batch_size: BatchOption = None,
    seed: SeedOption = None,
    workers: WorkerOption = "auto",
    device: DeviceOption = "cpu",
    inexact: InexactOption = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="the run folder; default: the next free runs/TASK-N")
    ] = None,
    keep: Annotated[int | None, typer.Option("--keep", help="checkpoints to keep, besides the best")] = None,
    setting: SetOption = None,
    config: Annotated[Path | None, typer.Option("--config", help="a TOML file of config keys")] = None,
    processes: ProcessesOption = None,
) -> None:
    """Train a task into a new run folder."""
    family, _ = find_task(task)
    shorts = given(context, family, f"task {task}: {family.name} has no such key")
    settings = settings_of(setting, steps=steps, batch_size=batch_size, seed=seed, keep=keep, **shorts)
    chosen = api.configure(task, preset, settings, config)[2]
    if processes is not None:
        launch(processes, without_processes(sys.argv[1:]))
    with ProgressView(chosen.steps, work=work_of(family, chosen)) as view:
        run = api.train(
            task, preset=preset, workers=workers, device=device, inexact=inexact, out=out, config_file=config,
            observe=with_samples(view, say), interrupts=interrupts(), progress=False, **settings,
        )  # fmt: skip
    finish(run)


def interrupts() -> Interrupts:
    """At a terminal: what Ctrl-C does is said, and the second one ends the program without waiting for anybody. Whoever
    tells the program to end (kill, timeout, a batch system) has the step saved as well; of a group of processes whoever
    started it decides."""
    also = () if launched() else (signal.SIGTERM,)
    return Interrupts(lambda text: say(f"\nsamebits: {text}"), lambda: os._exit(130), also)


def hint_at_best(path: Path, family: Family) -> None:
    """Where training went on past its best evaluation, say so: verbs take the last checkpoint unless told otherwise."""
    columns = read_columns(path / METRICS, path)
    found = columns.get(f"eval_{family.metrics.best}", np.zeros(0))
    seen = np.flatnonzero(np.isfinite(found))
    if seen.size == 0:
        return
    best = seen[np.argmin(found[seen])]
    if found[seen[-1]] > found[best]:
        name, step, last = family.metrics.best, int(columns["step"][best]), int(columns["step"][seen[-1]])
        echo(
            f"best evaluation: {name} {found[best]:.5g} at step {step}, against {found[seen[-1]]:.5g} at step {last}; "
            "to use it: --checkpoint best"
        )


def finish(run: api.Run) -> None:
    """The last lines of train and resume: the folder, the hash, what to do next. Of several processes one says them."""
    if rank_and_size()[0] > 0:
        raise typer.Exit(130 if run.outcome.interrupted else 0)
    if run.outcome.interrupted:
        echo(
            f"interrupted after step {run.outcome.step}, saved; "
            f"continue with: samebits resume {shlex.quote(str(run.path))}"
        )
        raise typer.Exit(130)
    if run.outcome.stopped_early:
        echo(f"stopped early at step {run.outcome.step}: the evaluation no longer improved")
    opened = api.open_run(run.path)
    plot_losses(run.path, opened.task, *api.sums_of(opened))
    echo(f"run {run.path}")
    echo(f"weights sha256:{run.outcome.weights}")
    for caveat in filter(None, (opened.family.caveat(opened.config), opened.doubts)):
        echo(f"  {caveat}")
    hint_at_best(run.path, opened.family)
    folder = shlex.quote(str(run.path))
    tests = [f"samebits eval {folder}"] if opened.family.report else []
    for command in [*next_commands(opened.family, folder), *tests][:1]:
        echo(f"next: {command}")
