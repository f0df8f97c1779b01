"""The learned circuit as an object: every gate decided, what is not needed removed."""

from __future__ import annotations

from dataclasses import dataclass

from weft.engine.arrays import Array


@dataclass(frozen=True)
class Circuit:
    """The hard circuit of one cell. Nodes are numbered: the inputs first, then the gates in an order that can be run."""

    inputs: Array  # (n, 2) int32: position in the 3×3 neighbourhood and channel of each input node
    ops: Array  # (m,) uint8: which of the sixteen operations (gates.MATRIX) each gate is
    a: Array  # (m,) int32: node number of input a
    b: Array  # (m,) int32: node number of input b
    outputs: Array  # (C,) int32: node number of each channel's next state
