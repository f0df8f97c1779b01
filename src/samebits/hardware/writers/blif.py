"""The cell as BLIF (Berkeley Logic Interchange Format): what ABC, yosys and SIS read; one .names a gate."""

from __future__ import annotations

from samebits.hardware.cell import Cell, comment

BOTH, FIRST, SECOND = (0, 1), (0,), (1,)
# What each of the sixteen reads of a and b, and its rows.
COVERS: tuple[tuple[tuple[int, ...], list[str]], ...] = (
    ((), []), (BOTH, ["11 1"]), (BOTH, ["10 1"]), (FIRST, ["1 1"]), (BOTH, ["01 1"]), (SECOND, ["1 1"]),
    (BOTH, ["10 1", "01 1"]), (BOTH, ["1- 1", "-1 1"]), (BOTH, ["00 1"]), (BOTH, ["00 1", "11 1"]), (SECOND, ["0 1"]),
    (BOTH, ["1- 1", "-0 1"]), (FIRST, ["0 1"]), (BOTH, ["0- 1", "-1 1"]), (BOTH, ["0- 1", "-0 1"]), ((), ["1"]),
)  # fmt: skip


def write(cell: Cell) -> bytes:
    names = cell.node_names()
    lines = [f".model {cell.name}_cell", _listed(".inputs", cell.ports), _listed(".outputs", cell.next_names)]
    for gate, (op, a, b) in enumerate(cell.gates):
        reads, rows = COVERS[op]
        lines += [" ".join([".names", *(names[(a, b)[i]] for i in reads), f"g{gate}"]), *rows]
    for name, node in zip(cell.next_names, cell.outputs, strict=True):
        lines += [f".names {names[node]} {name}", "1 1"]
    return (comment(cell.about, "#") + "\n".join([*lines, ".end", ""])).encode()


def _listed(key: str, names: list[str]) -> str:
    """Nine names a line, the neighbourhood of a channel: readable, and no tool's line buffer overflows."""
    rows = [" ".join(names[i : i + 9]) for i in range(0, len(names), 9)]
    return f"{key} " + " \\\n  ".join(rows)
