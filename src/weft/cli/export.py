"""weft export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft import api
from weft.cli.common import CheckpointOption, RunPath
from weft.errors import WeftError


def export(
    folder: RunPath,
    to: Annotated[str, typer.Option("--to", help="the format: safetensors")] = "safetensors",
    out: Annotated[Path | None, typer.Option("--out", help="folder for the files; default: DIR/export")] = None,
    checkpoint: CheckpointOption = "last",
) -> None:
    """Write the weights for others to load."""
    run = api.open_run(folder)
    if "export" not in run.family.verbs:
        raise WeftError(f"{folder} is a {run.family.name} run; there is no export of those; try: weft eval {folder}")
    for path in run.family.verbs["export"](api.load(folder, checkpoint), to, out or folder / "export"):
        typer.echo(f"wrote {path}")
