"""What a reader gives: named inputs, tables over earlier nodes, named outputs. It remembers no format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from samebits.errors import SamebitsError

MOST_TABLE_INPUTS = 16  # of one table: what a file may ask us to lay out


@dataclass
class Network:
    """Nodes are numbered: the inputs first, then every table. Bit p of a table is its value where bit i of p is the
    value of its input i."""

    inputs: list[str]
    tables: list[tuple[tuple[int, ...], int]] = field(default_factory=list)
    outputs: dict[str, int] = field(default_factory=dict)

    def add(self, sources: Sequence[int], table: int) -> int:
        """A new node."""
        if len(sources) > MOST_TABLE_INPUTS:
            raise SamebitsError(
                f"a table reads {len(sources)} nodes; it may read at most {MOST_TABLE_INPUTS}; cut it into several"
            )
        self.tables.append((tuple(sources), table))
        return len(self.inputs) + len(self.tables) - 1

    def invert(self, node: int) -> int:
        return self.add((node,), 0b01)

    def both(self, one: int, other: int) -> int:
        return self.add((one, other), 0b1000)

    def either(self, one: int, other: int) -> int:
        return self.add((one, other), 0b1110)

    def differ(self, one: int, other: int) -> int:
        return self.add((one, other), 0b0110)

    def constant(self, value: bool) -> int:
        return self.add((), int(value))


def cone(network: Network, outputs: Iterable[str]) -> list[int]:
    """The nodes that these outputs depend on, inputs and outputs included, in an order that can be run."""
    first = len(network.inputs)
    pending = [network.outputs[name] for name in outputs]
    found = set(pending)
    while pending:
        node = pending.pop()
        new = [source for source in network.tables[node - first][0] if source not in found] if node >= first else []
        found.update(new)
        pending += new
    return sorted(found)


def evaluate(network: Network, values: Mapping[str, bool]) -> dict[str, bool]:
    """The outputs for one pattern of the inputs."""
    known = [bool(values[name]) for name in network.inputs]
    for sources, table in network.tables:
        row = sum(known[source] << i for i, source in enumerate(sources))
        known.append(bool(table >> row & 1))
    return {name: known[node] for name, node in network.outputs.items()}


def same_gates(one: Network, other: Network) -> bool:
    """Whether two networks, of tables of at most two inputs, have the same gates but for inverters and constants.

    That is less than to be equal, and needs no solver. Ports and gates get numbers, the same in both; an inverter is a
    flag beside a number, and what reads it, or follows it, another table.
    """
    numbers: dict[Any, int] = {}
    return _numbered(one, numbers) == _numbered(other, numbers)


def _numbered(network: Network, numbers: dict[Any, int]) -> dict[str, tuple[int, int]]:
    """Of every output, the number of its gate and whether it is inverted."""

    def number(key: Any) -> int:
        return numbers.setdefault(key, len(numbers))

    known = [(number(name), 0) for name in network.inputs]
    for sources, table in network.tables:
        first = [known[source] for source in sources]
        read = sorted({node for node, _ in first})
        # The value for each pattern of the nodes that are read, inverters undone.
        values = []
        for pattern in range(1 << len(read)):
            bits = [pattern >> read.index(node) & 1 ^ inverted for node, inverted in first]
            values.append(table >> sum(bit << i for i, bit in enumerate(bits)) & 1)
        needed = [i for i in range(len(read)) if any(values[p] != values[p ^ 1 << i] for p in range(len(values)))]
        short = [values[sum((p >> k & 1) << i for k, i in enumerate(needed))] for p in range(1 << len(needed))]
        inverted = short[0]
        plain = tuple(value ^ inverted for value in short)
        nodes = tuple(read[i] for i in needed)
        known.append((nodes[0] if plain == (0, 1) else number((nodes, plain)), inverted))
    return {name: known[node] for name, node in network.outputs.items()}
