"""The trained model as clauses: every gate of the checkpoint, as it stands there, before anything is simplified.

This is what a proof holds a file to, so it shares nothing with circuit.py and pruning.py: gates are read off the logits
by the paper's formulas (reference.py), one table a gate and channel, in the order of the reference's own loops.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.families.logic_ca.config import POSITIONS, LogicConfig
from samebits.families.logic_ca.wiring import CENTRE
from samebits.hardware.proof import Solver


def truth_tables(logits: Array) -> Array:
    """(…, 16) logits → (…) tables of four bits: bit a + 2b is the gate's value, by the first largest logit."""
    operation = np.argmax(logits, axis=-1)  # its bits, lowest first: the value for (1, 1), (1, 0), (0, 1), (0, 0)
    return sum((operation >> (3 - 2 * a - b) & 1) << (a + 2 * b) for a in range(2) for b in range(2))


def next_state(
    solver: Solver, config: LogicConfig, params: Mapping[str, Array], patch: Mapping[tuple[int, int], int]
) -> list[int]:
    """The literals of every channel's next state; patch has one for each (position, channel)."""
    C = config.channels
    seen: dict[tuple[int, int, int], int] = {}
    for channel in range(C):
        for k in range(config.kernels):
            line = [patch[position, channel] for position in range(POSITIONS)]
            for i in range(len(config.perceive)):
                line = _layer(solver, line, params[f"perceive.{i}.wires"], params[f"perceive.{i}.logits"][k])
            for output, literal in enumerate(line):
                seen[channel, output, k] = literal
    line = [patch[CENTRE, channel] for channel in range(C)]
    line += [seen[key] for key in sorted(seen)]  # (channel, output, kernel), kernel fastest
    for i in range(len(config.update)):
        line = _layer(solver, line, params[f"update.{i}.wires"], params[f"update.{i}.logits"])
    return line


def _layer(solver: Solver, line: list[int], wires: Array, logits: Array) -> list[int]:
    tables = truth_tables(logits).tolist()
    return [
        solver.table((line[a], line[b]), table)
        for a, b, table in zip(wires[0].tolist(), wires[1].tolist(), tables, strict=True)
    ]
