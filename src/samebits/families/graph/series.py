"""Rewriting series: an expression, what the teacher does to it step by step, and where it ends. And the splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from samebits.errors import SamebitsError
from samebits.families.graph import generators, rules
from samebits.families.graph.config import GraphConfig
from samebits.families.graph.edits import Edits, apply, is_fixed_point
from samebits.families.graph.expressions import Tree, canonical_hash, text_of
from samebits.families.graph.generators import OperatorRange, draws, tree_from

SPLITS = ("train", "unseen", "larger")
UNSEEN_PART = 10  # one expression in so many, by its hash, never enters training, whatever the seed
MOST_TRIES = 50  # draws for each expression wanted, before there seem to be no more different ones

TASK_WORDS = {"boolean": "simplify", "peano": "peano", "arithmetic": "eval", "algebra": "simplify", "derivative": "d"}


class Series(NamedTuple):
    """Every tree with the edits that make the next one; the last has none."""

    trees: list[Tree]
    edits: list[Edits]


def teacher(config: GraphConfig) -> rules.Step:
    if config.rule == "arithmetic":
        return partial(rules.arithmetic, modulus=config.modulus)
    step: rules.Step = getattr(rules, config.rule)
    return step


def make_series(step: Callable[[Tree], Edits], tree: Tree, most_steps: int) -> Series:
    """Apply the teacher until nothing changes."""
    trees, edits = [tree], [step(tree)]
    while not is_fixed_point(edits[-1]):
        following = apply(trees[-1], edits[-1])
        if following is None or len(trees) > most_steps:
            raise SamebitsError(f"{text_of(tree)} does not come to an end in {most_steps} steps; raise most_steps")
        trees.append(following)
        edits.append(step(following))
    return Series(trees, edits)


def in_split(tree: Tree, split: str) -> bool:
    return (canonical_hash(tree) % UNSEEN_PART == 0) == (split == "unseen") or split == "larger"


def expressions(config: GraphConfig, split: str) -> Iterator[Tree]:
    """Different expressions of a split, in the order of their index."""
    make = getattr(generators, config.rule)
    if config.rule == "arithmetic":
        make = partial(make, modulus=config.modulus)
    sizes = OperatorRange(*(config.larger if split == "larger" else config.operators))
    seen = set()
    stale = 0
    for draw in draws(config.seed, int(split == "larger")):
        tree = tree_from(make(draw, sizes))
        name = text_of(tree)
        stale += 1
        if name not in seen and in_split(tree, split):
            seen.add(name)
            stale = 0
            yield tree
        if stale > MOST_TRIES * UNSEEN_PART:
            return  # a small grammar is used up


def split_series(config: GraphConfig, split: str, count: int) -> list[Series]:
    """The first `count` series of a split, fewer where there are no more different ones."""
    step = teacher(config)
    found = expressions(config, split)
    return [make_series(step, tree, 10 * config.most_steps) for tree in islice(found, count)]
