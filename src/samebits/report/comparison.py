"""Several runs laid over each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from samebits.metrics import read_columns
from samebits.report.plots import SAME_SCALE, drawable, new_axes, save, screenless_pyplot

NAMED = 12  # curves that a legend can name
ROOM = 1.05  # above the highest curve


def plot_runs(path: Path, runs: Mapping[str, Path], column: str) -> Path | None:
    """One column of several runs' metrics over their steps; None where none of them has it.

    The runs are given best first: the best are named and drawn on top.
    """
    curves = {}
    for name, run in runs.items():
        columns = read_columns(run / "metrics.csv", run) if (run / "metrics.csv").is_file() else {}
        if column in columns and (seen := np.isfinite(columns[column])).any():
            curves[name] = columns["step"][seen], columns[column][seen]
    if not curves:
        return None
    figure, axes = new_axes(column.replace("_", " "), "step", column.replace("_", " "))
    colours = screenless_pyplot().get_cmap("viridis")(np.linspace(0, 0.9, len(curves)))
    for rank, (name, (steps, values)) in enumerate(curves.items()):
        named = drawable(name) if rank < NAMED else None
        mark = "o" if len(steps) == 1 else None
        axes.plot(
            steps, values, marker=mark, color=colours[rank], linewidth=1.2, label=named, zorder=len(curves) - rank
        )
    lowest, highest = (f([f(values) for _, values in curves.values()]) for f in (min, max))
    if lowest <= 0:
        axes.set_yscale("symlog", linthresh=1e-2)
        axes.set_ylim(0, highest * ROOM or 1)
    elif highest > SAME_SCALE * lowest:
        axes.set_yscale("log")
    title = f"the best {NAMED} of {len(curves)}" if len(curves) > NAMED else None
    beside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}  # the curves may be anywhere
    axes.legend(frameon=False, fontsize=7, title_fontsize=7, title=title, **beside)
    return save(figure, path)
