"""The JSON file, by the numbering it states."""

from __future__ import annotations

import json
from typing import Any

from samebits.errors import SamebitsError
from samebits.hardware.network import Network
from samebits.printing import shown


def read(raw: bytes) -> Network:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"it cannot be parsed ({error})") from None
    ports, inputs, gates, outputs = (_part(found, key, kind) for key, kind in PARTS)
    if not all(isinstance(name, str) for name in ports + inputs) or len(set(ports)) != len(ports):
        raise _wrong("ports and inputs must be names, and no two ports alike")
    network = Network(list(ports))
    nodes = []  # of our network, by the file's numbers
    for name in inputs:
        if name not in ports:
            raise _wrong(f"the input {shown(name)} is no port")
        nodes.append(ports.index(name))
    for gate in gates:
        if not isinstance(gate, list) or len(gate) != 3 or not all(type(part) is int for part in gate):
            raise _wrong(f"{shown(gate)} is no gate; it must be three whole numbers")
        op, a, b = gate
        if not (0 <= op < 16 and 0 <= a < len(nodes) and 0 <= b < len(nodes)):
            raise _wrong(f"gate {shown(gate)} must have an operation below 16 and read nodes below {len(nodes)}")
        # Ours counts the pattern a + 2b; the file's 8, 4, 2, 1 are neither, b, a, both.
        table = (op >> 3 & 1) | (op >> 1 & 1) << 1 | (op >> 2 & 1) << 2 | (op & 1) << 3
        nodes.append(network.add((nodes[a], nodes[b]), table))
    for name, node in outputs.items():
        if type(node) is not int or not 0 <= node < len(nodes):
            raise _wrong(f"the output {shown(name)} is {shown(node)}; it must be a node below {len(nodes)}")
        network.outputs[name] = nodes[node]
    return network


PARTS = (("ports", list), ("inputs", list), ("gates", list), ("outputs", dict))


def _part(found: Any, key: str, kind: type) -> Any:
    if not isinstance(found, dict) or not isinstance(found.get(key), kind):
        raise _wrong(f"{key} must be there and be a {kind.__name__}")
    return found[key]


def _wrong(problem: str) -> SamebitsError:
    return SamebitsError(f"the JSON: {problem}; export again")
