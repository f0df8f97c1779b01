"""The C header: the statements of its loop over words. Which neighbour is read the load says, not the name."""

from __future__ import annotations

import re

from samebits.errors import SamebitsError
from samebits.hardware.network import Network
from samebits.hardware.readers.expressions import Reader, Value
from samebits.printing import shown

LOOP = re.compile(r"\n  for \(size_t at = 0; at < words; at\+\+\) \{\n(.*?)\n  \}\n", re.DOTALL)
POINTER = re.compile(r"  (const )?uint64_t \*restrict (\w+) = (before|after) \+ ([0-9]{1,6}) \* plane;")
ORDER = re.compile(r"^ \* A state is \w+ planes of \w+\(height, width\) words, ([\w, ]+) in this order:$", re.MULTILINE)
LOAD = re.compile(r"    const uint64_t (\w+) = \w+_(west|here|east)\((\w+) \+ at(?: ([-+]) stride)?\);")
TOKEN = r"(?:\s+)|(?P<word>UINT64_C\(0\)|[A-Za-z_]\w*|[0-9]+|[=()\[\];~&|^])"
DIRECTIONS = (("NW", "N", "NE"), ("W", "C", "E"), ("SW", "S", "SE"))
ROWS, COLUMNS = {"-": 0, None: 1, "+": 2}, {"west": 0, "here": 1, "east": 2}


def read(raw: bytes) -> Network:
    text = raw.decode("utf-8", "replace")
    loop, order = LOOP.search(text), ORDER.search(text)
    if not loop or not order:
        raise SamebitsError("the C header has no loop over words, or does not list its planes; export again")
    planes = order[1].split(", ")
    lines = loop[1].split("\n")
    pointers = _pointers(text[: loop.start()], planes)
    loads = {}  # name in C → port
    while lines and (found := LOAD.fullmatch(lines[0])):
        name, column, plane, row = found.groups()
        if pointers.get(plane, ("", ""))[0] != "before" or name in loads:
            raise SamebitsError(f"the C header loads {shown(lines[0].strip())}, which it may not; export again")
        loads[name] = f"{pointers[plane][1]}_{DIRECTIONS[ROWS[row]][COLUMNS[column]]}"
        lines.pop(0)
    ports = [f"{plane}_{direction}" for plane in planes for row in DIRECTIONS for direction in row]
    network = Network(ports)
    return _Statements(
        "\n".join(lines), network, {name: ports.index(port) for name, port in loads.items()}, pointers
    ).network


def _pointers(text: str, planes: list[str]) -> dict[str, tuple[str, str]]:
    """Every pointer's side, before or after, and the channel whose plane it points at."""
    found: dict[str, tuple[str, str]] = {}
    head = text[text.rindex("size_t plane) {") :] if "size_t plane) {" in text else ""
    for line in head.split("\n")[1:]:
        match = POINTER.fullmatch(line)
        if not match or int(match[4]) >= len(planes) or match[2] in found:
            raise SamebitsError(f"the C header points with {shown(line.strip())}, which it may not; export again")
        found[match[2]] = (match[3], planes[int(match[4])])
    return found


class _Statements(Reader):
    def __init__(
        self, text: str, network: Network, loads: dict[str, int], pointers: dict[str, tuple[str, str]]
    ) -> None:
        super().__init__("the C header's loop", text, TOKEN, network)
        for name, node in loads.items():
            self.define(name, [node])
        while self.next:
            if self.passed("const"):
                self.take("uint64_t")
                name = self.name()
                self.take("=")
                self.define(name, self.expression(self._primary))
            else:
                self._store(pointers)
            self.take(";")

    def _store(self, pointers: dict[str, tuple[str, str]]) -> None:
        name = self.name()
        side, plane = pointers.get(name, ("", ""))
        if side != "after" or f"{plane}_next" in self.network.outputs:
            raise self.wrong(f"{name} is stored to, and must not be, or not twice")
        for word in ("[", "at", "]", "="):
            self.take(word)
        self.network.outputs[f"{plane}_next"] = self.expression(self._primary)[0]

    def _primary(self) -> Value:
        if self.passed("UINT64_C(0)"):
            return [self.network.constant(False)]
        return self.value_of(self.name())
