"""samebits export"""

from __future__ import annotations

import shlex
import sys
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from samebits import api, checks, files
from samebits.cli.common import CheckpointOption, RunPath
from samebits.cli.render import parse_grid
from samebits.cli.terminal import echo, say
from samebits.errors import SamebitsError
from samebits.hardware.formats import FORMATS
from samebits.hardware.proof import NotEqualError


def export(
    folder: RunPath,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help=f"gpt: safetensors, hf (Hugging Face); automata: {', '.join(FORMATS)}; default: the first",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="folder for the files; default: DIR/export")] = None,
    checkpoint: CheckpointOption = "last",
    grid: Annotated[
        str | None,
        typer.Option("--grid", metavar="HxW", help="automata, Verilog: a whole machine too, with a test bench"),
    ] = None,
    test_steps: Annotated[
        int | None, typer.Option("--test-steps", min=1, max=100_000, help="with --grid: steps of the test bench; 32")
    ] = None,
    prove: Annotated[
        bool | None,
        typer.Option("--prove/--no-prove", help="automata: equality by SAT; default: if python-sat is installed"),
    ] = None,
    minimise: Annotated[
        float | None, typer.Option("--minimise", metavar="SECONDS", help="automata: search this long for fewer gates")
    ] = None,
    all_channels: Annotated[
        bool, typer.Option("--all-channels", help="automata: every channel, not only those that reach the visible ones")
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="automata: write nothing; prove this file of the format instead"),
    ] = None,
) -> None:
    """Write what was learned for others to use: a GPT's weights, an automaton's circuit, proved equal."""
    run = api.open_run(folder)
    if "export" not in run.family.verbs:
        raise SamebitsError(
            f"{folder} is a {run.family.name} run; there is no export of those; try: samebits eval {folder}"
        )
    verb = run.family.verbs["export"]
    asked: dict[str, Any] = {
        "grid": parse_grid(grid) if grid else None, "test_steps": test_steps, "prove": prove, "minimise": minimise,
        "all_channels": all_channels or None, "check": checks.path("check", check) if check else None,
    }  # fmt: skip
    options = {key: value for key, value in asked.items() if value is not None}
    known = signature(verb).parameters
    for key in options:
        if key not in known:
            raise SamebitsError(
                f"--{key.replace('_', '-')} is not for {run.task}: a {run.family.name} run has no such option; "
                "leave it out"
            )
    if check and not check.is_file():
        raise SamebitsError(f"{check} is no file; --check needs one that samebits export wrote; name it")
    told: dict[str, Any] = {"name": run.task, "command": f"samebits {shlex.join(sys.argv[1:])}", "tell": say}
    options |= {key: value for key, value in told.items() if key in known}
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
