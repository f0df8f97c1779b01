"""Where the cells of a grid came to lie on an FPGA."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from samebits.report.pictures import INK, PAPER
from samebits.report.plots import write_figure


def draw_floorplan(path: Path, places: Sequence[tuple[int, int, int]], size: tuple[int, int], caption: str) -> Path:
    """Every logic cell as a dot in its tile; a register has the colour of its place in the grid: hue the column,
    lightness the row. Grey are the tables between."""
    from matplotlib.figure import Figure

    ink, paper = (tuple(part / 255 for part in colour) for colour in (INK, PAPER))
    figure = Figure(figsize=(9.6, 5.4), facecolor=paper, layout="constrained")
    chip, key = figure.subplots(1, 2, width_ratios=(3, 1))
    height, width = size
    slots: dict[tuple[int, int], int] = {}
    xs, ys, colours = [], [], []
    for x, y, cell in sorted(places):
        slot = slots[x, y] = slots.get((x, y), -1) + 1
        xs.append(x + 0.18 + 0.21 * (slot % 4))
        ys.append(y + 0.18 + 0.21 * (slot // 4 % 4))
        colours.append((0.84, 0.84, 0.82) if cell < 0 else _colour(cell // width, cell % width, height, width))
    across, up = max(xs) - min(xs) + 1, max(ys) - min(ys) + 1
    dot = (250 / max(across, up)) ** 2 * 0.06
    for registers, dots in ((False, dot), (True, 4 * dot)):  # few among many: drawn last, and larger
        chosen = [i for i, (_, _, cell) in enumerate(sorted(places)) if (cell >= 0) == registers]
        at = [[spots[i] for i in chosen] for spots in (xs, ys)]
        chip.scatter(*at, s=dots, c=[colours[i] for i in chosen], marker="s", linewidths=0)
    chip.set(aspect="equal", facecolor="white", xticks=[], yticks=[])
    chip.set_title(caption, fontsize=9, color=ink, loc="left")
    legend = np.array([[_colour(y, x, height, width) for x in range(width)] for y in range(height)])
    key.imshow(legend, interpolation="nearest")
    key.set(xticks=[], yticks=[])
    key.set_title(f"the grid, {height}×{width} cells", fontsize=9, color=ink, loc="left")
    for axes in (chip, key):
        for spine in axes.spines.values():
            spine.set_color(ink)
    write_figure(figure, path, dpi=130, metadata={"Software": None})
    return path


def _colour(y: int, x: int, height: int, width: int) -> tuple[float, float, float]:
    from matplotlib.colors import hsv_to_rgb

    found = hsv_to_rgb((x / width * 0.85, 0.85, 0.45 + 0.55 * y / max(1, height - 1)))
    return float(found[0]), float(found[1]), float(found[2])
