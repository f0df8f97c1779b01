"""samebits render"""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path
from typing import Annotated

import typer

from samebits import api, files
from samebits.cli.common import CheckpointOption, DeviceOption, InexactOption, RunPath, WorkerOption, computed_by
from samebits.cli.terminal import echo
from samebits.devices.choose import device_for
from samebits.errors import SamebitsError
from samebits.printing import shown
from samebits.training.trainer import kernels_for


def render(
    folder: RunPath,
    steps: Annotated[int | None, typer.Option("--steps", help="automata: CA steps to show")] = None,
    grid: Annotated[
        str | None, typer.Option("--grid", metavar="HxW", help="automata: grid size, such as 64x64")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of the random start, or of the expressions shown")] = 0,
    soft: Annotated[bool, typer.Option("--soft", help="automata: the soft gates, not the learned circuit")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="folder for the pictures; default: DIR/pictures")] = None,
    damage: Annotated[
        str | None,
        typer.Option("--damage", metavar="HxW@FIRST-LAST", help="automata: clear a block, such as 20x20@20-60"),
    ] = None,
    asynchronous: Annotated[bool, typer.Option("--async", help="automata: cells update with chance 0.6")] = False,
    workers: WorkerOption = "auto",
    device: DeviceOption = "cpu",
    inexact: InexactOption = False,
    checkpoint: CheckpointOption = "last",
) -> None:
    """Draw what was learned: a rollout as animated GIF and PNG strip, or input, answer and target as graphs."""
    run = api.open_run(folder)
    if "render" not in run.family.verbs:
        raise SamebitsError(f"{folder} is a {run.family.name} run; it has no pictures; try: samebits eval {folder}")
    asked = {"steps": steps, "grid": parse_grid(grid) if grid else None, "soft": soft, "damage": damage}
    asked |= {"asynchronous": asynchronous}
    draw = run.family.verbs["render"]
    options = {key: value for key, value in asked.items() if value is not None and value is not False}
    for key in options:
        if key not in signature(draw).parameters:
            flag = "async" if key == "asynchronous" else key
            raise SamebitsError(
                f"--{flag} is not for {run.task}: a {run.family.name} run has no such option; leave it out"
            )
    target = files.output_folder(folder, "pictures", out)
    with device_for(device, workers, inexact) as used:
        kernels_for(run.family, used)
        paths = draw(api.load(folder, checkpoint), target, seed=seed, device=used, **options)
    for path in paths:
        echo(f"wrote {path}")
    for told in filter(None, (run.doubts, computed_by(used))):
        echo(told)


def parse_grid(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text.strip().lower())
    if not found:
        raise SamebitsError(f"grid is {shown(text)}; it must be HEIGHTxWIDTH; for example --grid 64x64")
    return int(found[1]), int(found[2])
