"""Plots from a run folder's CSV files and from arrays. matplotlib is loaded only when something is drawn."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLUE, ORANGE, GREY = "#1f3c5c", "#c8702a", "#8a8c90"


def _axes(title: str, x: str, y: str) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 3.8), dpi=120, layout="constrained")
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return figure, axes


def _save(figure: Any, path: Path) -> Path:
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
    return path


def read_columns(path: Path) -> dict[str, NDArray[Any]]:
    """A CSV file by column; an empty cell is NaN."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = rows[0].keys() if rows else ()
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in names}


def plot_losses(run: Path, title: str) -> Path | None:
    """plots/loss.png of a run folder: every column with "loss" in its name, on a scale that can show 0."""
    columns = read_columns(run / "metrics.csv")
    losses = {name: values for name, values in columns.items() if "loss" in name and np.isfinite(values).any()}
    if not losses or len(columns["step"]) < 2:
        return None
    figure, axes = _axes(title, "step", "loss")
    styles = [(BLUE, "-"), (ORANGE, "-"), (BLUE, "--"), (ORANGE, "--")]
    for (name, values), (colour, line) in zip(losses.items(), styles, strict=False):
        seen = np.isfinite(values)
        axes.plot(columns["step"][seen], values[seen], line, color=colour, label=name.replace("_", " "), linewidth=1.4)
    axes.set_yscale("symlog", linthresh=1e-2)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return _save(figure, run / "plots" / "loss.png")


def plot_curves(path: Path, curves: Mapping[str, NDArray[Any]], title: str, x: str, y: str) -> Path:
    """Several curves over their index, each with its mean in the legend."""
    figure, axes = _axes(title, x, y)
    colours: Sequence[str] = (BLUE, ORANGE, GREY)
    for (name, values), colour in zip(curves.items(), colours, strict=False):
        axes.plot(values, color=colour, linewidth=0.6, label=f"{name}, mean {values.mean():.0f}")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return _save(figure, path)


def plot_bench(path: Path, record: Mapping[str, Any]) -> Path:
    """A bench record: speed-up against the ideal line on the left, milliseconds a step against the peers beside it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in record["rows"] if "absent" not in row]
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(9.6, 3.6), dpi=120, layout="constrained", width_ratios=(2, 3)
    )
    figure.suptitle(f"{record['task']}, batch {record['config']['batch_size']}: one training step", fontsize=11)
    _speed_up(left, rows, record["machine"]["cores"])
    _bars(right, rows, record["machine"]["cores"])
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return _save(figure, path)


def _speed_up(axes: Any, rows: Sequence[Mapping[str, Any]], cores: int) -> None:
    ours = [row for row in rows if row["system"] == "weft"]
    counts = [row["threads"] for row in ours]
    ticks = sorted({1, *counts})
    base = counts[0]
    ideal = [min(count, cores) / min(base, cores) for count in ticks]
    axes.plot(ticks, ideal, "--", color=GREY, linewidth=1, label="ideal")
    axes.plot(counts, [row["speed_up"] for row in ours], "o-", color=BLUE, linewidth=1.6, label="weft")
    axes.set(xlabel="workers", ylabel=f"speed-up over {base}", xticks=ticks, ylim=(0, None))
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="lower right")


def _bars(axes: Any, rows: Sequence[Mapping[str, Any]], cores: int) -> None:
    """Every system at its largest thread count, the slowest on top; the bound shared out over as many cores."""
    widest: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["threads"] >= widest.get(row["system"], row)["threads"]:
            widest[row["system"]] = row
    most = widest["weft"]["threads"]
    bars = []
    for system, row in widest.items():
        time, name, colour, ratio = float(row["median"]), f"{system}, {row['threads']} threads", ORANGE, ""
        if system == "weft":
            name, colour = f"weft, {most} worker{'s' if most > 1 else ''}", BLUE
        elif "times_slower" in row:
            ratio = f"  {row['times_slower']:.3g}×"
        else:
            time, name, colour = time / min(most, cores), f"{system}\n÷ {min(most, cores)} cores", GREY
        bars.append((time, name, colour, f" {_milliseconds(time)} ms{ratio}"))
    times, names, colours, labels = zip(*sorted(bars), strict=True)
    axes.bar_label(axes.barh(names, times, color=colours, height=0.6), labels, fontsize=8)
    wide = max(times) > 30 * min(times)
    if wide:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, position: f"{value:,.6g}")
    # Room for the labels at the end of the bars.
    axes.set_xlim(min(times) / 3 if wide else 0, max(times) * (8 if wide else 1.4))
    axes.set_xlabel("milliseconds" + (", logarithmic" if wide else ""))
    axes.tick_params(labelsize=8)


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
