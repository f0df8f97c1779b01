"""Every argument of the Python API, given what it is not for: an error of ours that names it, or a sensible result.

A row of the table is a callable with arguments that work. Each argument in turn becomes every value of ODD. `takes`
names the values that make sense there; all others must be refused, in one line, before anything is written.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest

import samebits
from samebits import GptModel, GraphModel, LogicModel, SamebitsError, distance
from samebits.config import override
from samebits.distance import Costs, Graph
from samebits.families import discover, find_preset
from samebits.families.gpt.tokens import characters, train_bpe
from samebits.side_by_side import Jobs, train_until
from samebits.verify.gradients import spread_params
from tests.helpers import snapshot


class Anything:
    def __init__(self, *given: Any) -> None:
        """Takes whatever it is called with."""


ODD: dict[str, Any] = {
    "None": None, "True": True, "3": 3, "-1": -1, "2.5": 2.5, "nan": float("nan"), "inf": float("inf"),
    "huge": 10**30, "digits": 10**5000, "x": "x", "empty": "", "NUL": "a\0b", "half": "\ud800", "long": "9" * 5000,
    "bytes": b"x", "[]": [], "{}": {}, "set": {1}, "object": object(), "function": lambda *given: None,
    "class": Anything, "Path": Path("y"), "ragged": [[1], [1, 2]], "objects": np.array([None, "x"], object),
    "texts": np.array(["x"]), "complex": np.ones((2, 2), complex), "scalar": np.array(2.5), "nothing": np.zeros(0),
    "times": np.ones(1, "m8[s]"), "graph": nx.path_graph(2),
}  # fmt: skip
TREE, ONE = ([1], [-1]), Graph([1])


class Row(NamedTuple):
    call: Callable[..., Any]
    good: Mapping[str, Any]
    takes: Mapping[str, str] = {}  # argument → names of ODD, separated by spaces
    said: Mapping[str, str] = {}  # argument → what the message calls it, as a pattern, where that is not its name


@functools.cache
def logic() -> LogicModel:
    family = discover()["logic_ca"]
    small = {"height": 3, "width": 3, "channels": 2, "kernels": 2, "update": (8, 4, 2), "ca_steps": 2, "batch_size": 1}
    config = override(find_preset("checkerboard", "small"), small)
    return LogicModel(config, spread_params(family, config).astype(np.float32), family.constants(config))


@functools.cache
def gpt() -> GptModel:
    known = characters(["abcx \n"], False)
    config = override(find_preset("gpt", "small"), {"context": 8, "vocab": known.size, "width": 8, "heads": 2})
    return GptModel(config, spread_params(discover()["gpt"], config).astype(np.float32), known.arrays())


@functools.cache
def graph() -> GraphModel:
    config = override(find_preset("boolean", "small"), {"width": 8})
    return GraphModel(config, spread_params(discover()["graph"], config).astype(np.float32), {})


def anew(model: Any, **given: Any) -> Any:
    """The model once more, with one field changed."""
    kept = {"config": model.config, "weights": model.weights, "constants": model.constants}
    return type(model)(**{**kept, **{name: value for name, value in given.items() if value is not ...}})


FIELDS = dict.fromkeys(("config", "weights", "constants"), ...)
GRIDS = np.ones((1, 3, 3, 2))
DRAWING = {
    "prompt": "a", "tokens": 2, "temperature": 0.5, "top_p": 0.9, "top_k": 2, "seed": 1,
}  # fmt: skip
DRAWS = {"prompt": "x empty", "tokens": "3", "temperature": "3 2.5 huge scalar", "top_k": "3", "seed": "3"}
PAIR = {"a": "(graph|tree) a", "b": "(graph|tree) b", "graphs": "graphs|graph 0", "others": "others"}
NUMBERS = "3 2.5 scalar huge"
COSTS = dict.fromkeys(("node_insert", "node_delete", "edge_insert", "edge_delete"), NUMBERS)
SUBSTITUTIONS = dict.fromkeys(("node_substitute", "edge_substitute"), f"{NUMBERS} function class")
BUDGET = "None 3 huge digits"

MODELS: dict[str, Row] = {
    "rollout": Row(
        lambda **given: logic().rollout(**given),
        {"grids": GRIDS, "steps": 1, "soft": False, "trajectory": False, "fire": None, "workers": 1, "device": "cpu",
         "packed": True},
        {"steps": "3", "soft": "True", "trajectory": "True", "fire": "None", "workers": "3", "packed": "True"},
    ),
    "loss_and_gradient": Row(
        lambda **given: logic().loss_and_gradient(**given),
        {"grids": GRIDS, "targets": GRIDS, "fire": None, "workers": 1},
        {"fire": "None", "workers": "3"},
    ),
    "animate": Row(lambda **given: logic().animate(**given), {"grid": (3, 4), "height": 300}, {"grid": "None"}),
    "logits": Row(lambda **given: gpt().logits(**given), {"tokens": [[1, 2]], "workers": 1, "device": "cpu"},
                  {"workers": "3"}),
    "loss": Row(lambda **given: gpt().loss(**given), {"text": "ab", "workers": 1}, {"workers": "3"}),
    "generate": Row(
        lambda **given: gpt().generate(**given),
        {**DRAWING, "samples": 1, "workers": 1, "device": "cpu"},
        {**DRAWS, "samples": "3", "workers": "3"},
    ),
    "stream": Row(lambda **given: list(gpt().stream(**given)), {**DRAWING, "sample": 0}, {**DRAWS, "sample": "3"}),
    "encode": Row(lambda **given: gpt().vocabulary.encode(**given), {"text": "a"}, {"text": "x empty"}),
    "encode pairs": Row(
        lambda **given: train_bpe(["abcx"], 256, False).encode(**given), {"text": "a"}, {"text": "x empty NUL long"}
    ),
    "decode": Row(lambda **given: gpt().vocabulary.decode(**given), {"tokens": [1]}, {"tokens": "3 [] nothing"}),
    "parse": Row(lambda **given: graph().parse(**given), {"text": "x"}, {"text": "x"}, {"text": "text|expression"}),
    "edits": Row(lambda **given: graph().edits(**given), {"trees": [], "workers": 1, "device": "cpu"},
                 {"trees": "[] nothing", "workers": "3"}),
    "predict": Row(lambda **given: graph().predict(**given), {"expressions": [], "workers": 1, "device": "cpu"},
                   {"expressions": "x [] nothing texts", "workers": "3"}, {"expressions": "expressions?"}),
    "LogicModel": Row(lambda **given: anew(logic(), **given), FIELDS, {"constants": "{}"}),
    "GptModel": Row(lambda **given: anew(gpt(), **given), FIELDS, {"constants": "{}"}),
    "GraphModel": Row(lambda **given: anew(graph(), **given), FIELDS, {"constants": "{}"}),
}  # fmt: skip
DISTANCES: dict[str, Row] = {
    "Costs": Row(Costs, dict.fromkeys({**COSTS, **SUBSTITUTIONS}, 1.0), {**COSTS, **SUBSTITUTIONS}),
    "Graph": Row(
        lambda **given: distance.graph_edit_distance(Graph(**given), Graph(**given)),
        {"labels": [1], "edges": [(0, 0)], "edge_labels": ["z"], "directed": False},
        {"labels": "x NUL half objects texts times", "edge_labels": "None x half texts times", "directed": "True"},
        {"labels": "labels?|graph a has .* nodes", "edges": "edges?", "edge_labels": "edge.labels?|edge .* label"},
    ),
    "from_networkx": Row(
        distance.from_networkx,
        {"graph": nx.path_graph(2), "node_label": "label", "edge_label": "label"},
        {"graph": "graph", "node_label": "x empty long", "edge_label": "x empty long"},
    ),
    "graph_edit_distance": Row(
        distance.graph_edit_distance,
        {"a": ONE, "b": ONE, "costs": None, "timeout": None, "budget": None},
        {"a": "graph", "b": "graph", "costs": "None", "timeout": "None 3 2.5 inf huge scalar", "budget": BUDGET},
        PAIR,
    ),
    "bounds": Row(
        distance.bounds, {"a": ONE, "b": ONE, "costs": None}, {"a": "graph", "b": "graph", "costs": "None"}, PAIR
    ),
    "tree_edit_distance": Row(
        distance.tree_edit_distance, {"a": TREE, "b": TREE, "costs": None}, {"costs": "None"}, PAIR
    ),
    "a tree as a pair": Row(
        lambda labels, parents: distance.tree_edit_distance((labels, parents), TREE),
        {"labels": [1], "parents": [-1]},
        {"labels": "x half texts times"},
        {"labels": "labels?"},
    ),
    "tree_edit_mapping": Row(
        distance.tree_edit_mapping,
        {"labels_a": [1], "parents_a": [-1], "labels_b": np.array([1]), "parents_b": np.array([-1])},
        {"labels_a": "x half texts times", "labels_b": "x half texts times"},
        {
            f"{what}_{name}": f"{what} of tree {name}|of tree {name} has the label|tree {name} has .*{what}"
            for what in ("labels", "parents")
            for name in "ab"
        },
    ),
    "matrix": Row(
        distance.matrix,
        {"graphs": [ONE], "others": [ONE], "costs": None, "kind": "graph", "budget": None, "workers": 1},
        {"others": "None", "costs": "None", "budget": BUDGET, "workers": "3"},
        PAIR,
    ),
    "matrix of trees": Row(
        lambda **given: distance.matrix(kind="tree", **given),
        {"graphs": [TREE], "others": [TREE], "costs": None, "budget": None, "workers": 1},
        {"others": "None", "costs": "None", "budget": "None", "workers": "3"},
        PAIR,
    ),
}  # fmt: skip
RUNS: dict[str, Row] = {
    "train": Row(
        lambda **given: samebits.train(**given, steps=1, batch_size=1, eval_every=0),
        {"task": "life", "preset": "small", "workers": 1, "device": "cpu", "inexact": False, "out": "new",
         "config_file": None, "observe": None, "interrupts": None, "progress": None},
        {"preset": "None", "workers": "3", "inexact": "True", "out": "None x Path", "config_file": "None",
         "observe": "None function class", "interrupts": "None", "progress": "None True"},
        {"config_file": "config_file|cannot read"},
    ),
    "resume": Row(
        samebits.resume,
        {"path": "run", "workers": 1, "device": "cpu", "inexact": False, "checkpoint": "last", "observe": None,
         "interrupts": None, "other_bits": False, "new_metrics": False, "progress": None},
        {"workers": "3", "inexact": "True", "observe": "None function class", "interrupts": "None",
         "other_bits": "True", "new_metrics": "True", "progress": "None True"},
        {"path": "path|does not exist"},
    ),
    "sweep": Row(
        lambda **given: samebits.sweep(**given, steps=1, batch_size=1, eval_every=1, seed=[0]),
        {"task": "life", "preset": "small", "jobs": 1, "out": "new", "stop_when": None, "halve": False,
         "progress": None},
        {"preset": "None", "jobs": "3", "out": "None x Path", "stop_when": "None", "halve": "True",
         "progress": "None True"},
        {"stop_when": "stop.when"},
    ),
    "open_device": Row(
        samebits.open_device,
        {"device": "cpu", "workers": 1, "inexact": False},
        {"workers": "3", "inexact": "True"},
    ),
    "load": Row(
        samebits.load,
        {"path": "run", "checkpoint": "last", "dtype": "float32", "kind": None},
        {"kind": "None"},
        {"path": "path|does not exist"},
    ),
}  # fmt: skip


def cells(rows: Mapping[str, Row]) -> pytest.MarkDecorator:
    found = [(row, argument) for row in rows.values() for argument in row.good]
    names = [f"{name}-{argument}" for name, row in rows.items() for argument in row.good]
    return pytest.mark.parametrize(("row", "argument"), found, ids=names)


def problem(row: Row, argument: str, name: str) -> str:
    """What is wrong with how one value is taken; empty if nothing is."""
    welcome = name in row.takes.get(argument, "").split()
    try:
        row.call(**{**row.good, argument: ODD[name]})
    except SamebitsError as error:
        if welcome:
            return f"{name}: refused: {error}"
        if not str(error).isprintable() or len(str(error)) > 500:
            return f"{name}: no line to read: {error!r}"
        said = row.said.get(argument, rf"\b{argument}\b")
        return "" if re.search(said, str(error)) else f"{name}: the error does not name {argument}: {error}"
    except Exception as error:
        return f"{name}: {type(error).__name__}: {str(error)[:200]}"
    return "" if welcome else f"{name}: taken"


def problems(row: Row, argument: str) -> list[str]:
    return [found for name in ODD if (found := problem(row, argument, name))]


@cells(MODELS)
def test_models(row: Row, argument: str) -> None:
    assert problems(row, argument) == []


@cells(DISTANCES)
def test_distances(row: Row, argument: str) -> None:
    assert problems(row, argument) == []


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    samebits.train("life", preset="small", workers=1, out=folder / "run", steps=2, batch_size=1, eval_every=0)
    return folder


class JobsHere(Jobs):
    """Jobs of a sweep in this process: to start one takes seconds, and tests/test_sweep.py does."""

    def run(self, jobs: Any, answered: Any, idle: Any) -> None:
        for number, job in enumerate(jobs):
            answered(number, train_until(job))
            idle()


@cells(RUNS)
def test_runs(row: Row, argument: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is refused leaves nothing behind."""
    monkeypatch.setattr("samebits.sweeping.Jobs", JobsHere)
    found = []
    for name in ODD:
        here = tmp_path / name
        here.mkdir()
        (here / "run").symlink_to(place / "run")
        monkeypatch.chdir(here)
        before = snapshot(place)
        found.append(problem(row, argument, name))
        if name not in row.takes.get(argument, "").split() and list(here.iterdir()) != [here / "run"]:
            found.append(f"{name}: something was written")
        if snapshot(place) != before:
            found.append(f"{name}: the run has changed")
    assert [one for one in found if one] == []


