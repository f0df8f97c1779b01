"""BLIF: one model of .names tables, each an on-set or an off-set; .latch and subcircuits are refused."""

from __future__ import annotations

from dataclasses import dataclass, field

from samebits.errors import SamebitsError
from samebits.hardware.network import MOST_TABLE_INPUTS, Network
from samebits.printing import shown


@dataclass
class _Names:
    """One .names: what it reads, what it makes, the rows below it."""

    line: int
    reads: list[str]
    makes: str
    rows: list[tuple[str, str]] = field(default_factory=list)


def read(raw: bytes) -> Network:
    inputs: list[str] = []
    outputs: list[str] = []
    tables: list[_Names] = []
    for line, words in _lines(raw.decode("utf-8", "replace")):
        key = words[0]
        if key == ".inputs":
            inputs += words[1:]
        elif key == ".outputs":
            outputs += words[1:]
        elif key == ".names" and len(words) > 1:
            tables.append(_Names(line, words[1:-1], words[-1]))
        elif key in (".model", ".end"):
            continue
        elif key.startswith("."):
            raise _wrong(line, f"{shown(key)} is nothing that an exported file has")
        elif not tables or len(words) != (2 if tables[-1].reads else 1):
            raise _wrong(line, f"{shown(' '.join(words))} is no row of a .names")
        else:
            tables[-1].rows.append((words[0] if len(words) == 2 else "", words[-1]))
    network = Network(inputs)
    nodes = {name: i for i, name in enumerate(inputs)}
    if len(nodes) != len(inputs):
        raise _wrong(1, "an input is named twice")
    for table in tables:
        if table.makes in nodes:
            raise _wrong(table.line, f"{shown(table.makes)} is made twice")
        missing = next((name for name in table.reads if name not in nodes), None)
        if missing is not None:
            raise _wrong(table.line, f"{shown(missing)} is read before it is made")
        nodes[table.makes] = network.add([nodes[name] for name in table.reads], _table(table))
    for name in outputs:
        if name not in nodes:
            raise _wrong(1, f"nothing makes the output {shown(name)}")
        network.outputs[name] = nodes[name]
    return network


def _table(names: _Names) -> int:
    """The values of every pattern; the first character of a row belongs to the first input."""
    count = len(names.reads)
    if count > MOST_TABLE_INPUTS:
        raise _wrong(names.line, f"a .names of {count} inputs; at most {MOST_TABLE_INPUTS} can be read")
    said = {value for _, value in names.rows}
    if len(said) > 1 or not said <= {"0", "1"}:
        raise _wrong(names.line, "the rows of a .names must all say 1, or all say 0")
    hit = 0
    for pattern, _ in names.rows:
        if len(pattern) != count or not set(pattern) <= set("01-"):
            raise _wrong(names.line, f"{shown(pattern)} is no pattern of {count} inputs")
        fixed = [(i, character == "1") for i, character in enumerate(pattern) if character != "-"]
        for p in range(1 << count):
            if all(bool(p >> i & 1) == wanted for i, wanted in fixed):
                hit |= 1 << p
    return hit if said != {"0"} else hit ^ ((1 << (1 << count)) - 1)


def _lines(text: str) -> list[tuple[int, list[str]]]:
    """Numbered lines as words: comments gone, lines that end in a backslash joined with the next."""
    found: list[tuple[int, list[str]]] = []
    start, kept = 1, ""
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.partition("#")[0]
        start = number if not kept else start
        if plain.endswith("\\"):
            kept += plain[:-1] + " "
            continue
        words = (kept + plain).split()
        kept = ""
        if words:
            found.append((start, words))
    return found


def _wrong(line: int, problem: str) -> SamebitsError:
    return SamebitsError(f"the BLIF, line {line}: {problem}; export again")
