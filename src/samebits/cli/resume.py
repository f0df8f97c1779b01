"""samebits resume"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from samebits import api
from samebits.cli.common import (
    CheckpointOption,
    DeviceOption,
    InexactOption,
    ProgressView,
    RunPath,
    WorkerOption,
    settings_of,
    work_of,
)
from samebits.cli.launch import ProcessesOption, launch, without_processes
from samebits.cli.sweep import train_sweep
from samebits.cli.terminal import echo, say
from samebits.cli.train import finish, interrupts
from samebits.errors import SamebitsError
from samebits.groups.torchrun import launched
from samebits.progress import with_samples
from samebits.sweeping import SWEEP, reopen

ResumeSetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="a key that changes no bit: data's path, slot_memory, log_every …"),
]


def resume(
    folder: RunPath,
    steps: Annotated[int | None, typer.Option("--steps", help="the new total")] = None,
    workers: WorkerOption = "auto",
    device: DeviceOption = "cpu",
    inexact: InexactOption = False,
    checkpoint: CheckpointOption = "last",
    keep: Annotated[int | None, typer.Option("--keep", help="checkpoints to keep, besides the best")] = None,
    setting: ResumeSetOption = None,
    other_bits: Annotated[
        bool,
        typer.Option("--other-bits", help="go on with a run of a version that computed other bits; the folder says so"),
    ] = False,
    new_metrics: Annotated[
        bool,
        typer.Option("--new-metrics", help="go on though metrics.csv was changed: it is kept beside, a new one begins"),
    ] = False,
    processes: ProcessesOption = None,
) -> None:
    """Continue a run exactly where its last checkpoint left it; or a sweep."""
    if (folder / SWEEP).is_file():
        train_sweep(reopen(folder), "auto")
        return
    if processes is not None:
        api.open_run(folder)  # what is refused is refused once
        launch(processes, without_processes(sys.argv[1:]))
    settings = settings_of(setting, steps=steps, keep=keep)
    with view_of(folder, settings.get("steps")) as view:
        done = api.resume(
            folder, workers=workers, device=device, inexact=inexact, checkpoint=checkpoint,
            observe=with_samples(view, say), interrupts=interrupts(), other_bits=other_bits, new_metrics=new_metrics,
            progress=False, **settings,
        )  # fmt: skip
    if view.start == 0 and not done.outcome.interrupted:
        echo(f"no step to do: the run is at step {done.outcome.step}, its end; to go on, raise --steps")
    finish(done)


def view_of(folder: Path, steps: int | None) -> ProgressView:
    """Of a run that is about to go on; where this process cannot see it, its group says so."""
    try:
        run = api.open_run(folder)
    except SamebitsError:
        if not launched():
            raise
        return ProgressView(1)
    return ProgressView(steps or run.config.steps, work=work_of(run.family, run.config))
