"""The WebAssembly module's step: its bytes decoded, its loop over vectors followed with words for values.

Which neighbour a value is, its load's offset says. The code around the loop body must be what walks over all rows and
vectors, instruction by instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from samebits.errors import SamebitsError
from samebits.hardware.network import Network

LINE, WORD = 144, 8  # bytes a channel in a row, and of a word
DIRECTIONS = (("NW", "N", "NE"), ("W", "C", "E"), ("SW", "S", "SE"))
MOST_BYTES, MOST_LOCALS = 1 << 24, 1 << 20
BEFORE, AFTER = 0, 1  # locals that point
PLAIN = {0x6A: "add", 0x6B: "subtract", 0x74: "shift"}  # without an immediate
VECTOR = {77: "not", 78: "and", 79: "andnot", 80: "or", 81: "xor", 203: "left", 205: "right"}
LOGIC = {"and": 0b1000, "andnot": 0b0010, "or": 0b1110, "xor": 0b0110}  # bit a + 2b

Instruction = tuple[Any, ...]


class _Bytes:
    """What is read off from the left; every surprise is a SamebitsError."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def take(self, count: int) -> bytes:
        found = self.raw[self.at : self.at + count]
        if len(found) != count:
            raise wrong("it ends early")
        self.at += count
        return found

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self, signed: bool = False) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if signed and byte & 0x40 else value
            if shift > 63:
                raise wrong("a number is too long")

    def part(self) -> _Bytes:
        return _Bytes(self.take(self.number()))

    @property
    def left(self) -> int:
        return len(self.raw) - self.at


def wrong(problem: str) -> SamebitsError:
    return SamebitsError(f"the WebAssembly module: {problem}; export again")


def read(raw: bytes, channels: Sequence[str]) -> Network:
    """`channels`: the names of the lines of a row, in their order."""
    code = _function(raw, "step")
    for _ in range(code.number()):
        if code.number() > MOST_LOCALS:
            raise wrong("it has too many locals")
        code.byte()
    instructions = []
    while code.left:
        instructions.append(_instruction(code))
    row = len(channels) * LINE
    start, end = _around(row)
    if instructions[: len(start)] != start or instructions[-len(end) :] != end:
        raise wrong("its loops over rows and vectors are not those of a step")
    return _Body(instructions[len(start) : -len(end)], channels).network


def _function(raw: bytes, name: str) -> _Bytes:
    """The code of an exported function."""
    if raw[:8] != b"\0asm\1\0\0\0" or len(raw) > MOST_BYTES:
        raise wrong("it does not begin as one does, or is too large")
    source, sections = _Bytes(raw[8:]), {}
    while source.left:
        kind = source.byte()
        if kind in sections:
            raise wrong("it has a section twice")
        sections[kind] = source.part()
    if 2 in sections or not {3, 7, 10} <= set(sections):
        raise wrong("it must have functions, exports and code, and import nothing")
    found, exports = None, sections[7]
    for _ in range(exports.number()):
        said, kind, index = exports.part().raw, exports.byte(), exports.number()
        if said == name.encode() and kind == 0:
            found = index
    bodies = sections[10]
    for index in range(bodies.number()):
        body = bodies.part()
        if index == found:
            return body
    raise wrong(f"it exports no function {name}")


def _instruction(code: _Bytes) -> Instruction:
    first = code.byte()
    if first in PLAIN:
        return (PLAIN[first],)
    if first in (0x20, 0x21, 0x22):
        return {0x20: "get", 0x21: "set", 0x22: "tee"}[first], code.number()
    if first == 0x41:
        return "int", code.number(signed=True)
    if first == 0x03:
        return "loop", code.byte()
    if first == 0x0D:
        return "again", code.number()
    if first == 0x0B:
        return ("end",)
    if first != 0xFD:
        raise wrong(f"its step has an instruction {first}")
    second = code.number()
    if second in (0, 11):
        align, offset = code.number(), code.number()
        if align > 4:
            raise wrong("an alignment is too large")
        return "load" if second == 0 else "store", offset
    if second == 12:
        return "bits", code.take(16)
    if second not in VECTOR:
        raise wrong(f"its step has a vector instruction {second}")
    return (VECTOR[second],)


