"""How large a circuit is, in the units of those who build it."""

from __future__ import annotations

from typing import NamedTuple

from samebits.families.logic_ca.circuits.circuit import Circuit, depth_of
from samebits.hardware.cell import Cell
from samebits.hardware.tools import luts
from samebits.hardware.writers import aiger, blif


class Size(NamedTuple):
    gates: int  # of two inputs, inverters for free
    ands: int  # and-gates of an and-inverter graph
    depth: int  # gates on the longest way
    luts: int | None  # tables of four inputs, by ABC; None without pyosys


def size_of(circuit: Circuit, cell: Cell) -> Size:
    """`cell` is the circuit with its names."""
    found = luts(blif.write(cell))
    return Size(len(circuit.ops), len(aiger.graph_of(cell)[0].ands), depth_of(circuit), found[0] if found else None)
