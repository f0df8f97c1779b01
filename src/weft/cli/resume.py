"""weft resume"""

from __future__ import annotations

from typing import Annotated

import typer

from weft import api
from weft.cli.common import CheckpointOption, ProgressView, RunPath, WorkerOption, work_of
from weft.cli.train import finish


def resume(
    folder: RunPath,
    steps: Annotated[int | None, typer.Option("--steps", help="the new total")] = None,
    workers: WorkerOption = "auto",
    checkpoint: CheckpointOption = "last",
    keep: Annotated[int | None, typer.Option("--keep", help="checkpoints to keep, besides the best")] = None,
) -> None:
    """Continue a run exactly where its last checkpoint left it."""
    run = api.open_run(folder)
    with ProgressView(steps or run.config.steps, work=work_of(run.family, run.config)) as view:
        done = api.resume(folder, steps=steps, workers=workers, checkpoint=checkpoint, keep=keep, observe=view)
    finish(done)
