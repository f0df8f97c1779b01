"""The cell as binary AIGER 1.9: and-gates and inverters, what model checkers and ABC read."""

from __future__ import annotations

from samebits.hardware.cell import Cell


class Graph:
    """An and-inverter graph. Literals as in AIGER: 0 is false, 1 true, 2·v a variable, 2·v + 1 its inverse."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.ands: list[tuple[int, int]] = []  # the larger literal first
        self.known: dict[tuple[int, int], int] = {}

    def both(self, x: int, y: int) -> int:
        high, low = max(x, y), min(x, y)
        if low == 0 or low ^ 1 == high:
            return 0
        if low == 1 or low == high:
            return high
        if (high, low) not in self.known:
            self.ands.append((high, low))
            self.known[high, low] = 2 * (self.inputs + len(self.ands))
        return self.known[high, low]

    def gate(self, op: int, a: int, b: int) -> int:
        """Any of the sixteen: the four cases a gate can be true in, or those it is false in if they are fewer."""
        if op in (6, 9):
            return self.both(self.both(a, b) ^ 1, self.both(a ^ 1, b ^ 1) ^ 1) ^ (op == 9)
        wires = {0: 0, 3: a, 5: b, 10: b ^ 1, 12: a ^ 1, 15: 1}
        if op in wires:
            return wires[op]
        if op in (1, 2, 4, 8):
            return self.both(a ^ (op in (4, 8)), b ^ (op in (2, 8)))
        return self.gate(15 - op, a, b) ^ 1


def graph_of(cell: Cell) -> tuple[Graph, list[int]]:
    """The and-gates, and the literal of every output. Input variables are in the order of the ports."""
    graph = Graph(len(cell.ports))
    number = {name: 2 * (1 + i) for i, name in enumerate(cell.ports)}
    literals = [number[name] for name in cell.node_names()[: len(cell.inputs)]]
    for op, a, b in cell.gates:
        literals.append(graph.gate(op, literals[a], literals[b]))
    return graph, [literals[node] for node in cell.outputs]


def write(cell: Cell) -> bytes:
    graph, outputs = graph_of(cell)
    first = graph.inputs + 1
    head = f"aig {graph.inputs + len(graph.ands)} {graph.inputs} 0 {len(outputs)} {len(graph.ands)}\n"
    body = b"".join(_number(2 * (first + i) - high) + _number(high - low) for i, (high, low) in enumerate(graph.ands))
    symbols = [f"i{i} {name}\n" for i, name in enumerate(cell.ports)]
    symbols += [f"o{i} {name}\n" for i, name in enumerate(cell.next_names)]
    comments = "c\n" + "".join(f"{line}\n" for line in cell.about)
    text = head + "".join(f"{literal}\n" for literal in outputs)
    return text.encode() + body + "".join(symbols).encode() + comments.encode()


def _number(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow."""
    found = bytearray()
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
