"""Pairs to try the task `rewrite` with, in the form that users bring their own: negations of formulas move inwards."""

from __future__ import annotations

import json
from functools import cache

Formula = str | tuple["Formula", ...]

SYMBOLS = ("x", "y", "z")
TURNED = {"and": "or", "or": "and"}


@cache
def pairs() -> bytes:
    """JSON lines of input and target."""
    small: list[Formula] = [("not", a) for a in SYMBOLS]
    small += [(word, a, b) for word in TURNED for a in SYMBOLS for b in SYMBOLS if a != b]
    inputs: list[Formula] = [("not", one) for one in small]
    inputs += [(word, ("not", one), a) for word in TURNED for one in small for a in SYMBOLS]
    inputs += [("not", (word, one, a)) for word in TURNED for one in small for a in SYMBOLS]
    lines = [json.dumps({"input": written(one), "target": written(inwards(one))}) for one in inputs]
    return "".join(f"{line}\n" for line in lines).encode()


def inwards(formula: Formula, negated: bool = False) -> Formula:
    """By De Morgan's laws: afterwards only symbols are negated."""
    if isinstance(formula, str):
        return ("not", formula) if negated else formula
    word, *operands = formula
    if word == "not":
        return inwards(operands[0], not negated)
    assert isinstance(word, str)
    return (TURNED[word] if negated else word, *(inwards(one, negated) for one in operands))


def written(formula: Formula) -> str:
    return formula if isinstance(formula, str) else f"({' '.join(map(written, formula))})"
