"""samebits export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samebits import api
from samebits.cli.common import CheckpointOption, RunPath
from samebits.cli.terminal import echo
from samebits.errors import SamebitsError


def export(
    folder: RunPath,
    to: Annotated[str, typer.Option("--to", help="the format: safetensors")] = "safetensors",
    out: Annotated[Path | None, typer.Option("--out", help="folder for the files; default: DIR/export")] = None,
    checkpoint: CheckpointOption = "last",
) -> None:
    """Write the weights for others to load."""
    run = api.open_run(folder)
    if "export" not in run.family.verbs:
        raise SamebitsError(
            f"{folder} is a {run.family.name} run; there is no export of those; try: samebits eval {folder}"
        )
    for path in run.family.verbs["export"](api.load(folder, checkpoint), to, out or folder / "export"):
        echo(f"wrote {path}")
