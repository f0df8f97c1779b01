"""samebits circuit"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from samebits import api, files
from samebits.checks import parse_grid
from samebits.cli.common import CheckpointOption, RunPath, print_table
from samebits.cli.terminal import echo, say
from samebits.errors import SamebitsError
from samebits.hardware.fpga import DEVICES

EXTRA = "pip install 'samebits[hardware]'"


def circuit(
    folder: RunPath,
    checkpoint: CheckpointOption = "last",
    out: Annotated[Path | None, typer.Option("--out", help="folder for the files; default: DIR/pictures")] = None,
    all_channels: Annotated[
        bool, typer.Option("--all-channels", help="keep every channel, not only those that reach the visible ones")
    ] = False,
    minimise: Annotated[
        float | None,
        typer.Option(
            "--minimise", metavar="SECONDS", help="search this long for fewer gates; default: a second or two"
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--fpga", metavar="DEVICE", help=f"place and route a grid and write its bitstream: {', '.join(DEVICES)}"
        ),
    ] = None,
    grid: Annotated[str | None, typer.Option("--grid", metavar="HxW", help="with --fpga: its size; 16x16")] = None,
) -> None:
    """Show the learned circuit: count its gates, make them fewer, prove it, draw it; or put it on an FPGA."""
    run = api.open_run(folder)
    if "circuit" not in run.family.verbs:
        raise SamebitsError(
            f"{folder} is a {run.family.name} run; circuit reads logic gates; try: samebits eval {folder}"
        )
    if device is not None:
        return _on_fpga(run.task, run.family.verbs["fpga"], folder, checkpoint, device, grid, minimise, out)
    if grid is not None:
        raise SamebitsError("--grid goes with --fpga here; for Verilog of a grid: samebits export DIR --grid 16x16")
    show = run.family.verbs["circuit"]
    target = files.output_folder(folder, "pictures", out)
    found = show(api.load(folder, checkpoint), target, all_channels, minimise, say)
    kinds = found.counts
    rows = [
        (name, *(f"{count:,}" for count in (perceive, update, perceive + update)))
        for name, perceive, update in kinds.rows()
        if perceive or update
    ]
    print_table(("operation", "perceive", "update", "both"), rows, f"{run.task}, gates by operation")
    kept = found.live if not all_channels else tuple(range(len(found.circuit.outputs)))
    echo(f"gates            {kinds.total:,}, of which {kinds.active:,} active (not just a wire)")
    echo(f"live channels    {_listed(found.live)}: all that can ever influence {_listed(found.visible)}")
    echo(
        f"one cell         {found.cell:,} gates, perceive once per channel; "
        f"{found.reaching:,} reach channel {_listed(kept)}; {found.reaching_active:,} of those are active"
    )
    echo(f"after pruning    {_sized(found.before)}")
    echo(f"after searching  {_sized(found.after)}, on {len(found.circuit.inputs):,} inputs")
    echo(f"checked          {found.proof}")
    echo(f"                 {found.proved or f'not proved by SAT: {EXTRA}'}")
    if found.not_drawn:
        echo(f"not drawn: {found.not_drawn}")
    for path in found.paths:
        echo(f"wrote {path}")


def _sized(size: Any) -> str:
    tables = f"four-input tables not counted: {EXTRA}" if size.luts is None else ""
    return f"{size.gates:,} gates, {size.depth} deep; {size.ands:,} and-gates; " + (
        tables or f"{size.luts:,} four-input tables"
    )


def _on_fpga(
    task: str, place: Any, folder: Path, checkpoint: str, device: str, grid: str | None, minimise: float | None,
    out: Path | None,
) -> None:  # fmt: skip
    options: dict[str, Any] = {"grid": parse_grid(grid)} if grid else {}
    command = f"samebits {shlex.join(sys.argv[1:])}"
    target = files.output_folder(folder, "fpga", out)
    model = api.load(folder, checkpoint)
    found = place(model, device, target, name=task, command=command, minimise=minimise, tell=say, **options)
    for line in found.lines:
        echo(line)
    for path in found.paths:
        echo(f"wrote {path}")


def _listed(channels: tuple[int, ...]) -> str:
    """0-3, 5"""
    runs: list[list[int]] = []
    for channel in channels:
        if runs and runs[-1][-1] == channel - 1:
            runs[-1].append(channel)
        else:
            runs.append([channel])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
