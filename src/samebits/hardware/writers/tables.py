"""The cell as truth tables: one of each output over the inputs it reads, cut where those are too many.

table c0_next c0_NW c0_N …      a name, then what it depends on
0110 …                           2ᵏ values, 64 a line; value p is that where bit i of p is the value of name i
"""

from __future__ import annotations

from samebits.hardware.cell import Cell, comment

MOST = 10  # names of a table: 1,024 values
ROW = 64  # values a line


def write(cell: Cell) -> bytes:
    lines = ["ports " + " ".join(cell.ports), "outputs " + " ".join(cell.next_names)]
    for name, reads, values in tables_of(cell):
        text = f"{values:0{1 << len(reads)}b}"[::-1]
        lines += [" ".join(["table", name, *reads]), *(text[i : i + ROW] for i in range(0, len(text), ROW))]
    return (comment(cell.about, "#") + "\n".join([*lines, ""])).encode()


def tables_of(cell: Cell) -> list[tuple[str, list[str], int]]:
    """(name, what it reads, its values): a gate's cone grows until it would read too much; then parts get names."""
    n, names = len(cell.inputs), cell.node_names()
    cut: set[int] = set()  # gates that have a table of their own
    while (part := _too_wide(cell, cut)) is not None:
        cut.add(part)
    leaves = set(range(n)) | cut
    found = [(names[node], *_table(cell, node, leaves - {node}, names)) for node in sorted(cut)]
    for name, node in zip(cell.next_names, cell.outputs, strict=True):
        found.append((name, *_table(cell, node, leaves, names)))
    return found


def _too_wide(cell: Cell, cut: set[int]) -> int | None:
    """The part of a gate that must be cut off, because the gate would read more than MOST names; None if all fit."""
    reads = [{node} for node in range(len(cell.inputs))]  # of the table that a node would be
    for node, (_, a, b) in enumerate(cell.gates, len(cell.inputs)):
        below = reads[a] | reads[b]
        if len(below) > MOST:
            return max((a, b), key=lambda part: len(reads[part]))
        reads.append({node} if node in cut else below)
    return None


def _table(cell: Cell, root: int, leaves: set[int], names: list[str]) -> tuple[list[str], int]:
    """What a node reads among the leaves, and its values."""
    n = len(cell.inputs)
    order: list[int] = []  # gates under the root, and the leaves they read
    pending, met = [root], set[int]()
    while pending:
        node = pending.pop()
        if node in met:
            continue
        met.add(node)
        order.append(node)
        if node not in leaves:
            pending += cell.gates[node - n][1:]
    reads = sorted(node for node in order if node in leaves)
    every = (1 << (1 << len(reads))) - 1
    values: dict[int, int] = {}
    for i, node in enumerate(reads):
        values[node] = sum(1 << p for p in range(1 << len(reads)) if p >> i & 1)
    for node in sorted(order):
        if node not in values:
            op, a, b = cell.gates[node - n]
            p, q = values[a], values[b]
            cases = ((8, ~p & ~q), (4, ~p & q), (2, p & ~q), (1, p & q))
            values[node] = every & sum(case & every for bit, case in cases if op & bit)
    return [names[node] for node in reads], values[root]
