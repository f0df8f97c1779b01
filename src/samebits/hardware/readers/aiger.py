"""Binary AIGER 1.9: a latch is an input by its symbol, and the output `symbol'` is what it becomes."""

from __future__ import annotations

import re

from samebits.errors import SamebitsError
from samebits.hardware.network import Network
from samebits.printing import shown

MOST = 20_000_000  # and-gates


def read(raw: bytes) -> Network:
    head, _, rest = raw.partition(b"\n")
    counts = re.fullmatch(rb"aig ([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,9})", head)
    if not counts:
        raise _wrong(f"the first line is {shown(head)}; it must be aig and five numbers")
    most, inputs, latches, outputs, ands = (int(count) for count in counts.groups())
    if most != inputs + latches + ands or max(most, outputs) > min(MOST, len(raw) + inputs + latches):
        raise _wrong(f"the first line is {shown(head)}; its first number must be inputs, latches and gates together")
    nexts, rest = _literals(rest, latches, most)
    made, rest = _literals(rest, outputs, most)
    gates, rest = _gates(rest, inputs + latches, ands)
    symbols = _symbols(rest)
    names = [_symbol(symbols, "i", i) for i in range(inputs)] + [_symbol(symbols, "l", i) for i in range(latches)]
    network = Network(names)
    if len(set(names)) != len(names):
        raise _wrong("two inputs or latches have one name")
    nodes = _Nodes(network)
    for high, low in gates:
        nodes.add(high, low)
    for i, literal in enumerate(made):
        network.outputs[_symbol(symbols, "o", i)] = nodes.node(literal)
    for i, literal in enumerate(nexts):
        network.outputs[_symbol(symbols, "l", i) + "'"] = nodes.node(literal)
    return network


class _Nodes:
    """The network's node of every AIGER variable; inverters are taken into the tables that read them."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.of = [-1, *range(len(network.inputs))]
        self.inverses: dict[int, int] = {}

    def add(self, high: int, low: int) -> None:
        if low < 2:  # a constant: rare, and as good as any other node
            self.of.append(self.network.both(self.node(high), self.node(low)))
            return
        row = (not high & 1) | (not low & 1) << 1  # the one pattern on which both literals are true
        self.of.append(self.network.add((self.of[high >> 1], self.of[low >> 1]), 1 << row))

    def node(self, literal: int) -> int:
        if literal < 2:
            return self.network.constant(literal == 1)
        if not literal & 1:
            return self.of[literal >> 1]
        if literal not in self.inverses:
            self.inverses[literal] = self.network.invert(self.of[literal >> 1])
        return self.inverses[literal]


def _literals(rest: bytes, count: int, most: int) -> tuple[list[int], bytes]:
    found = []
    for _ in range(count):
        line, _, rest = rest.partition(b"\n")
        # A latch may say what it starts as; what follows for every state does not need it.
        match = re.fullmatch(rb"([0-9]{1,10})( [0-9]{1,10})?", line)
        if not match or int(match[1]) > 2 * most + 1:
            raise _wrong(f"{shown(line[:40])} is no literal from 0 to {2 * most + 1}")
        found.append(int(match[1]))
    return found, rest


def _gates(rest: bytes, before: int, count: int) -> tuple[list[tuple[int, int]], bytes]:
    found, at = [], 0
    for i in range(count):
        left = 2 * (before + 1 + i)
        deltas = []
        for _ in range(2):
            value = shift = 0
            while True:
                if at >= len(rest) or shift > 35:
                    raise _wrong(f"gate {i} of {count} is cut off or too large a number")
                byte = rest[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            deltas.append(value)
        high = left - deltas[0]
        low = high - deltas[1]
        if deltas[0] == 0 or low < 0:
            raise _wrong(f"gate {i} reads a literal that does not stand before it")
        found.append((high, low))
    return found, rest[at:]


def _symbols(rest: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in rest.decode("utf-8", "replace").split("\n"):
        if line in ("", "c"):
            break
        match = re.fullmatch(r"([ilo](?:0|[1-9][0-9]{0,8})) (\S+)(?: .*)?", line)
        if not match or match[1] in found:
            raise _wrong(f"{shown(line[:40])} is no symbol, or a second one")
        found[match[1]] = match[2]
    return found


def _symbol(symbols: dict[str, str], kind: str, number: int) -> str:
    key = f"{kind}{number}"
    if key not in symbols:
        raise _wrong(f"{key} has no symbol: nobody knows what it is")
    return symbols[key]


def _wrong(problem: str) -> SamebitsError:
    return SamebitsError(f"the AIGER file: {problem}; export again")
