"""A logic circuit as a picture: inputs on the left, gates in layers, outputs on the right.

An operation's number is its truth table: bit 8 is its value for a = b = 0, 4 for b alone, 2 for a alone, 1 for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.report.pictures import CELL_0, CELL_1, INK, PAPER
from samebits.report.plots import write_figure

LARGEST = 150  # gates; more than that is a carpet
COMPASS = ("NW", "N", "NE", "W", "C", "E", "SW", "S", "SE")
PLACES = (
    "the north-west neighbour", "the neighbour to the north", "the north-east neighbour", "the neighbour to the west",
    "the cell itself", "the neighbour to the east", "the south-west neighbour", "the neighbour to the south",
    "the south-east neighbour",
)  # fmt: skip
# Wires of different sources cross often; colours let the eye follow one.
WIRES = ((31, 60, 92), (176, 92, 52), (56, 128, 116), (132, 84, 134), (150, 124, 44), (84, 130, 178), (150, 62, 78))

# Inches.
HEIGHT, GATE_WIDTH, INPUT_WIDTH, OUTPUT_WIDTH = 0.38, 1.22, 1.0, 0.96
ROW, TRACK, GAP, MARGIN = 0.6, 0.24, 0.75, 0.35
PORT = HEIGHT / 4  # a gate's two inputs enter this far above and below its middle
SWEEPS, SETTLE = 24, 120
DPI, MOST_PIXELS = 160, 6000

_Ends = tuple[float, float, float, float]  # x, y and x, y


class TooManyGatesError(ValueError):
    """The circuit is too large for a picture."""


@dataclass(eq=False)
class _Item:
    """A box, or a place where a long wire passes a layer."""

    layer: int
    label: str = ""  # empty: only a wire passes
    kind: str = "wire"
    source: _Item | None = None  # of a passing wire: where it comes from
    before: list[_Item] = field(default_factory=list)
    after: list[_Item] = field(default_factory=list)
    marks: bool = False  # a and b matter
    position: int = 0  # of an input in the 3×3 neighbourhood
    y: float = 0.0

    @property
    def width(self) -> float:
        return {"gate": GATE_WIDTH, "input": INPUT_WIDTH, "output": OUTPUT_WIDTH, "wire": GATE_WIDTH}[self.kind]

    @property
    def room(self) -> float:
        """The height it needs."""
        return TRACK if self.kind == "wire" else ROW


def draw_circuit(
    path: Path, inputs: NDArray[Any], ops: NDArray[Any], a: NDArray[Any], b: NDArray[Any], outputs: NDArray[Any],
    op_names: Sequence[str], output_labels: Sequence[str],
) -> list[Path]:  # fmt: skip
    """Write `path`.svg and `path`.png. Nodes are numbered: inputs (position, channel) first, then the gates."""
    if len(ops) > LARGEST:
        raise TooManyGatesError(f"too many gates: {len(ops):,}; at most {LARGEST} make a readable picture")
    layers = _layers(inputs, ops, a, b, outputs, op_names, output_labels)
    _order(layers)
    _place(layers)
    figure = _paint(layers, _caption(layers, ops.tolist(), op_names))
    written = [path.with_suffix(".svg"), path.with_suffix(".png")]
    dpi = min(DPI, MOST_PIXELS / max(figure.get_size_inches()))
    import matplotlib

    # No date and a fixed salt: the same circuit is the same file.
    with matplotlib.rc_context({"svg.hashsalt": "samebits"}):
        write_figure(figure, written[0], metadata={"Date": None})
        write_figure(figure, written[1], dpi=dpi)
    return written


def _layers(
    inputs: NDArray[Any], ops: NDArray[Any], a: NDArray[Any], b: NDArray[Any], outputs: NDArray[Any],
    op_names: Sequence[str], output_labels: Sequence[str],
) -> list[list[_Item]]:  # fmt: skip
    """Boxes by depth, with a passing wire in every layer that a wire crosses; one wire serves all who read a source."""
    nodes = [
        _Item(0, f"c{channel} {COMPASS[position]}", "input", position=int(position)) for position, channel in inputs
    ]
    for op, first, second in zip(ops.tolist(), a.tolist(), b.tolist(), strict=True):
        item = _Item(0, _label(op, op_names[op]), "gate", marks=_reads(op) == (True, True) and not _symmetric(op))
        item.before = [nodes[node] for node, read in zip((first, second), _reads(op), strict=True) if read]
        item.layer = 1 + max([source.layer for source in item.before], default=0)
        nodes.append(item)
    last = 1 + max(item.layer for item in nodes)
    read = {id(source) for item in nodes for source in item.before}
    for item in nodes:
        if item.kind == "gate" and not item.before and id(item) not in read:
            item.layer = last - 1  # a constant belongs beside the output that shows it
    for node, label in zip(outputs.tolist(), output_labels, strict=True):
        nodes.append(_Item(last, label, "output", before=[nodes[node]]))
    # Nobody reads it, nothing to say: an input that only gives constants a node to point at.
    read = {id(source) for item in nodes for source in item.before}
    nodes = [item for item in nodes if item.kind != "input" or id(item) in read]

    layers: list[list[_Item]] = [[] for _ in range(last + 1)]
    trunks: dict[tuple[int, int], _Item] = {}
    for item in nodes:
        layers[item.layer].append(item)
    for item in nodes:
        item.before = [_trunk(source, item.layer - 1, trunks, layers) for source in item.before]
    for layer in layers:
        for item in layer:
            for source in item.before:
                source.after.append(item)
    return [layer for layer in layers if layer]


def _trunk(source: _Item, layer: int, trunks: dict[tuple[int, int], _Item], layers: list[list[_Item]]) -> _Item:
    """What stands for the source in this layer: itself, or its wire."""
    if source.layer == layer:
        return source
    key = id(source), layer
    if key not in trunks:
        trunks[key] = _Item(layer, source=source, before=[_trunk(source, layer - 1, trunks, layers)])
        layers[layer].append(trunks[key])
    return trunks[key]


def _reads(op: int) -> tuple[bool, bool]:
    return op >> 2 != op & 3, (op & 10) >> 1 != op & 5


def _symmetric(op: int) -> bool:
    return bool(op & 2) == bool(op & 4)


def _label(op: int, name: str) -> str:
    """Where it does not matter which input is a and which b, their names only clutter."""
    if _reads(op) != (True, True):
        return name.removesuffix(" a").removesuffix(" b")
    return name.removeprefix("a ").removesuffix(" b") if _symmetric(op) else name


def _order(layers: list[list[_Item]]) -> None:
    """Few crossings: every layer sorted by where its neighbours are, left to right and back, the best order kept."""
    best, best_orders = _crossings(layers), [list(layer) for layer in layers]
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        for index in range(1, len(layers)) if forward else range(len(layers) - 2, -1, -1):
            beside = layers[index - 1 if forward else index + 1]
            rank = {id(item): i for i, item in enumerate(beside)}
            old = {id(item): i for i, item in enumerate(layers[index])}
            middle = {}
            for item in layers[index]:
                near = [rank[id(other)] for other in (item.before if forward else item.after)]
                middle[id(item)] = float(np.mean(near)) if near else old[id(item)] * len(beside) / len(layers[index])
            layers[index].sort(key=lambda item: middle[id(item)])
        found = _crossings(layers)
        if found < best:
            best, best_orders = found, [list(layer) for layer in layers]
    layers[:] = best_orders


def _crossings(layers: list[list[_Item]]) -> int:
    total = 0
    for left, right in pairwise(layers):
        rank = {id(item): i for i, item in enumerate(left)}
        ends = np.array([(rank[id(source)], i) for i, item in enumerate(right) for source in item.before])
        if len(ends):
            starts, stops = ends[:, 0], ends[:, 1]
            total += int(((starts[:, None] < starts) & (stops[:, None] > stops)).sum())
    return total


def _place(layers: list[list[_Item]]) -> None:
    """Heights: each item towards its neighbours, as near as its layer's order and the room each needs allow."""
    for layer in layers:
        spots = _rooms(layer)
        for item, y in zip(layer, spots - spots.mean(), strict=True):
            item.y = y
    for sweep in range(SETTLE):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            wish, weight = [], []
            for item in layer:
                near = [other.y for other in item.before + item.after]
                wish.append(float(np.mean(near)) if near else item.y)
                weight.append(4.0 if item.kind == "wire" else 1.0)  # a long wire wants to be straight
            rooms = _rooms(layer)
            for item, y in zip(layer, _rising(np.array(wish) - rooms, weight) + rooms, strict=True):
                item.y = y
    _close_gaps([item for layer in layers for item in layer])


