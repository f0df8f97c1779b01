"""What each task was trained on, as a rule for expressions: generators.py makes these and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from samebits.families.graph.config import GraphConfig
from samebits.families.graph.expressions import BIND, Tree
from samebits.families.graph.rules import DIGITS, FUNCTIONS, VARIABLES

Fits = Callable[[int], bool]  # whether the expression at a node belongs to the grammar

SAID = {
    "boolean": "and, or and not on x, y, z, T and F",
    "peano": "add on 0, (S 0), (S (S 0)) …",
    "arithmetic": "add, sub and mul on digits below {modulus} and on symbols bound before: (eval (bind x 3) (add x 1))",
    "algebra": "add, sub, mul and neg on x, y, z and digits, and (pow … 0 to 3)",
    "derivative": "add, sub, neg and (mul DIGIT …) of digits, x, (pow x DIGIT), (log x), sin, cos and exp of x or "
    "(mul DIGIT x), and x times sin, cos or exp of x",
}


def fits(config: GraphConfig, tree: Tree) -> bool:
    """Whether the task's generator could have made this tree, of whatever size."""
    if not tree.children[0]:
        return False
    *binds, root = tree.children[0]
    if binds and config.rule != "arithmetic":
        return False
    return GRAMMARS[config.rule](config, tree)(root)


def said(config: GraphConfig) -> str:
    """The grammar in words."""
    return SAID[config.rule].format(modulus=config.modulus)


def _operators(tree: Tree, operators: tuple[str, ...], leaves: tuple[str, ...]) -> Fits:
    def at(node: int) -> bool:
        label, kids = tree.labels[node], tree.children[node]
        return label in leaves if not kids else label in operators and all(map(at, kids))

    return at


def _boolean(config: GraphConfig, tree: Tree) -> Fits:
    return _operators(tree, ("and", "or", "not"), (*VARIABLES, "T", "F"))


def _peano(config: GraphConfig, tree: Tree) -> Fits:
    number = _operators(tree, ("S",), ("0",))

    def at(node: int) -> bool:
        return all(map(at, tree.children[node])) if tree.labels[node] == "add" else number(node)

    return at


def _arithmetic(config: GraphConfig, tree: Tree) -> Fits:
    digits, bound = DIGITS[: config.modulus], []
    for bind in tree.children[0][:-1]:
        if tree.labels[bind] != BIND:
            return lambda node: False
        name, value = (tree.labels[kid] for kid in tree.children[bind])
        if name not in VARIABLES or name in bound or value not in digits:
            return lambda node: False
        bound.append(name)
    return _operators(tree, ("add", "sub", "mul"), (*digits, *bound))


def _algebra(config: GraphConfig, tree: Tree) -> Fits:
    def at(node: int) -> bool:
        label, kids = tree.labels[node], tree.children[node]
        if label == "pow":
            return at(kids[0]) and tree.labels[kids[1]] in DIGITS[:4]
        if kids:
            return label in ("add", "sub", "mul", "neg") and all(map(at, kids))
        return label in VARIABLES or label in DIGITS

    return at


def _derivative(config: GraphConfig, tree: Tree) -> Fits:
    labels, children = tree.labels, tree.children

    def scaled_x(node: int) -> bool:
        """x or (mul DIGIT x)."""
        kids = [labels[kid] for kid in children[node]]
        return labels[node] == "x" or (labels[node] == "mul" and kids[0] in DIGITS[2:] and kids[1] == "x")

    def at(node: int) -> bool:
        label, kids = labels[node], children[node]
        below = [labels[kid] for kid in kids]
        if label in ("add", "sub", "neg"):
            return all(map(at, kids))
        if label == "pow":
            return below[0] == "x" and below[1] in DIGITS[2:]
        if label == "log":
            return below == ["x"]
        if label in FUNCTIONS:
            return scaled_x(kids[0])
        if label == "mul" and below[0] == "x":
            return below[1] in FUNCTIONS and labels[children[kids[1]][0]] == "x"
        if label == "mul":
            return below[0] in DIGITS[2:] and at(kids[1])
        return label == "x" or label in DIGITS[1:]

    return at


GRAMMARS: dict[str, Callable[[GraphConfig, Tree], Fits]] = {
    "boolean": _boolean,
    "peano": _peano,
    "arithmetic": _arithmetic,
    "algebra": _algebra,
    "derivative": _derivative,
}
