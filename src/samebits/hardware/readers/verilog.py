"""Verilog, as much of it as an exported cell or grid may use: one module, wires, registers on one clock.

A bit of a port or a register is an input of the network, called by its name, or name[i] in a vector; a register's value
after the clock's edge is the output `name[i]'`.
"""

from __future__ import annotations

from samebits.hardware.network import Network
from samebits.hardware.readers.expressions import MOST_BITS, Reader, Value

TOKEN = r"(?:\s+|//[^\n]*)|(?P<word>[0-9]+'b[01]+|[A-Za-z_]\w*|[0-9]+|<=|[@=(){}\[\]:;,~&|^])"


def read(raw: bytes) -> Network:
    return _Module(raw.decode("utf-8", "replace")).network


class _Module(Reader):
    def __init__(self, text: str) -> None:
        super().__init__("the Verilog", text, TOKEN, Network([]))
        self.outputs: dict[str, int] = {}  # width of each
        self.registers: dict[str, Value] = {}
        self.clock = ""
        self.take("module")
        self.name()
        self._ports()
        for register in self._registers_ahead():
            self._new_inputs(*register)
        while not self.passed("endmodule"):
            self._item()
        if self.next:
            raise self.wrong(f"{self.next} after endmodule")
        for name, width in self.outputs.items():
            self._outputs(name, self.value_of(name), width)

    def _range(self) -> int:
        """How many bits [7:0] has; without it, 0 stands for a scalar."""
        if not self.passed("["):
            return 0
        width = self.number() + 1
        self.take(":")
        if self.number() != 0 or width > MOST_BITS:
            raise self.wrong(f"a vector must end at bit 0 and have at most {MOST_BITS} bits")
        self.take("]")
        return width

    def _ports(self) -> None:
        self.take("(")
        while True:
            kind = self.take("input", "output")
            self.take("wire")
            width = self._range()
            name = self.name()
            if kind == "output":
                if name in self.outputs:
                    raise self.wrong(f"{name} is defined twice")
                self.outputs[name] = width
            else:
                self._new_inputs(name, width)
            if self.take(",", ")") == ")":
                break
        self.take(";")

    def _registers_ahead(self) -> list[tuple[str, int]]:
        """Registers become inputs of the network, which must all be known before the first gate."""
        found, start = [], self.at
        while self.next:
            if self.passed("reg"):
                width = self._range()
                found.append((self.name(), width))
                self.take(";")
            else:
                self.at += 1
        self.at = start
        return found

    def _new_inputs(self, name: str, width: int) -> None:
        first, bits = len(self.network.inputs), _bits(name, width)
        self.define(name, list(range(first, first + len(bits))))
        self.network.inputs += bits

    def _outputs(self, name: str, value: Value, width: int, mark: str = "") -> None:
        if len(value) != max(1, width):
            raise self.wrong(f"{name} has {max(1, width)} bits and is given {len(value)}")
        for bit, node in zip(_bits(name, width), value, strict=True):
            self.network.outputs[bit + mark] = node

    def _item(self) -> None:
        kind = self.take("wire", "reg", "assign", "always")
        if kind == "reg":
            self._range()
            self.name()
            self.take(";")
        elif kind == "always":
            self._always()
        else:
            width = self._range() if kind == "wire" else -1
            name = self.name()
            if kind == "assign" and name not in self.outputs:
                raise self.wrong(f"{name} is assigned, and is no output")
            self.take("=")
            value = self.expression(self._primary)
            self.take(";")
            if kind == "wire" and len(value) != max(1, width):
                raise self.wrong(f"{name} has {max(1, width)} bits and is given {len(value)}")
            self.define(name, value)

    def _primary(self) -> Value:
        if self.passed("{"):
            return self._joined()
        word = self.take()
        if "'b" in word:
            width, _, digits = word.partition("'b")
            if not 1 <= len(width) <= 7 or not 1 <= int(width) <= MOST_BITS or len(digits) > int(width):
                raise self.wrong(f"{word} has more digits than bits, or too many")
            return [self.network.constant(bit == "1") for bit in reversed(digits.rjust(int(width), "0"))]
        value = self.value_of(word)
        if not self.passed("["):
            return value
        high = low = self.number()
        if self.passed(":"):
            low = self.number()
        self.take("]")
        if not 0 <= low <= high < len(value):
            raise self.wrong(f"{word}[{high}:{low}] is outside {word}, which has {len(value)} bits")
        return value[low : high + 1]

    def _joined(self) -> Value:
        """{first, second}: the first is the highest; or {4{value}}: the same four times."""
        self._deeper()
        found: Value = []
        if self.next.isdigit() and self.tokens[self.at + 1 : self.at + 2] == ["{"]:
            times = self.number()
            self.take("{")
            value = self._joined()
            if times * len(value) > MOST_BITS:
                raise self.wrong(f"a vector of more than {MOST_BITS} bits")
            found = value * times
            self.take("}")
        else:
            parts = [self.expression(self._primary)]
            while self.take(",", "}") == ",":
                parts.append(self.expression(self._primary))
            for part in reversed(parts):
                found += part
        self.depth -= 1
        return found

    def _always(self) -> None:
        """always @(posedge clk) begin if (a) r <= v; else if (b) r <= w; … end: without a case a value stays."""
        for word in ("@", "(", "posedge"):
            self.take(word)
        clock = self.name()
        self.clock = self.clock or clock
        if len(self.value_of(clock)) != 1 or clock != self.clock:
            raise self.wrong(f"{clock} is not the one clock")
        self.take(")")
        self.take("begin")
        while not self.passed("end"):
            self._register()

    def _register(self) -> None:
        cases: list[tuple[int, Value]] = []
        target = ""
        while True:
            self.take("if")
            self.take("(")
            asked = self.expression(self._primary)
            self.take(")")
            if len(asked) != 1:
                raise self.wrong("a condition must be one bit")
            name = self.name()
            target = target or name
            if name != target:
                raise self.wrong(f"{name} and {target} are set by one if")
            self.take("<=")
            cases.append((asked[0], self.expression(self._primary)))
            self.take(";")
            if not self.passed("else"):
                break
        state = self.value_of(target)
        width = 0 if self.network.inputs[state[0]] == target else len(state)
        if f"{_bits(target, width)[0]}'" in self.network.outputs:
            raise self.wrong(f"{target} is set twice")
        value = state
        for asked_bit, wanted in reversed(cases):
            if len(wanted) != len(value):
                raise self.wrong(f"{target} has {len(value)} bits and is given {len(wanted)}")
            value = [self.network.add((asked_bit, x, y), 0xD8) for x, y in zip(wanted, value, strict=True)]
        self._outputs(target, value, width, "'")


def _bits(name: str, width: int) -> list[str]:
    return [f"{name}[{i}]" for i in range(width)] if width else [name]
