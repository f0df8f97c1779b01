"""samebits export"""

from __future__ import annotations

import shlex
import sys
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from samebits import api, files
from samebits.cli.common import CheckpointOption, RunPath
from samebits.cli.family_options import given, of_run
from samebits.cli.terminal import echo, say
from samebits.errors import SamebitsError
from samebits.hardware.proof import NotEqualError


def export(
    context: typer.Context,
    folder: RunPath,
    out: Annotated[Path | None, typer.Option("--out", help="folder for the files; default: DIR/export")] = None,
    checkpoint: CheckpointOption = "last",
) -> None:
    """Write what was learned for others to use: a GPT's weights, an automaton's circuit, proved equal."""
    run = api.open_run(folder)
    if "export" not in run.family.verbs:
        raise SamebitsError(
            f"{folder} is a {run.family.name} run; there is no export of those; try: samebits eval {folder}"
        )
    verb = run.family.verbs["export"]
    options = given(context, run.family, of_run(run.task, run.family))
    told: dict[str, Any] = {"name": run.task, "command": f"samebits {shlex.join(sys.argv[1:])}", "tell": say}
    options |= {key: value for key, value in told.items() if key in signature(verb).parameters}
    to = options.pop("to", None)
    target = files.output_folder(folder, "export", out)
    try:
        found = verb(api.load(folder, checkpoint), to, target, **options)
    except NotEqualError as error:
        say(error.drawing)
        raise
    for line in found.lines:
        echo(line)
    for path in found.paths:
        echo(f"wrote {path}")