def _close_gaps(items: list[_Item]) -> None:
    """Parts without a wire between them may have drifted apart: bands that no item touches go."""
    end, shift = -np.inf, 0.0
    for item in sorted(items, key=lambda item: item.y - item.room / 2):
        shift += max(0.0, item.y - item.room / 2 - end) if np.isfinite(end) else 0.0
        end = max(end, item.y + item.room / 2)
        item.y -= shift


def _rooms(layer: Sequence[_Item]) -> NDArray[Any]:
    """Heights of a layer packed as tight as it may be."""
    needs = [item.room for item in layer]
    steps = [0.0, *((one + other) / 2 for one, other in pairwise(needs))]
    return np.cumsum(steps)


def _rising(wish: NDArray[Any], weight: Sequence[float]) -> NDArray[Any]:
    """The nearest sequence, by weighted squares, that never falls: neighbours that do are pooled at their mean."""
    pools: list[tuple[float, float, int]] = []
    for value, heavy in zip(wish, weight, strict=True):
        pool = (float(value), heavy, 1)
        while pools and pools[-1][0] > pool[0]:
            mean, mass, size = pools.pop()
            both = mass + pool[1]
            pool = ((mean * mass + pool[0] * pool[1]) / both, both, size + pool[2])
        pools.append(pool)
    return np.concatenate([np.full(size, mean) for mean, _, size in pools])


