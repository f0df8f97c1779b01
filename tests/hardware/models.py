"""Automata for the tests of hardware: all five learned ones, and small ones of random gates."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from samebits.config import override
from samebits.families import find_preset
from samebits.families.logic_ca.circuits.export import smaller_circuit
from samebits.families.logic_ca.config import gate_count
from samebits.families.logic_ca.model import LogicModel
from samebits.families.logic_ca.wiring import wires

# The operation of every gate after `samebits train TASK`, seed 0: the argmax of the logits, which is all that is hard.
GATES = Path(__file__).parents[1] / "data/learned-gates.npz"
LEARNED = ("life", "checkerboard", "checkerboard-async", "letter", "grow")
TINY = override(
    find_preset("checkerboard", "small"),
    {"height": 5, "width": 7, "channels": 3, "kernels": 2, "update": (12, 6, 3), "ca_steps": 3, "batch_size": 2},
)
SMALL = {
    "zeros": TINY,
    "periodic": override(TINY, {"boundary": "periodic"}),
    "asynchronous": override(TINY, {"fire_rate": 0.6}),
    "life": override(find_preset("life", "small"), {"kernels": 5, "update": (6, 4, 2, 1)}),
}


def of_operations(config, operations):
    logits = np.zeros((gate_count(config), 16), np.float32)
    logits[np.arange(len(logits)), operations] = 10
    return LogicModel(config, logits.reshape(-1), wires(config))


@cache
def learned(task):
    with np.load(GATES) as found:
        return of_operations(find_preset(task, "full"), found[task])


def drawn(name, seed):
    """Random gates, half of them wires, so that outputs depend on several inputs."""
    config = SMALL[name]
    draw = np.random.default_rng(seed)
    operations = draw.integers(0, 16, gate_count(config))
    operations[draw.random(len(operations)) < 0.4] = 3
    return of_operations(config, operations)


@cache
def smaller(task):
    """The circuit that an export would write."""
    return smaller_circuit(learned(task))
