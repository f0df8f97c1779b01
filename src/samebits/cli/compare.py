"""samebits compare"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from samebits import api, files
from samebits.arithmetic.arrays import Array
from samebits.cli.common import print_table
from samebits.cli.terminal import echo, say
from samebits.errors import SamebitsError, nearest
from samebits.metrics import read_columns
from samebits.report.comparison import plot_runs
from samebits.runs.runfolder import METRICS, RunFolder


def compare(
    folders: Annotated[list[Path], typer.Argument(help="two or more run folders", metavar="DIR DIR…")],
    out: Annotated[Path, typer.Option("--out", help="the picture to write")] = Path("compare.png"),
    metric: Annotated[
        str | None, typer.Option("--metric", help="a column of metrics.csv; default: the evaluation, or else the loss")
    ] = None,
) -> None:
    """Lay the curves of several runs over each other, and list where their configs differ."""
    if len(folders) < 2 or len(set(folders)) < len(folders):
        raise SamebitsError("compare needs at least two run folders, each once; name another one")
    runs = {str(folder): api.open_run(folder) for folder in folders}
    names = next(iter(runs.values())).family.metrics
    evaluated = any(_values(run, f"eval_{names.best}").size for run in runs.values())
    column = metric or (f"eval_{names.best}" if evaluated else names.loss)
    lacking = [name for name, run in runs.items() if not _values(run, column).size]
    if len(lacking) == len(runs):
        measured = {name for run in runs.values() for name in _columns(run)}
        raise SamebitsError(f"metric is {column}; none of these runs has measured it; {nearest(column, measured)}")
    print_table(("key", *runs), differences(runs), "config, where it differs")
    print_table(("run", "steps", f"best {column}", f"last {column}"), [_result(run, column) for run in runs.values()])
    plot_runs(files.followed(out), {name: run.path for name, run in runs.items()}, column)
    for name in lacking:
        say(f"samebits: {name} has not measured {column}, so it is not in the picture; another: --metric")
    echo(f"wrote {out}")


def differences(runs: dict[str, RunFolder]) -> list[tuple[str, ...]]:
    """(key, its value in each run) of all that is not the same in all; a key that a run's family lacks is empty."""
    tables = [{"task": run.task, **run.config.model_dump(mode="json")} for run in runs.values()]
    keys = dict.fromkeys(key for table in tables for key in table)
    rows = [(key, *(str(table.get(key, "")) for table in tables)) for key in keys]
    return [row for row in rows if len(set(row[1:])) > 1] or [("(none)", *("" for _ in tables))]


def _values(run: RunFolder, column: str) -> Array:
    """What was measured, in the order of its steps."""
    values = _columns(run).get(column, np.zeros(0))
    return values[np.isfinite(values)]


def _columns(run: RunFolder) -> dict[str, Array]:
    return read_columns(run.path / METRICS, run.path) if (run.path / METRICS).is_file() else {}


def _result(run: RunFolder, column: str) -> tuple[str, ...]:
    steps, seen = _values(run, "step"), _values(run, column)
    done = f"{steps[-1]:.0f}" if steps.size else "0"
    return str(run.path), done, *((f"{seen.min():.5g}", f"{seen[-1]:.5g}") if seen.size else ("", ""))
