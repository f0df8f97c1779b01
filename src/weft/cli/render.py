"""weft render"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from weft import api
from weft.cli.common import CheckpointOption, RunPath, WorkerOption
from weft.errors import WeftError


def render(
    folder: RunPath,
    steps: Annotated[int | None, typer.Option("--steps", help="CA steps to show")] = None,
    grid: Annotated[str | None, typer.Option("--grid", metavar="HxW", help="grid size, such as 64x64")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of the random start")] = 0,
    soft: Annotated[bool, typer.Option("--soft", help="the soft gates instead of the learned circuit")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="folder for the pictures; default: DIR/pictures")] = None,
    damage: Annotated[
        str | None,
        typer.Option("--damage", metavar="HxW@FIRST-LAST", help="clear a block in the middle, such as 20x20@20-60"),
    ] = None,
    asynchronous: Annotated[bool, typer.Option("--async", help="let each cell update with probability 0.6")] = False,
    workers: WorkerOption = "auto",
    checkpoint: CheckpointOption = "last",
) -> None:
    """Draw a rollout: an animated GIF and a PNG strip."""
    run = api.open_run(folder)
    if "render" not in run.family.verbs:
        raise WeftError(f"{folder} is a {run.family.name} run; render draws automata; try: weft eval {folder}")
    size = parse_grid(grid) if grid else None
    model = api.load(folder, checkpoint)
    paths = run.family.verbs["render"](
        model, out or folder / "pictures", steps, size, seed, soft, damage, asynchronous, workers
    )
    for path in paths:
        typer.echo(f"wrote {path}")


def parse_grid(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)x(\d+)", text.strip().lower())
    if not found:
        raise WeftError(f"grid is {text!r}; it must be HEIGHTxWIDTH; for example --grid 64x64")
    return int(found[1]), int(found[2])
