"""Expression trees as pictures: rounded nodes, operators dark, symbols and numbers light."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from samebits.report.plots import drawable, save, screenless_pyplot

PAPER, INK, FAINT = "#faf9f6", "#3c3e46", "#b9b6ad"
OPERATOR, SYMBOL, NUMBER = "#1f3c5c", "#e3c58a", "#d9e2ea"
GOOD, BAD = "#3f7d4e", "#b5412f"
UNIT = 0.52  # inches between neighbouring leaves, and between levels


class Drawing(NamedTuple):
    """One tree: labels and parents in pre-order (parent −1 at the root), a caption, and a verdict or None."""

    labels: Sequence[str]
    parents: Sequence[int]
    caption: str
    right: bool | None = None


def places(parents: Sequence[int]) -> list[tuple[float, int]]:
    """(x, depth) of every node: leaves one apart in their order, a parent in the middle of its children."""
    children: list[list[int]] = [[] for _ in parents]
    depth = [0] * len(parents)
    for node, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(node)
            depth[node] = depth[parent] + 1
    x = [0.0] * len(parents)
    leaf = 0.0
    for node, below in enumerate(children):
        if not below:
            x[node] = leaf
            leaf += 1
    for node in range(len(parents) - 1, -1, -1):
        if children[node]:
            x[node] = (x[children[node][0]] + x[children[node][-1]]) / 2
    return list(zip(x, depth, strict=True))


def _colour(label: str, is_leaf: bool) -> tuple[str, str]:
    if not is_leaf:
        return OPERATOR, PAPER
    return (NUMBER if label.isdigit() or label in "TF" else SYMBOL), INK


def draw_tree(axes: Any, drawing: Drawing, width: float, depth: float) -> None:
    """One tree in the middle of a panel of `width` × `depth` units."""
    found = places(drawing.parents)
    own = max(x for x, _ in found)
    shift = (width - own) / 2
    parents = set(drawing.parents)
    for node, parent in enumerate(drawing.parents):
        if parent >= 0:
            (x, y), (px, py) = found[node], found[parent]
            axes.plot([shift + px, shift + x], [-py, -y], color=FAINT, linewidth=1.3, zorder=1, solid_capstyle="round")
    for node, (x, y) in enumerate(found):
        back, front = _colour(drawing.labels[node], node not in parents)
        box = {"boxstyle": "round,pad=0.32,rounding_size=0.7", "facecolor": back, "edgecolor": PAPER, "linewidth": 1.5}
        axes.text(
            shift + x,
            -y,
            drawable(drawing.labels[node]).center(3),
            ha="center",
            va="center",
            fontsize=8.5,
            color=front,
            bbox=box,
            zorder=2,
        )
    mark = {None: "", True: "  ✓", False: "  ✗"}[drawing.right]
    colour = {None: INK, True: GOOD, False: BAD}[drawing.right]
    axes.text(shift + found[0][0], 0.85, drawing.caption + mark, ha="center", va="center", fontsize=9, color=colour)
    axes.set(xlim=(-0.9, width + 0.9), ylim=(-depth - 0.6, 1.3))
    axes.axis("off")


def save_trees(path: Path, rows: Sequence[Sequence[Drawing]], title: str) -> Path:
    """A sheet of trees, all to the same scale; rows may differ in length and height."""
    columns = max(len(row) for row in rows)
    width = [
        max(2.2, *(max(x for x, _ in places(row[c].parents)) for row in rows if c < len(row))) for c in range(columns)
    ]
    depth = [max(y for drawing in row for _, y in places(drawing.parents)) for row in rows]
    heights = [d + 1.9 for d in depth]
    figure, grid = screenless_pyplot().subplots(
        len(rows), columns, squeeze=False, dpi=130, facecolor=PAPER, layout="constrained",
        figsize=(UNIT * sum(w + 1.8 for w in width), UNIT * sum(heights) + 0.4),
        gridspec_kw={"width_ratios": [w + 1.8 for w in width], "height_ratios": heights},
    )  # fmt: skip
    figure.suptitle(drawable(title), fontsize=11, color=INK)
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.1)
    for r, row in enumerate(rows):
        for c in range(columns):
            if c < len(row):
                draw_tree(grid[r, c], row[c], width[c], depth[r])
            else:
                grid[r, c].axis("off")
    return save(figure, path)
