"""A run or a model as a notebook shows it: a few facts, and the loss as a curve drawn in SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT, LEFT, BOTTOM = 520, 170, 52, 20
MOST_POINTS = 600
COLOURS = ("#1f77b4", "#d9772b", "#4b9e6b", "#9467bd")  # that can be told apart on white and on black
STYLE = "font: 13px/1.5 system-ui, sans-serif; border: 1px solid #8885; border-radius: 10px; padding: 10px 14px"


def card(title: str, facts: Mapping[str, str], rows: Sequence[tuple[str, str]] = (), curve: str = "") -> str:
    """One card: a title, facts in a line, a curve, and a table that opens."""
    told = " &nbsp; ".join(f"<span style='opacity:.65'>{_safe(k)}</span> <b>{_safe(v)}</b>" for k, v in facts.items())
    table = ""
    if rows:
        cells = "".join(f"<tr><td>{_safe(name)}</td><td>{_safe(value)}</td></tr>" for name, value in rows)
        table = f"<details><summary>{len(rows)} arrays</summary><table>{cells}</table></details>"
    head = f"<div style='font-size:16px;font-weight:600'>{_safe(title)}</div>"
    return f"<div style='{STYLE};display:inline-block;max-width:100%'>{head}<div>{told}</div>{curve}{table}</div>"


def model_card(
    title: str,
    facts: Mapping[str, object],
    parameters: int,
    weights_hash: str,
    tensors: Mapping[str, NDArray[np.generic]],
) -> str:
    """A model: its facts, how large it is, and its hash."""
    told = {**facts, "parameters": f"{parameters:,}", "weights": f"sha256:{weights_hash[:16]}…"}
    return card(title, {name: str(value) for name, value in told.items()}, sizes(tensors))


def _safe(text: str) -> str:
    return html.escape(str(text), quote=True)


def sizes(tensors: Mapping[str, NDArray[np.generic]]) -> list[tuple[str, str]]:
    return [(name, " × ".join(map(str, value.shape))) for name, value in tensors.items()]


def loss_curve(columns: Mapping[str, NDArray[np.float64]]) -> str:
    """Every column with "loss" in its name over the steps; on a scale of powers of ten where they span many."""
    lines = {}
    for name, values in columns.items():
        seen = np.isfinite(values)
        if "loss" in name and seen.sum() > 1:
            lines[name] = thinned(columns["step"][seen], values[seen])
    if not lines:
        return ""
    low, high = (f([f(values) for _, values in lines.values()]) for f in (min, max))
    logarithmic = low > 0 and high > 20 * low
    scale = math.log10 if logarithmic else float
    bottom, top = scale(low), scale(high)
    first, last = min(steps[0] for steps, _ in lines.values()), max(steps[-1] for steps, _ in lines.values())

    def place(step: float, value: float) -> str:
        x = LEFT + (step - first) / ((last - first) or 1) * (WIDTH - LEFT - 8)
        y = HEIGHT - BOTTOM - (scale(value) - bottom) / ((top - bottom) or 1) * (HEIGHT - BOTTOM - 14)
        return f"{x:.1f},{y:.1f}"

    drawn, legend = "", ""
    for index, (name, (steps, values)) in enumerate(lines.items()):
        colour = COLOURS[index % len(COLOURS)]
        points = " ".join(place(step, value) for step, value in zip(steps, values, strict=True))
        drawn += f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        legend += f'<tspan fill="{colour}" dx="10">{_safe(name.replace("_", " "))}</tspan>'
    words = [
        (LEFT - 6, 18, "end", f"{high:.3g}"),
        (LEFT - 6, HEIGHT - BOTTOM, "end", f"{low:.3g}"),
        (LEFT, HEIGHT - 4, "start", f"step {first:,.0f}"),
        (WIDTH - 8, HEIGHT - 4, "end", f"{last:,.0f}"),
    ]
    texts = "".join(f'<text x="{x}" y="{y}" text-anchor="{where}">{text}</text>' for x, y, where, text in words)
    texts += f'<text x="{WIDTH - 8}" y="12" text-anchor="end">{legend}</text>'
    about = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" style="max-width:100%;display:block" role="img"'
    return f'<svg {about} aria-label="loss"><g font-size="11" fill="#888">{texts}</g>{drawn}</svg>'


def thinned(steps: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At most MOST_POINTS points, the least and the largest of every stretch among them."""
    if len(values) <= MOST_POINTS:
        return steps, values
    parts = np.array_split(np.arange(len(values)), MOST_POINTS // 2)
    kept = sorted({int(part[at]) for part in parts for at in (values[part].argmin(), values[part].argmax())})
    return steps[kept], values[kept]
