"""A trained automaton as something to play with: in a page of its own, in a notebook, or in somebody else's page."""

from __future__ import annotations

from typing import Any

from samebits.families.logic_ca.circuit import Circuit
from samebits.families.logic_ca.export import cell_of, smaller_circuit
from samebits.families.logic_ca.model import LogicModel
from samebits.hardware.writers.html import automaton_of as record_of
from samebits.hardware.writers.html import page_of

__all__ = ["automaton_of", "page_of"]


def automaton_of(model: LogicModel, name: str = "automaton", circuit: Circuit | None = None) -> dict[str, Any]:
    """What web/playground.js mounts, ready for JSON: mountPlayground(element, automaton).

    `circuit` is the one to play, by default as few gates as a second of searching finds, of the channels that matter.
    page_of(automaton) is the same as one file that refers to nothing, as `samebits export --to html` writes it.
    """
    return record_of(cell_of(model, circuit or smaller_circuit(model), name, ""))
