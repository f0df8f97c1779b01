"""Plots from a run folder's CSV files and from arrays. matplotlib is loaded only when something is drawn."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits import files
from samebits.metrics import read_columns
from samebits.printing import printable

BLUE, ORANGE, GREY = "#1f3c5c", "#c8702a", "#8a8c90"
LINES = ("-", "--", ":", "-.")
CROWDED = 300  # points of a curve that nobody can tell apart any more
Line = tuple[NDArray[Any], NDArray[Any]]  # x, y
SAME_SCALE = 20  # between the least and the largest loss: fits a plain axis


@dataclass(frozen=True)
class Picture:
    """A picture that was written; as the last line of a notebook's cell it is shown."""

    path: Path

    def _repr_png_(self) -> bytes:
        return self.path.read_bytes()


def styles(colours: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(line, colour) without end: every colour solid, then dashed, then dotted …"""
    return cycle(product(LINES, colours))


def screenless_pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def drawable(text: str) -> str:
    """A text of the user's as it is: matplotlib would read formulas between dollar signs."""
    return printable(text).replace("$", r"\$")


def new_axes(title: str, x: str, y: str, height: float = 3.8) -> tuple[Any, Any]:
    figure, axes = screenless_pyplot().subplots(figsize=(7.2, height), dpi=120, layout="constrained")
    axes.set(title=drawable(title), xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return figure, axes


def save(figure: Any, path: Path, inside: Path | None = None) -> Path:
    """Write a figure, in the format that the name ends with, and close it. `inside`: as in samebits.files."""
    from matplotlib import pyplot

    write_figure(figure, path, inside)
    pyplot.close(figure)
    return path


def write_figure(figure: Any, path: Path, inside: Path | None = None, **options: Any) -> None:
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:].lower() or None, **options)
    files.write(path, content.getvalue(), inside)


def plot_losses(run: Path, title: str, per: str = "", counts: Mapping[str, float] | None = None) -> Path | None:
    """plots/loss.png of a run folder: every column with "loss" in its name, on the scale that its numbers ask for.

    Sums are divided by their counts, of what `per` says: a batch and an evaluation are then on one scale.
    """
    columns = read_columns(run / "metrics.csv", run)
    losses = {
        name: values / (counts or {}).get(name, 1.0)
        for name, values in columns.items()
        if "loss" in name and np.isfinite(values).any()
    }
    if not losses or len(columns["step"]) < 2:
        return None
    figure, axes = new_axes(title, "step", f"loss a {per}" if per else "loss")
    for (name, values), (line, colour) in zip(losses.items(), styles((BLUE, ORANGE)), strict=False):
        seen = np.isfinite(values)
        steps, shown = columns["step"][seen], values[seen]
        if len(shown) > CROWDED:  # single batches faintly, their running mean clearly
            axes.plot(steps, shown, color=colour, alpha=0.2, linewidth=0.8)
            steps, shown = _running_mean(steps), _running_mean(shown)
        axes.plot(steps, shown, line, color=colour, label=name.replace("_", " "), linewidth=1.4)
    lowest, highest = (f([f(values[np.isfinite(values)]) for values in losses.values()]) for f in (min, max))
    if lowest <= 0:
        axes.set_yscale("symlog", linthresh=1e-5 if counts else 1e-2)
        axes.set_ylim(bottom=0)
    elif highest > SAME_SCALE * lowest:
        axes.set_yscale("log")
    axes.legend(frameon=False)
    return save(figure, run / "plots" / "loss.png", run)


def plot_lines(path: Path, lines: Mapping[str, Line], title: str, x: str, y: str, inside: Path | None = None) -> Path:
    """Several lines, each with x values of its own."""
    figure, axes = new_axes(title, x, y)
    for (name, (steps, values)), (line, colour) in zip(lines.items(), styles((BLUE, ORANGE, GREY)), strict=False):
        axes.plot(steps, values, line, color=colour, linewidth=1.2, label=drawable(name))
    lowest, highest = (f(f(values) for _, values in lines.values()) for f in (min, max))
    if lowest > 0 and highest > SAME_SCALE * lowest:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return save(figure, path, inside)


def _running_mean(values: NDArray[Any]) -> NDArray[Any]:
    window = len(values) // 50
    return np.convolve(values, np.full(window, 1 / window), "valid")


def plot_curves(
    path: Path, curves: Mapping[str, NDArray[Any]], title: str, x: str, y: str, inside: Path | None = None
) -> Path:
    """Several curves over their index. Where one has more points than can be told apart: the mean of each fiftieth of
    it, and a band from which one point in ten sticks out above and one in ten below."""
    figure, axes = new_axes(title, x, y)
    for (name, values), (line, colour) in zip(curves.items(), styles((BLUE, ORANGE, GREY)), strict=False):
        if len(values) <= CROWDED:
            axes.plot(values, line, color=colour, linewidth=1.2, label=drawable(name))
            continue
        parts = np.array_split(values, 50)
        ends = np.cumsum([len(part) for part in parts])
        middles = ends - np.array([len(part) for part in parts]) / 2
        low, high = (np.array([np.quantile(part, share) for part in parts]) for share in (0.1, 0.9))
        axes.fill_between(middles, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(middles, [part.mean() for part in parts], line, color=colour, linewidth=1.6, label=drawable(name))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return save(figure, path, inside)
