"""The formats a cell can be exported to. A new one is a line here, a writer and a reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from samebits.hardware.cell import Cell
from samebits.hardware.network import Network
from samebits.hardware.readers import aiger as read_aiger
from samebits.hardware.readers import blif as read_blif
from samebits.hardware.readers import c as read_c
from samebits.hardware.readers import html as read_html
from samebits.hardware.readers import json as read_json
from samebits.hardware.readers import tables as read_tables
from samebits.hardware.readers import verilog as read_verilog
from samebits.hardware.writers import aiger, blif, c, html, json, tables, verilog


@dataclass(frozen=True)
class Format:
    file: str  # its name; {name} is the cell's
    write: Callable[[Cell], bytes]
    read: Callable[[bytes], Network]


FORMATS = {
    "verilog": Format("{name}_cell.v", verilog.write, read_verilog.read),
    "blif": Format("{name}_cell.blif", blif.write, read_blif.read),
    "aiger": Format("{name}_cell.aig", aiger.write, read_aiger.read),
    "c": Format("{name}.h", c.write, read_c.read),
    "json": Format("{name}_cell.json", json.write, read_json.read),
    "truth-table": Format("{name}_cell.txt", tables.write, read_tables.read),
    "html": Format("{name}.html", html.write, read_html.read),
}