def _around(row: int) -> tuple[list[Instruction], list[Instruction]]:
    """What stands before and after the body: pointers 0 and 1, rows 2, vectors 3, the rest of a row 4, a count 5."""

    def more(local: int, by: Instruction) -> list[Instruction]:
        return [("get", local), by, ("add",), ("set", local)]

    def again(local: int) -> list[Instruction]:
        return [("get", local), ("int", 1), ("subtract",), ("tee", local), ("again", 0), ("end",)]

    start = [("int", row), ("get", 3), ("int", 4), ("shift",), ("subtract",), ("set", 4), *more(AFTER, ("int", row))]
    start += [("loop", 0x40), ("get", 3), ("set", 5), ("loop", 0x40)]
    end = [*more(BEFORE, ("int", 16)), *more(AFTER, ("int", 16)), *again(5)]
    end += [*more(BEFORE, ("get", 4)), *more(AFTER, ("get", 4)), *again(2), ("end",)]
    return start, end


class _Body:
    """Values on the stack: ("pointer", local), ("int", n), ("words", channel, row, beside), ("moved", …, by) and
    ("node", n). A neighbour to the west is its words moved by 1 with a bit of the words beside moved by 63."""

    def __init__(self, instructions: Sequence[Instruction], channels: Sequence[str]) -> None:
        self.channels, self.stack, self.locals = channels, [], {}  # type: ignore[var-annotated]
        ports = [f"{channel}_{direction}" for channel in channels for row in DIRECTIONS for direction in row]
        self.network = Network(ports)
        for name, *operands in instructions:
            self._run(name, *operands)
        if self.stack:
            raise wrong("its step leaves values behind")

    def _pop(self, *kinds: str) -> Instruction:
        if not self.stack or self.stack[-1][0] not in kinds:
            raise wrong(f"its step has no {' or '.join(kinds)} where it needs one")
        return self.stack.pop()

    def _node(self) -> int:
        kind, *rest = self._pop("node", "words")
        if kind == "node":
            return rest[0]
        channel, row, beside = rest
        if beside:
            raise wrong("its step reads words beside a cell as they are")
        return self._port(channel, row, 1)

    def _port(self, channel: int, row: int, column: int) -> int:
        return 9 * channel + 3 * row + column

    def _run(self, name: str, operand: Any = None) -> None:
        if name == "get" and operand in (BEFORE, AFTER):
            self.stack.append(("pointer", operand))
        elif name == "get":
            if operand not in self.locals:
                raise wrong(f"its step reads local {operand} before it is set")
            self.stack.append(self.locals[operand])
        elif name == "set":
            if operand < 6 or operand in self.locals:
                raise wrong(f"its step sets local {operand}, and must not, or not twice")
            self.locals[operand] = self._pop("node", "words")
        elif name == "int":
            self.stack.append(("int", operand))
        elif name == "bits":
            if operand not in (bytes(16), b"\xff" * 16):
                raise wrong("its step has a constant of ones and zeros")
            self.stack.append(("node", self.network.constant(operand != bytes(16))))
        elif name == "load":
            self.stack.append(self._words(self._pop("pointer"), operand))
        elif name in ("left", "right"):
            by, words = self._pop("int")[1], self._pop("words")
            self.stack.append(("moved", name, *words[1:], by))
        elif name == "not":
            self.stack.append(("node", self.network.invert(self._node())))
        elif name == "or" and self.stack and self.stack[-1][0] == "moved":
            self.stack.append(("node", self._beside(self._pop("moved"), self._pop("moved"))))
        elif name in LOGIC:
            other, one = self._node(), self._node()
            self.stack.append(("node", self.network.add((one, other), LOGIC[name])))
        elif name == "store":
            self._store(operand)
        else:
            raise wrong(f"its step has {name} in its body")

    def _words(self, pointer: Instruction, offset: int) -> Instruction:
        row, rest = divmod(offset, len(self.channels) * LINE)
        channel, byte = divmod(rest, LINE)
        if pointer[1] != BEFORE or row > 2 or byte not in (0, WORD, 2 * WORD):
            raise wrong(f"its step loads from byte {offset}, which is no neighbour")
        return "words", channel, row, byte // WORD - 1

    def _beside(self, beside: Instruction, here: Instruction) -> int:
        """The neighbour to the west or east."""
        for column, far, (one, other) in ((0, -1, ("left", "right")), (2, 1, ("right", "left"))):
            _, _, channel, row, *_ = here
            if here == ("moved", one, channel, row, 0, 1) and beside == ("moved", other, channel, row, far, 63):
                return self._port(channel, row, column)
        raise wrong("its step joins words that are not next to each other")

    def _store(self, offset: int) -> None:
        node = self._node()
        channel, byte = divmod(offset, LINE)
        if self._pop("pointer")[1] != AFTER or byte != WORD or channel >= len(self.channels):
            raise wrong(f"its step stores to byte {offset}, which is no channel's")
        name = f"{self.channels[channel]}_next"
        if name in self.network.outputs:
            raise wrong(f"its step stores {name} twice")
        self.network.outputs[name] = node
