"""samebits eval"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samebits import api
from samebits.cli.common import (
    CheckpointOption,
    DeviceOption,
    InexactOption,
    RunPath,
    WorkerOption,
    computed_by,
    print_table,
)
from samebits.cli.terminal import echo
from samebits.engine.device import Device
from samebits.engine.parts import Report
from samebits.engine.train import latest_weights
from samebits.engine.trainer import kernels_for
from samebits.errors import SamebitsError
from samebits.gpu.choose import device_for
from samebits.report.plots import plot_curves


def evaluate(
    folder: RunPath,
    workers: WorkerOption = "auto",
    device: DeviceOption = "cpu",
    inexact: InexactOption = False,
    checkpoint: CheckpointOption = "last",
    against: Annotated[
        Path | None, typer.Option("--against", help="another run: its curve goes into the same plot")
    ] = None,
) -> None:
    """Test a trained model: full evaluation sets, and the experiments of its family."""
    for run in filter(None, (folder, against)):
        api.open_run(run)  # before minutes go by
    with device_for(device, workers, inexact) as team:
        found, title, path = _report(folder, checkpoint, team)
        curves = found.curves
        if against is not None:
            other, _, _ = _report(against, checkpoint, team)
            if not (found.curves and other.curves):
                raise SamebitsError(f"--against {against}: these runs have no curve to compare; leave it out")
            both = (folder, found), (against, other)
            curves = {f"{run.name}: {name}": curve for run, of in both for name, curve in of.curves.items()}
    rows = [tuple(_shown(cell) for cell in row.values()) for row in found.rows]
    print_table(tuple(found.rows[0]), rows, title)
    echo(f"checkpoint {path}")
    for told in filter(None, (api.open_run(folder).doubts, computed_by(team))):
        echo(told)
    if curves:
        drawn = plot_curves(folder / "plots" / f"{found.plot}.png", curves, found.title, found.x, found.y)
        echo(f"wrote {drawn}")


def _report(folder: Path, checkpoint: str, team: Device) -> tuple[Report, str, Path]:
    run = api.open_run(folder)
    params, found, path = latest_weights(run, checkpoint)
    if run.family.report is None:
        raise SamebitsError(f"{folder} is a {run.family.name} run; that family has no tests of its own")
    kernels_for(run.family, team)
    model = run.family.model(run.config, params, found.constants)
    return run.family.report(model, team), f"{run.task}, {path.name}", path


def _shown(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
