"""What one can do with a trained network: test it, watch it rewrite, draw it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from samebits.config import override
from samebits.devices.choose import device_for
from samebits.devices.interface import Device
from samebits.families.graph.config import GraphConfig
from samebits.families.graph.data import series_of
from samebits.families.graph.edits import optimal_mapping
from samebits.families.graph.expressions import Tree, subtree, text_of
from samebits.families.graph.grammar import fits, said
from samebits.families.graph.model import GraphModel, Rewriting
from samebits.families.graph.series import SPLITS, Series, make_series, teacher
from samebits.training.parts import Report

TESTED = 500  # series of each split
SHOWN = {"unseen": 3, "larger": 2}  # rows of a picture, …
SHOWN_ELSE = {"train": 3}  # … where a user's file is too small to hold anything back, …
DRAWN_FROM = 40  # … the best to look at of so many: several steps, and an answer of a few nodes
FEWEST_TREES, GOOD_SIZE = 4, 4
STEPS_A_ROW = 2  # a picture that can be read at the width of a page


def copied(model: GraphModel, tree: Tree) -> Tree:
    """What copying the input would answer: the expression without task word and bindings."""
    if not model.config.from_pairs and tree.children[0]:
        return subtree(tree, tree.children[0][-1])
    return tree


def mean_distance(found: Sequence[Tree], wanted: Sequence[Tree]) -> float:
    return sum(optimal_mapping(a, b)[0] for a, b in zip(found, wanted, strict=True)) / len(wanted)


def report(model: GraphModel, device: Device) -> Report:
    """Exact answers and mean edit distance on every split, beside what needs no learning."""
    train = series_of(model.config, "train", max(TESTED, model.config.expressions))
    usual = Counter(text_of(one.trees[-1]) for one in train).most_common(1)[0][0]
    common = next(one.trees[-1] for one in train if text_of(one.trees[-1]) == usual)
    rows = []
    for split in SPLITS:
        series = train[:TESTED] if split == "train" else series_of(model.config, split, TESTED)
        if not series:
            continue
        wanted = [one.trees[-1] for one in series]
        answers = model.predict([one.trees[0] for one in series], device=device)
        followed = sum(ours.ended and ours.trees == one.trees for ours, one in zip(answers, series, strict=True))
        who: dict[str, list[Tree]] = {
            "network": [answer.trees[-1] for answer in answers],
            "copy the input": [copied(model, one.trees[0]) for one in series],
            f"always {usual}": [common] * len(series),
        }
        for name, trees in who.items():
            exact = sum(a == b for a, b in zip(trees, wanted, strict=True))
            rows.append(
                {
                    "split": split,
                    "who": name,
                    "expressions": len(series),
                    "exact": exact / len(series),
                    "whole series": followed / len(series) if name == "network" else None,
                    "mean edit distance": mean_distance(trees, wanted),
                }
            )
    own = model.config.data
    formats = {"exact": ".1%", "whole series": ".1%", "mean edit distance": ".3f"}
    return Report(rows, formats, "" if own is None else f"your pairs of {Path(own).name}")


def predict(model: GraphModel, text: str, device: str | Device = "cpu") -> tuple[Rewriting, str]:
    """The network's rewriting of one expression, and what to think of it."""
    found = model.predict(text, device=device)
    return found, judged(model.config, found)


def judged(config: GraphConfig, found: Rewriting) -> str:
    """Whether the rules come to the same, where there are rules and they are made for this expression."""
    if not found.ended:
        return "not finished: the limit of steps or nodes came first (most_steps, most_nodes)"
    if config.from_pairs:
        return ""
    if not fits(config, found.trees[0]):
        return f"do not rely on this: the network was trained on {said(config)}"
    right = make_series(teacher(config), found.trees[0], 10 * config.most_steps).trees[-1]
    if found.trees[-1] == right:
        return "right: the rules come to the same"
    return f"wrong: by the rules it is {text_of(right)}"


def _dullness(one: Series) -> tuple[bool, int, int]:
    return len(one.trees) < FEWEST_TREES, abs(len(one.trees[-1].labels) - GOOD_SIZE), -len(one.trees)


def render(model: GraphModel, folder: Path, seed: int = 0, device: str | Device = "cpu") -> list[Path]:
    """answers.png: unseen and larger expressions with the network's answer and the target; series.png: the first of
    them rewritten, step by step."""
    from samebits.report.graphs import Drawing, save_trees

    config = override(model.config, {"seed": seed})
    drawn_from = {split: series_of(config, split, DRAWN_FROM) for split in (*SHOWN, *SHOWN_ELSE)}
    shown = SHOWN if any(drawn_from[split] for split in SHOWN) else SHOWN_ELSE
    rows, rewritings = [], []
    with device_for(device) as used:
        for split, count in shown.items():
            series = sorted(drawn_from[split], key=_dullness)[:count]
            for one, found in zip(series, model.predict([one.trees[0] for one in series], device=used), strict=True):
                start, answer, target = one.trees[0], found.trees[-1], one.trees[-1]
                rows.append(
                    [
                        Drawing(start.labels, start.parents, f"{split}: input"),
                        Drawing(answer.labels, answer.parents, "network", found.ended and answer == target),
                        Drawing(target.labels, target.parents, "target"),
                    ]
                )
                rewritings.append(found.trees)
    steps = [Drawing(tree.labels, tree.parents, f"step {i}" if i else "input") for i, tree in enumerate(rewritings[0])]
    sheet = [steps[i : i + STEPS_A_ROW] for i in range(0, len(steps), STEPS_A_ROW)]
    name = config.rule if config.data is None else Path(config.data).name
    return [
        save_trees(folder / "answers.png", rows, f"{name}: input, the network's answer, the target"),
        save_trees(folder / "series.png", sheet, f"{name}: one rewriting, step by step"),
    ]