def _paint(layers: list[list[_Item]], caption: str) -> Any:
    from matplotlib.figure import Figure

    lefts, x = [], MARGIN
    for layer in layers:
        lefts.append(x)
        # More wires between two layers want a wider gap to cross in.
        x += max(item.width for item in layer) + GAP + 0.03 * sum(len(item.after) for item in layer)
    items = [item for layer in layers for item in layer]
    top, bottom = min(item.y for item in items), max(item.y for item in items)
    width = max(lefts[-1] + OUTPUT_WIDTH + MARGIN, 6.2)  # the caption fits even where the circuit is one wire
    height = bottom - top + HEIGHT + 2 * MARGIN + 0.4
    figure = Figure(figsize=(width, height), facecolor=_rgb(PAPER))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, width), ylim=(bottom + HEIGHT / 2 + MARGIN + 0.4, top - HEIGHT / 2 - MARGIN))
    axes.axis("off")

    left = {id(item): lefts[index] for index, layer in enumerate(layers) for item in layer}
    right = {id(item): left[id(item)] + item.width for item in items}
    sources = [item for item in items if item.kind in ("input", "gate")]
    colour = {id(item): _rgb(WIRES[i % len(WIRES)]) for i, item in enumerate(sources)}
    runs: dict[int, list[_Ends]] = {id(item): [] for item in sources}
    for item in items:
        if item.source is not None:
            runs[id(item.source)].append((left[id(item)], item.y, right[id(item)], item.y))
        for source, y in _ports(item):
            runs[id(source.source or source)].append((right[id(source)], source.y, left[id(item)], y))
    for order, source in enumerate(sources):
        _wires(axes, runs[id(source)], colour[id(source)], 1 + order / len(sources))
    for item in items:
        if item.kind != "wire":
            _box(axes, item, left[id(item)], colour.get(id(item), _rgb(CELL_1)))
    axes.text(MARGIN, bottom + HEIGHT / 2 + MARGIN + 0.12, caption, size=8.5, color=_rgb(INK), va="center", alpha=0.85)
    return figure


