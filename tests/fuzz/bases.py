"""Small runs of the three families, made once and copied by every input that wants one. Their bytes are always the
same: what depends on the machine or the moment is replaced, so that a draw meets the same file everywhere."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import samebits as api
from samebits import distance
from samebits.bits import BITS
from samebits.config import read_toml, to_toml
from samebits.families import find_task
from tests.helpers import samebits_here

STEPS = 6
CADENCE = {"steps": STEPS, "checkpoint_every": 2, "eval_every": 3, "eval_samples": 2, "log_every": 1, "keep": 5}
TEXT = "The quick brown fox jumps over the lazy dog.\nPack my box with five dozen liquor jugs, é and ß.\n" * 12
PAIRS = (
    ("(and x T)", "x"), ("(or x T)", "T"), ("(not (not x))", "x"), ("(and x (or y F))", "(and x y)"),
    ("(and y T)", "y"), ("(or F y)", "y"), ("(f a b c)", "(g a)"), ("(not T)", "F"),
)  # fmt: skip

WARM = (
    ("life", "eval"), ("life", "render", "--soft", "--steps", "1"), ("grow", "eval"), ("grow", "circuit"),
    ("gpt", "eval"),
    ("gpt", "sample", "--tokens", "2", "--samples", "2"), ("gpt", "sample", "--tokens", "2"),
    ("boolean", "predict", "x"),
)  # fmt: skip


class Base(NamedTuple):
    family: str
    task: str
    settings: dict[str, Any]


BASES = {
    "life": Base("logic_ca", "life", {}),
    "grow": Base("logic_ca", "grow", {}),
    "gpt": Base("gpt", "gpt", {"data": "text.txt"}),
    "bpe": Base("gpt", "gpt", {"data": "text.txt", "tokenizer": "bpe", "vocab": 280}),
    "boolean": Base("graph", "boolean", {}),
    "pairs": Base("graph", "boolean", {"data": "pairs.jsonl"}),
}


def tiny(task: str) -> dict[str, Any]:
    """Every key of the smallest config that a task has, at a few steps."""
    return {**find_task(task)[1].checks[0].model_dump(mode="json", exclude_none=True), **CADENCE}


class Bases(NamedTuple):
    """Where the runs lie, each beside the files that it was trained on."""

    folder: Path

    def copy(self, name: str, place: Path, to: str = "run") -> Path:
        """A run of one's own, and its data."""
        lay_data(place)
        shutil.copytree(self.folder / name, place / to)
        return place / to


def lay_data(place: Path) -> None:
    place.joinpath("text.txt").write_text(TEXT, encoding="utf-8")
    lines = [json.dumps({"input": before, "target": after}) for before, after in PAIRS]
    place.joinpath("pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")


def make(folder: Path) -> Bases:
    """Train them all: a second or two, or a minute or two where kernels must be compiled."""
    lay_data(folder)
    with contextlib.chdir(folder):
        for name, base in BASES.items():
            api.train(base.task, preset="small", workers=1, out=name, **{**tiny(base.task), **base.settings})
            _settle(folder / name, base)
    with short_work():
        warm(Bases(folder))
    return Bases(folder)


def warm(bases: Bases) -> None:
    """Compile, or load, the rest: an input that has to wait for the compiler would look as if it hung."""
    for number, (name, verb, *words) in enumerate(WARM):
        place = bases.folder / f"warm-{number}"
        place.mkdir()
        bases.copy(name, place)
        done = samebits_here(verb, "run", *words, cwd=place)
        assert done.returncode == 0, (name, verb, done.stderr)
        shutil.rmtree(place)
    graph, tree = distance.Graph("ab", [(0, 1)]), ([0, 1], [-1, 0])
    for costs in (distance.Costs(), distance.Costs(node_substitute=lambda a, b: 1.0)):
        distance.graph_edit_distance(graph, graph, costs)
        distance.bounds(graph, graph, costs)
        distance.tree_edit_distance(tree, tree, costs)
        distance.matrix([graph, graph], costs=costs, workers=2)
        distance.matrix([tree, tree], costs=costs, kind="tree", workers=2)
    distance.tree_edit_mapping(*tree, *tree)


def _settle(run: Path, base: Base) -> None:
    """Replace what is of this machine: paths, versions, times."""
    tables = read_toml(run / "config.toml")
    tables["config"] |= {key: value for key, value in base.settings.items() if key == "data"}
    tables["made_with"] = {"bits": [BITS], "samebits": "0"}
    (run / "config.toml").write_text(to_toml(tables), encoding="utf-8")
    (run / "timing.csv").write_text("step,seconds\n", encoding="utf-8")


@contextlib.contextmanager
def short_work() -> Iterator[None]:
    """What evaluations and timings do at length is not looked at here: less of it does as well."""
    changes = {
        "samebits.families.logic_ca.simulation.experiments.SOUP_STEPS": 2,
        "samebits.families.logic_ca.simulation.experiments.LARGE_LIFE_STEPS": 2,
        "samebits.families.logic_ca.simulation.experiments.ROBUST_STEPS": 202,
        "samebits.families.graph.verbs.TESTED": 6,
        "samebits.families.graph.verbs.DRAWN_FROM": 6,
        "samebits.bench.contest.LEAST_SECONDS": 0.0,
    }
    with contextlib.ExitStack() as stack:
        for name, value in changes.items():
            stack.enter_context(patch(name, value))
        yield
