"""Truth tables: ports, outputs, then tables that read ports and earlier tables."""

from __future__ import annotations

from samebits.errors import SamebitsError
from samebits.hardware.network import MOST_TABLE_INPUTS, Network
from samebits.printing import shown


def read(raw: bytes) -> Network:
    lines = [
        (number, line.split())
        for number, line in enumerate(raw.decode("utf-8", "replace").split("\n"), 1)
        if line.strip() and not line.startswith("#")
    ]
    network, outputs = Network([]), list[str]()
    nodes: dict[str, int] = {}
    at = 0
    while at < len(lines):
        number, words = lines[at]
        at += 1
        if words[0] == "ports" and not nodes:
            network.inputs = words[1:]
            nodes = {name: i for i, name in enumerate(network.inputs)}
            if len(nodes) != len(network.inputs):
                raise _wrong(number, "a port is named twice")
        elif words[0] == "outputs" and not outputs:
            outputs = words[1:]
        elif words[0] == "table" and len(words) > 1:
            name, reads = words[1], words[2:]
            missing = next((source for source in reads if source not in nodes), None)
            if missing is not None or name in nodes or len(reads) > MOST_TABLE_INPUTS:
                raise _wrong(number, f"the table {shown(name)} is there twice, or reads too much or what is not there")
            digits = ""
            while at < len(lines) and len(digits) < 1 << len(reads):
                digits += "".join(lines[at][1])
                at += 1
            if len(digits) != 1 << len(reads) or not set(digits) <= {"0", "1"}:
                raise _wrong(number, f"the table {shown(name)} must have {1 << len(reads)} values, each 0 or 1")
            nodes[name] = network.add([nodes[source] for source in reads], int(digits[::-1], 2))
        else:
            raise _wrong(number, f"{shown(' '.join(words))} is nothing that an exported file has")
    for name in outputs:
        if name not in nodes:
            raise _wrong(1, f"no table makes the output {shown(name)}")
        network.outputs[name] = nodes[name]
    return network


def _wrong(line: int, problem: str) -> SamebitsError:
    return SamebitsError(f"the truth tables, line {line}: {problem}; export again")
