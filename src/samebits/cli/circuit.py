"""samebits circuit"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samebits import api
from samebits.cli.common import CheckpointOption, RunPath, print_table
from samebits.cli.terminal import echo
from samebits.errors import SamebitsError


def circuit(
    folder: RunPath,
    checkpoint: CheckpointOption = "last",
    out: Annotated[Path | None, typer.Option("--out", help="folder for the files; default: DIR/pictures")] = None,
    all_channels: Annotated[
        bool, typer.Option("--all-channels", help="keep every channel, not only those that reach the visible ones")
    ] = False,
) -> None:
    """Show the learned circuit: count its gates, prune it, check it, draw it."""
    run = api.open_run(folder)
    if "circuit" not in run.family.verbs:
        raise SamebitsError(
            f"{folder} is a {run.family.name} run; circuit reads logic gates; try: samebits eval {folder}"
        )
    found = run.family.verbs["circuit"](api.load(folder, checkpoint), out or folder / "pictures", all_channels)
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
    echo(f"after pruning    {len(found.circuit.ops):,} gates on {len(found.circuit.inputs):,} inputs")
    echo(f"checked          {found.proof}")
    if found.not_drawn:
        echo(f"not drawn: {found.not_drawn}")
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
