"""samebits eval"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
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
from samebits.cli.family_options import given, of_run
from samebits.cli.terminal import echo
from samebits.devices.choose import device_for
from samebits.devices.interface import Device
from samebits.errors import SamebitsError
from samebits.metrics import read_columns
from samebits.report.plots import Line, plot_curves, plot_lines
from samebits.runs.loop import latest_weights
from samebits.runs.runfolder import METRICS, RunFolder
from samebits.training.computation import kernels_for
from samebits.training.parts import Report


def evaluate(
    context: typer.Context,
    folder: RunPath,
    workers: WorkerOption = "auto",
    device: DeviceOption = "cpu",
    inexact: InexactOption = False,
    checkpoint: CheckpointOption = "last",
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="DIR", help="another run: the curves of both in one plot"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object instead of a table")] = False,
) -> None:
    """Test a trained model: full evaluation sets, and the experiments of its family."""
    for one in filter(None, (folder, against)):
        api.open_run(one)  # before minutes go by
    if against is not None and against.resolve() == folder.resolve():
        raise SamebitsError(f"--against {against}: that is the same run; name another")
    with device_for(device, workers, inexact) as team:
        found, run, path = _report(folder, checkpoint, team, context)
        drawn = None
        if against is not None:
            drawn = _overlay((folder, run, found), (against, *_other(against, checkpoint, team, found)))
        elif found.curves:
            path_of_plot = folder / "plots" / f"{found.plot}.png"
            drawn = plot_curves(path_of_plot, found.curves, found.title, found.x, found.y, folder)
    if as_json:
        told = {"task": run.task, "run": str(folder), "checkpoint": path.name, "rows": found.rows}
        echo(json.dumps(told, indent=1, ensure_ascii=False, default=_plain))
        return
    columns = [name for name in found.rows[0] if any(row[name] not in (None, "") for row in found.rows)]
    rows = [[_shown(row[name], found.formats.get(name, "")) for name in columns] for row in found.rows]
    print_table(columns, rows, f"{found.heading or run.task}, {path.name}")
    echo(f"checkpoint {path}")
    for line in filter(None, (run.doubts, computed_by(team))):
        echo(line)
    if drawn:
        echo(f"wrote {drawn}")


def _report(
    folder: Path, checkpoint: str, team: Device, context: typer.Context | None = None
) -> tuple[Report, RunFolder, Path]:
    """`context` has the options; the run that is compared with has none."""
    run = api.open_run(folder)
    params, found, path = latest_weights(run, checkpoint)
    if run.family.report is None:
        raise SamebitsError(f"{folder} is a {run.family.name} run; that family has no tests of its own")
    kernels_for(run.family, team)
    options = given(context, run.family, of_run(run.task, run.family)) if context else {}
    model = run.family.model(run.config, params, found.arrays)
    return run.family.report(model, team, **options), run, path


def _other(folder: Path, checkpoint: str, team: Device, first: Report) -> tuple[RunFolder, Report | None]:
    """The run to compare with; its tests too where the first one's have curves."""
    run = api.open_run(folder)
    return run, _report(folder, checkpoint, team)[0] if first.curves else None


def _overlay(first: tuple[Path, RunFolder, Report], second: tuple[Path, RunFolder, Report | None]) -> Path:
    """Both runs in one picture: the curves of their tests where both have some, else how their losses went."""
    (folder, run, found), (other_folder, other_run, other) = first, second
    names = _names(folder, other_folder)
    if found.curves and other is not None and other.curves:
        curves = {
            f"{name}: {label}": curve
            for name, report in zip(names, (found, other), strict=True)
            for label, curve in report.curves.items()
        }
        return plot_curves(folder / "plots" / f"{found.plot}.png", curves, found.title, found.x, found.y, folder)
    lines = {
        label: line
        for name, of in zip(names, (run, other_run), strict=True)
        for label, line in _losses(name, of).items()
    }
    if not lines:
        raise SamebitsError(f"neither {folder} nor {other_folder} has a loss in its {METRICS}; train for more steps")
    units = {api.sums_of(one)[0] for one in (run, other_run)}
    y = f"loss a {units.pop()}" if len(units) == 1 and units != {""} else "loss"
    return plot_lines(folder / "plots" / "against.png", lines, f"{names[0]} and {names[1]}", "step", y, folder)


def _names(*folders: Path) -> list[str]:
    """Their last parts; the whole paths where those are the same."""
    last = [folder.resolve().name for folder in folders]
    return last if len(set(last)) == len(last) else [str(folder) for folder in folders]


def _losses(name: str, run: RunFolder) -> dict[str, Line]:
    """The training loss and what the best checkpoint is chosen by, each where it was measured, as means."""
    columns, counts = read_columns(run.path / METRICS, run.path), api.sums_of(run)[1]
    wanted = (run.family.metrics.loss, f"eval_{run.family.metrics.best}")
    lines = {}
    for column in wanted:
        seen = np.isfinite(columns.get(column, np.zeros(0)))
        if seen.any():
            means = columns[column][seen] / counts.get(column, 1.0)
            lines[f"{name}: {column.replace('_', ' ')}"] = (columns["step"][seen], means)
    return lines


def _shown(cell: Any, form: str) -> str:
    """A cell of the table; a form that ends in % is of a share."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if form.endswith("%"):
        return f"{100 * cell:{form[:-1]}f} %"
    return f"{cell:{form}}" if form else f"{cell:,}" if isinstance(cell, int) else str(cell)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item()