def _caption(layers: list[list[_Item]], ops: Sequence[int], op_names: Sequence[str]) -> str:
    """What a stranger must know to read it."""
    parts = [f"{len(ops)} gate{'s' if len(ops) != 1 else ''}"]
    read = [item for item in layers[0] if item.kind == "input"]
    if read:
        channel = read[0].label.split()[0].removeprefix("c")
        parts.append(f"{read[0].label}: channel {channel} of {PLACES[read[0].position]}")
    parts += [f"{op_names[op]}: {meaning}" for op, meaning in ((11, "a or not b"), (13, "b or not a")) if op in ops]
    return "   ·   ".join(parts)


def _ports(item: _Item) -> list[tuple[_Item, float]]:
    """Where each wire enters: of two, the one from higher up enters above, whichever is a."""
    if len(item.before) < 2:
        return [(source, item.y) for source in item.before]
    upper = 0 if item.before[0].y <= item.before[1].y else 1
    return [(source, item.y - PORT if i == upper else item.y + PORT) for i, source in enumerate(item.before)]


def _wires(axes: Any, runs: Sequence[_Ends], colour: Any, height: float) -> None:
    """All wires of one source: first a rim of paper, which shows who passes over whom, then the wires on it."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    for x0, y0, x1, y1 in runs:
        bend = (x1 - x0) / 2
        curve = Curve([(x0, y0), (x0 + bend, y0), (x1 - bend, y1), (x1, y1)], [Curve.MOVETO, *[Curve.CURVE4] * 3])
        for shade, thick, above, cap in ((_rgb(PAPER), 3.4, 0.0, "butt"), (colour, 1.3, 1e-6, "round")):
            axes.add_patch(
                PathPatch(curve, fill=False, edgecolor=shade, linewidth=thick, zorder=height + above, capstyle=cap)
            )


def _box(axes: Any, item: _Item, x: float, colour: Any) -> None:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    round_by = HEIGHT / 2 if item.kind != "gate" else 0.09
    face = {"input": CELL_0, "gate": (255, 255, 255), "output": CELL_1}[item.kind]
    axes.add_patch(
        FancyBboxPatch(
            (x, item.y - HEIGHT / 2), item.width, HEIGHT, boxstyle=f"round,pad=0,rounding_size={round_by}",
            facecolor=_rgb(face), edgecolor=colour, linewidth=1.3, zorder=3,
        )
    )  # fmt: skip
    middle = x + item.width / 2
    if item.kind == "input":  # a small neighbourhood with the cell that is read
        side, corner = 0.072, (x + 0.15, item.y - 1.5 * 0.072)
        for cell in range(9):
            spot = (corner[0] + cell % 3 * side, corner[1] + cell // 3 * side)
            filled = _rgb(CELL_1 if cell == item.position else PAPER)
            axes.add_patch(Rectangle(spot, side, side, facecolor=filled, edgecolor=_rgb(INK), linewidth=0.4, zorder=4))
        middle += 0.13
    for (_, y), name in zip(_ports(item) if item.marks else [], "ab", strict=False):
        axes.text(
            x + 0.1, y, name, size=7, color=_rgb(INK), ha="center", va="center_baseline", style="italic", zorder=5
        )
    shade = _rgb(PAPER if item.kind == "output" else INK)
    axes.text(
        middle + (0.05 if item.marks else 0), item.y, item.label, size=9, color=shade, ha="center",
        va="center_baseline", zorder=5,
    )  # fmt: skip


def _rgb(colour: Sequence[int]) -> tuple[float, ...]:
    return tuple(part / 255 for part in colour)
