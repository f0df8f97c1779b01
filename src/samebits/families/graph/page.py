"""The page of a run of `samebits serve`: an expression to type, rewritten step by step, each step drawn and judged."""

from __future__ import annotations

from typing import Any

from samebits.errors import SamebitsError
from samebits.families.graph.expressions import Tree, text_of
from samebits.families.graph.grammar import fits
from samebits.families.graph.model import GraphModel, Rewriting
from samebits.families.graph.series import make_series, teacher
from samebits.families.graph.verbs import judged
from samebits.report.graphs import places

MOST_EXPRESSION = 10_000  # characters


def rewritten(model: GraphModel, expression: str) -> dict[str, Any]:
    """An expression rewritten by the network, every step drawn and judged."""
    if len(expression) > MOST_EXPRESSION:
        raise SamebitsError(
            f"the expression has {len(expression)} characters; it may have {MOST_EXPRESSION}; shorten it"
        )
    found = model.predict(expression, workers=1)
    verdicts = verdicts_of(model, found)
    steps = [
        {**drawn(tree), "text": text, "verdict": verdict, "instead": instead}
        for tree, text, (verdict, instead) in zip(found.trees, found.texts, verdicts, strict=True)
    ]
    return {"steps": steps, "ended": found.ended, "judged": judged(model.config, found)}


def drawn(tree: Tree) -> dict[str, Any]:
    """A tree with a place for each of its nodes."""
    return {"labels": tree.labels, "parents": tree.parents, "places": places(tree.parents)}


def verdicts_of(model: GraphModel, found: Rewriting) -> list[tuple[str, str]]:
    """Of every tree: "right" or "wrong" by what the rules make of the one before, and that where it differs. "" where
    there are no rules, or they are not made for this expression."""
    config = model.config
    if config.data is not None or not fits(config, found.trees[0]):
        return [("", "")] * len(found.trees)
    step, verdicts = teacher(config), [("", "")]
    for before, after in zip(found.trees, found.trees[1:], strict=False):
        try:
            series = make_series(step, before, 10 * config.most_steps).trees
        except (SamebitsError, LookupError, ValueError):
            # After a wrong step the rules may come to no end, or the tree is no expression: "mul" without operands.
            verdicts.append(("wrong", ""))
            continue
        wanted = series[1] if len(series) > 1 else before
        verdicts.append(("right", "") if after == wanted else ("wrong", text_of(wanted)))
    return verdicts
