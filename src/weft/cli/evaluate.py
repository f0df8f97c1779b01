"""weft eval"""

from __future__ import annotations

import typer

from weft import api
from weft.cli.common import CheckpointOption, RunPath, WorkerOption, print_table
from weft.engine.train import latest_weights
from weft.engine.workers import Workers


def evaluate(folder: RunPath, workers: WorkerOption = "auto", checkpoint: CheckpointOption = "last") -> None:
    """Test a trained model on full evaluation sets."""
    with Workers(workers) as team:
        run = api.open_run(folder)
        params, found, path = latest_weights(run, checkpoint)
        model = run.family.model(run.config, params, found.constants)
        rows = run.family.report(model, run.family.load(run.config), team)
    print_table(
        tuple(rows[0]), [tuple(_shown(cell) for cell in row.values()) for row in rows], f"{run.task}, {path.name}"
    )
    typer.echo(f"checkpoint {path}")


def _shown(cell: object) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
