"""Plots of what `samebits bench` measured: speed-up against the ideal line, and bars against the peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from samebits.report.plots import BLUE, GREY, ORANGE, new_axes, save, screenless_pyplot, styles

COLOURS = (BLUE, ORANGE, "#3d8b6b", "#8b5a9f", "#b8a13a", GREY)
BAR = 0.8  # of the distance between two bars


def plot_scaling(path: Path, curves: Mapping[str, Sequence[tuple[int, float]]], machine: str) -> Path:
    """(workers, speed-up) of several tasks on one machine, with the ideal line."""
    figure, axes = new_axes(f"Speed-up of a training step by workers\n{machine}", "workers", "times as fast as one")
    counts = sorted({count for points in curves.values() for count, _ in points})
    axes.plot(counts, counts, "--", color=GREY, linewidth=1.2)
    axes.annotate("ideal", (counts[-1], counts[-1]), (6, 0), textcoords="offset points", va="center", color=GREY)
    # Names at the ends of the lines, moved apart where lines end together.
    gap, lowest = 0.055 * counts[-1], 0.0
    order = sorted(curves, key=lambda name: curves[name][-1][1])
    for name, (line, colour) in zip(order, styles(COLOURS), strict=False):
        x, y = zip(*curves[name], strict=True)
        axes.plot(x, y, f"o{line}", color=colour, linewidth=1.8, markersize=4)
        lowest = max(lowest + gap, y[-1])
        axes.annotate(
            f"{name}: {y[-1]:.1f}×", (x[-1], lowest), (8, 0), textcoords="offset points", va="center", color=colour
        )
    axes.set(xticks=counts, yticks=counts, xlim=(0, None), ylim=(0, None))
    return save(figure, path)


def plot_peers(path: Path, groups: Sequence[tuple[str, Mapping[str, float]]]) -> Path:
    """How many times as fast samebits is as the fastest peer: a bar for each thing measured, named after the peer."""
    bars = [(what, *min(peers.items(), key=lambda one: one[1])) for what, peers in groups]
    title = "samebits beside the fastest of its peers"
    figure, axes = new_axes(title, "times as fast, logarithmic", "", 1.2 + 0.24 * len(bars))
    for place, (_, system, ratio) in enumerate(bars):
        axes.barh(place, ratio - 1, BAR, left=1, color=BLUE)
        told = f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.2g}×"
        axes.annotate(
            f"{told} {system}", (max(ratio, 1), place), (4, 0), textcoords="offset points", va="center", fontsize=9
        )
    ratios = [ratio for _, _, ratio in bars]
    _logarithmic(axes, min(0.9, *ratios), max(2.0, *ratios), room=0.45)
    axes.axvline(1, color=GREY, linewidth=1.2)
    axes.set(ylim=(len(bars) - 0.4, -0.6))
    axes.set_yticks(range(len(bars)), [what for what, _, _ in bars])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    return save(figure, path)


def _logarithmic(axes: Any, least: float, most: float, room: float) -> None:
    """Ticks in plain numbers, and room for labels at the end of the bars."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.set_xlim(least / 1.05, most * (most / least) ** room)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most < 100 * least else (1,)))
    axes.xaxis.set_major_formatter(lambda value, position: f"{value:,.6g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def plot_bench(path: Path, record: Mapping[str, Any]) -> Path:
    """A bench record: speed-up against the ideal line on the left, milliseconds a step against the peers beside it."""
    rows = [row for row in record["rows"] if "absent" not in row]
    figure, (left, right) = screenless_pyplot().subplots(
        1, 2, figsize=(9.6, 3.6), dpi=120, layout="constrained", width_ratios=(2, 3)
    )
    figure.suptitle(f"{record['task']}, batch {record['config']['batch_size']}: one training step", fontsize=11)
    _speed_up(left, rows, record["machine"]["cores"])
    _bars(right, rows, record["machine"]["cores"])
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return save(figure, path)


def _speed_up(axes: Any, rows: Sequence[Mapping[str, Any]], cores: int) -> None:
    ours = [row for row in rows if row["system"] == "samebits"]
    counts = [row["threads"] for row in ours]
    ticks = sorted({1, *counts})
    base = counts[0]
    ideal = [min(count, cores) / min(base, cores) for count in ticks]
    axes.plot(ticks, ideal, "--", color=GREY, linewidth=1, label="ideal")
    axes.plot(counts, [row["speed_up"] for row in ours], "o-", color=BLUE, linewidth=1.6, label="samebits")
    axes.set(xlabel="workers", ylabel=f"speed-up over {base}", xticks=ticks, ylim=(0, None))
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="lower right")


def _bars(axes: Any, rows: Sequence[Mapping[str, Any]], cores: int) -> None:
    """Every system at its largest thread count, the slowest on top; the yardstick shared out over as many cores."""
    widest: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["threads"] >= widest.get(row["system"], row)["threads"]:
            widest[row["system"]] = row
    most = widest["samebits"]["threads"]
    bars = []
    for system, row in widest.items():
        time, name, colour, ratio = float(row["median"]), f"{system}, {row['threads']} threads", ORANGE, ""
        if system == "samebits":
            name, colour = f"samebits, {most} worker{'s' if most > 1 else ''}", BLUE
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
