"""The cell as JSON: the numbering of the nodes, spelt out in the file itself."""

from __future__ import annotations

import json

from samebits.hardware.cell import Cell

NUMBERING = (
    "Nodes are numbered from 0: first the entries of inputs, then the gates in their order, which can be run. A gate "
    "is [operation, node of a, node of b]. An operation's number is its truth table: 8 if it is 1 for a = b = 0, plus "
    "4 if for b alone, plus 2 if for a alone, plus 1 if for both. An output is the node of a channel's next state."
)


def write(cell: Cell) -> bytes:
    names = cell.node_names()
    found = {
        "about": list(cell.about),
        "numbering": NUMBERING,
        "boundary": cell.boundary,
        "asynchronous": cell.asynchronous,
        "ports": cell.ports,
        "inputs": names[: len(cell.inputs)],
        "gates": [list(gate) for gate in cell.gates],
        "outputs": dict(zip(cell.next_names, cell.outputs, strict=True)),
    }
    rows = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in found.items()]
    return ("{\n" + ",\n".join(rows) + "\n}\n").encode()
