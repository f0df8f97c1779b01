"""samebits render"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samebits import api, files
from samebits.cli.common import CheckpointOption, DeviceOption, InexactOption, RunPath, WorkerOption, computed_by
from samebits.cli.family_options import given, of_run
from samebits.cli.terminal import echo
from samebits.devices.choose import device_for
from samebits.errors import SamebitsError
from samebits.training.computation import kernels_for


def render(
    context: typer.Context,
    folder: RunPath,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of the random start, or of the expressions shown")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="folder for the pictures; default: DIR/pictures")] = None,
    workers: WorkerOption = "auto",
    device: DeviceOption = "cpu",
    inexact: InexactOption = False,
    checkpoint: CheckpointOption = "last",
) -> None:
    """Draw what was learned: a rollout as animated GIF and PNG strip, or input, answer and target as graphs."""
    run = api.open_run(folder)
    if "render" not in run.family.verbs:
        raise SamebitsError(f"{folder} is a {run.family.name} run; it has no pictures; try: samebits eval {folder}")
    draw = run.family.verbs["render"]
    options = given(context, run.family, of_run(run.task, run.family))
    target = files.output_folder(folder, "pictures", out)
    with device_for(device, workers, inexact) as used:
        kernels_for(run.family, used)
        paths = draw(api.load(folder, checkpoint), target, seed=seed, device=used, **options)
    for path in paths:
        echo(f"wrote {path}")
    for told in filter(None, (run.doubts, computed_by(used))):
        echo(told)