def test_a_step_number_and_a_type_will_do(place: Path) -> None:
    """What is not in the signature and makes sense all the same."""
    assert samebits.load(place / "run", 2, np.float64).weights.dtype == np.float64
    assert samebits.resume(place / "run", workers=1, checkpoint=2).outcome.step == 2


def test_every_function_is_in_the_table() -> None:
    """A new name, or a new argument, of the public API must come here too."""
    rows = {**MODELS, **DISTANCES, **RUNS}
    things = {name: getattr(module, name) for module in (samebits, distance) for name in module.__all__}
    things |= {"rollout": LogicModel.rollout, "loss_and_gradient": LogicModel.loss_and_gradient}
    things |= {name: getattr(GptModel, name) for name in ("logits", "loss", "generate", "stream")}
    things |= {name: getattr(GraphModel, name) for name in ("parse", "edits", "predict")}
    made_by_us = {
        "Run",
        "SweepResult",
        "EditDistance",
        "Distances",
        "SamebitsError",
    }  # records that a user reads and does not make
    for name, thing in things.items():
        if callable(thing) and name not in made_by_us:
            wanted = [one for one in inspect.signature(thing).parameters.values() if one.kind != one.VAR_KEYWORD]
            assert set(rows[name].good) == {one.name for one in wanted} - {"self"}, name
