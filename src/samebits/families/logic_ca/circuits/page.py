"""A trained automaton as something to play with: in a page of its own, in a notebook, or in somebody else's page."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from samebits.checks import refuse, whole
from samebits.families.logic_ca.circuits.circuit import Circuit
from samebits.families.logic_ca.circuits.export import LEAST_SIDE, MOST_SIDE, cell_of, smaller_circuit
from samebits.families.logic_ca.model import LogicModel
from samebits.hardware.writers.html import automaton_of as record_of
from samebits.hardware.writers.html import page_of

__all__ = ["Animation", "animate", "automaton_of", "page_of"]

HEIGHTS = 100, 10_000  # of a frame, in pixels


def automaton_of(model: LogicModel, name: str = "automaton", circuit: Circuit | None = None) -> dict[str, Any]:
    """What web/playground.js mounts, ready for JSON: mountPlayground(element, automaton).

    `circuit` is the one to play, by default as few gates as a second of searching finds, of the channels that matter.
    page_of(automaton) is the same as one file that refers to nothing, as `--to html` of samebits export writes it.
    """
    return record_of(cell_of(model, circuit or smaller_circuit(model), name, ""))


@dataclass(frozen=True)
class Animation:
    """The playground in a frame of its own, which a notebook shows; `page` is its HTML, ready for a file."""

    page: str
    height: int  # pixels

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 0; border-radius: 12px"
        return (
            f'<iframe srcdoc="{html.escape(self.page)}" style="{style}" sandbox="allow-scripts" '
            'title="a learned automaton to play with"></iframe>'
        )


def animate(model: LogicModel, grid: tuple[int, int] | None, height: int) -> Animation:
    """LogicModel.animate."""
    height = whole("height", height, *HEIGHTS)
    size = {}
    if grid is not None:
        if not isinstance(grid, tuple | list) or len(grid) != 2:
            raise refuse("grid", grid, "a pair of height and width", "leave it out for the usual one")
        sides = [whole("grid", side, LEAST_SIDE, MOST_SIDE) for side in grid]
        size = dict(zip(("height", "width"), sides, strict=True))
    return Animation(page_of({**automaton_of(model, model.config.rule), **size}), height)
