"""Random expressions: expression i of a task is a function of (seed, stream, i) alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from samebits.arithmetic import rng
from samebits.arithmetic.rng import Purpose
from samebits.families.graph.expressions import BIND, Tree
from samebits.families.graph.rules import DIGITS, FUNCTIONS, VARIABLES

WORDS = 256  # a draw; more than the largest expression takes
BLOCK = 256  # draws made at a time

Node = tuple  # (label, operand, …), easy to build; `tree_from` turns it into arrays


class Draw:
    """A source of choices for one expression."""

    def __init__(self, words: list[int]) -> None:
        self.words = words
        self.used = 0

    def below(self, n: int) -> int:
        word = self.words[self.used % WORDS]
        self.used += 1
        return (word >> 32) * n >> 32

    def pick(self, choices: tuple[str, ...]) -> str:
        return choices[self.below(len(choices))]

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)


class OperatorRange(NamedTuple):
    """Fewest and most operators of an expression."""

    least: int
    most: int


def draws(seed: int, stream: int) -> Iterator[Draw]:
    """Draw 0, 1, 2 …; stream 0 for training and unseen, 1 for the larger split."""
    start = 0
    while True:
        words = rng.words((BLOCK, WORDS), seed, Purpose.EVALUATION, 0, start, extra=1 + stream)
        for row in words.tolist():
            yield Draw(row)
        start += BLOCK


def tree_from(root: Node) -> Tree:
    labels: list[str] = []
    parents: list[int] = []
    children: list[list[int]] = []

    def visit(node: Node, parent: int) -> None:
        me = len(labels)
        labels.append(node[0])
        parents.append(parent)
        children.append([])
        if parent >= 0:
            children[parent].append(me)
        for operand in node[1:]:
            visit(operand, me)

    visit(root, -1)
    return Tree(labels, parents, children)


def _split(draw: Draw, operators: int) -> tuple[int, int]:
    left = draw.below(operators)
    return left, operators - 1 - left


def boolean(draw: Draw, sizes: OperatorRange) -> Node:
    def formula(operators: int) -> Node:
        if operators == 0:
            return (draw.pick(("x", "x", "y", "y", "z", "z", "T", "F")),)
        kind = draw.pick(("and", "and", "or", "or", "not"))
        if kind == "not":
            return (kind, formula(operators - 1))
        left, right = _split(draw, operators)
        return (kind, formula(left), formula(right))

    return ("simplify", formula(draw.between(*sizes)))


def peano(draw: Draw, sizes: OperatorRange) -> Node:
    def term(additions: int) -> Node:
        if additions == 0:
            number: Node = ("0",)
            for _ in range(draw.below(4)):
                number = ("S", number)
            return number
        left, right = _split(draw, additions)
        return ("add", term(left), term(right))

    return ("peano", term(draw.between(*sizes)))


def arithmetic(draw: Draw, sizes: OperatorRange, modulus: int) -> Node:
    bound = VARIABLES[: draw.below(3)]

    def term(operators: int) -> Node:
        if operators == 0:
            if bound and draw.below(2):
                return (draw.pick(bound),)
            return (DIGITS[draw.below(modulus)],)
        left, right = _split(draw, operators)
        return (draw.pick(("add", "sub", "mul")), term(left), term(right))

    values = [(BIND, (name,), (DIGITS[draw.below(modulus)],)) for name in bound]
    return ("eval", *values, term(draw.between(*sizes)))


def algebra(draw: Draw, sizes: OperatorRange) -> Node:
    def atom() -> Node:
        return (draw.pick(("x", "x", "y", "y", "z", "0", "0", "1", "1", DIGITS[2 + draw.below(8)])),)

    def term(operators: int) -> Node:
        if operators == 0:
            return atom()
        kind = draw.pick(("add", "add", "sub", "sub", "mul", "mul", "neg", "pow"))
        if kind == "neg":
            return (kind, term(operators - 1))
        if kind == "pow":
            exponent = draw.pick(("1", "2", "3") if operators > 1 else ("0", "1", "2", "3"))
            return (kind, term(operators - 1), (exponent,))
        left, right = _split(draw, operators)
        return (kind, term(left), term(right))

    return ("simplify", term(draw.between(*sizes)))


def derivative(draw: Draw, sizes: OperatorRange) -> Node:
    def digit(least: int) -> Node:
        return (DIGITS[draw.between(least, 9)],)

    def simple() -> Node:
        kind = draw.below(8)
        if kind == 0:
            return digit(1)
        if kind == 1:
            return ("x",)
        if kind <= 3:
            return ("pow", ("x",), digit(2))
        if kind == 4:
            return ("log", ("x",))
        if kind == 5:
            return ("mul", ("x",), (draw.pick(FUNCTIONS), ("x",)))
        inner: Node = ("x",) if kind == 6 else ("mul", digit(2), ("x",))
        return (draw.pick(FUNCTIONS), inner)

    def term(operators: int) -> Node:
        if operators == 0:
            return simple()
        kind = draw.pick(("add", "sub", "neg", "mul", "mul"))
        if kind == "neg":
            return (kind, term(operators - 1))
        if kind == "mul":
            return (kind, digit(2), term(operators - 1))
        left, right = _split(draw, operators)
        return (kind, term(left), term(right))

    return ("d", term(draw.between(*sizes)))
