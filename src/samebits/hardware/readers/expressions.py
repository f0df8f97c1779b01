"""Tokens and expressions that Verilog and C have in common: ~ & ^ |. Vectors are lists of nodes, lowest bit first."""

from __future__ import annotations

import re
from collections.abc import Callable

from samebits.errors import SamebitsError
from samebits.hardware.network import Network
from samebits.printing import shown

MOST_BITS = 1 << 20  # of a vector
MOST_NODES = 20_000_000  # of a file: what still fits into memory
MOST_DEPTH = 64  # of brackets

Value = list[int]


class Reader:
    """A text as tokens, and the network that is being read from it."""

    def __init__(self, what: str, text: str, token: str, network: Network) -> None:
        self.what, self.network = what, network
        self.tokens: list[str] = []
        self.lines: list[int] = []
        at, line, pattern = 0, 1, re.compile(token)
        while at < len(text):
            found = pattern.match(text, at)
            if not found or found.end() == at:
                raise SamebitsError(
                    f"{what}, line {line}: {shown(text[at : at + 20])} is nothing that an exported file has; "
                    "export again"
                )
            if found.lastgroup:
                self.tokens.append(found[0])
                self.lines.append(line)
            line += found[0].count("\n")
            at = found.end()
        self.at = self.depth = 0
        self.names: dict[str, Value] = {}

    def wrong(self, problem: str) -> SamebitsError:
        line = self.lines[min(self.at, len(self.lines) - 1)] if self.lines else 1
        return SamebitsError(f"{self.what}, line {line}: {problem}; export again")

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        """The next token, which must be one of these; any if none is named."""
        found = self.next
        if not found or (wanted and found not in wanted):
            raise self.wrong(f"found {shown(found)}, not {' or '.join(wanted) or 'more'}")
        self.at += 1
        return found

    def passed(self, token: str) -> bool:
        """Whether the next token is this one; then it is taken."""
        if self.next != token:
            return False
        self.at += 1
        return True

    def name(self) -> str:
        if not re.fullmatch(r"[A-Za-z_]\w*", self.next):
            raise self.wrong(f"found {shown(self.next)}, not a name")
        return self.take()

    def number(self) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", self.next):
            raise self.wrong(f"found {shown(self.next)}, not a number")
        return int(self.take())

    def define(self, name: str, value: Value) -> None:
        if name in self.names:
            raise self.wrong(f"{name} is defined twice")
        self.names[name] = value

    def value_of(self, name: str) -> Value:
        if name not in self.names:
            raise self.wrong(f"{name} is read before it is defined")
        return self.names[name]

    def expression(self, primary: Callable[[], Value]) -> Value:
        """Lowest first: |, ^, &, ~."""
        network = self.network
        found = self._level(("|", "^", "&"), (network.either, network.differ, network.both), primary)
        if len(network.tables) > MOST_NODES:
            raise self.wrong(f"more than {MOST_NODES} gates")
        return found

    def _level(
        self, signs: tuple[str, ...], gates: tuple[Callable[[int, int], int], ...], primary: Callable[[], Value]
    ) -> Value:
        if not signs:
            return self._unary(primary)
        found = self._level(signs[1:], gates[1:], primary)
        while self.passed(signs[0]):
            other = self._level(signs[1:], gates[1:], primary)
            if len(other) != len(found):
                raise self.wrong(f"{len(found)} and {len(other)} bits are joined by {signs[0]}")
            found = [gates[0](x, y) for x, y in zip(found, other, strict=True)]
        return found

    def _unary(self, primary: Callable[[], Value]) -> Value:
        if self.passed("~"):
            self._deeper()
            found = [self.network.invert(bit) for bit in self._unary(primary)]
        elif self.passed("("):
            self._deeper()
            found = self.expression(primary)
            self.take(")")
        else:
            return primary()
        self.depth -= 1
        return found

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise self.wrong(f"brackets more than {MOST_DEPTH} deep")
