"""samebits from Python: every function and method with arguments that are right, and arguments of any type."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import samebits as api
from samebits.families import discover
from tests.fuzz.bases import BASES, Bases, tiny
from tests.fuzz.judge import attempt
from tests.fuzz.kinds import Outcome, kind
from tests.fuzz.values import SMALL, count, nested, odd_setting, odd_text

Maker = Callable[[random.Random], Any]
Makers = dict[str, Maker]
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool", "complex64", "object", "U3", "M8[s]", "float16")
WRONG_ODDS = 0.25  # of an argument


def odd_array(draw: random.Random) -> Any:
    """An array of few numbers, in any shape and type."""
    shape = tuple(draw.choice((0, 1, 1, 2, 3)) for _ in range(draw.randrange(6)))
    found = np.array([draw.choice((0, 1, 2, 3)) for _ in range(int(np.prod(shape)))]).reshape(shape)
    found = found.astype(draw.choice(DTYPES))
    if found.size and found.dtype.kind == "f" and draw.random() < 0.3:
        found.flat[0] = draw.choice((np.nan, np.inf, -1))
    return found


def odd_object(draw: random.Random) -> Any:
    """A value of any type."""
    makers: list[Callable[[], Any]] = [
        lambda: None, lambda: True, lambda: odd_text(draw), lambda: odd_text(draw), lambda: b"x", lambda: 1.5,
        lambda: -1,
        lambda: draw.choice((10**20, 10**5000, -(10**400), 2**63)), lambda: float("nan"), list, dict, set, object,
        lambda: object,
        lambda: [draw.choice(SMALL), odd_text(draw)], lambda: (1, 2, 3), lambda: nested(100), lambda: {"a": 1},
        lambda: len,
        lambda: odd_array(draw), lambda: odd_array(draw), lambda: np.float32(1.5), lambda: np.int64(1),
        lambda: np.str_("x"),
        lambda: Path(odd_text(draw)), lambda: iter([1]), lambda: 1j, lambda: range(3), lambda: slice(2),
        lambda: np.bool_(True),
        lambda: bytearray(b"x"), lambda: memoryview(b"x"), lambda: Ellipsis, lambda: np.datetime64("2020"),
        lambda: [None],
    ]  # fmt: skip
    return draw.choice(makers)()


def chosen(draw: random.Random, makers: Makers, wrong: float = WRONG_ODDS) -> dict[str, Any]:
    """Arguments by name, some of them wrong."""
    return {name: odd_object(draw) if draw.random() < wrong else make(draw) for name, make in makers.items()}


def call(function: Callable[..., Any], given: dict[str, Any], title: str = "") -> Outcome:
    told = ", ".join(f"{name}={brief(value)}" for name, value in given.items())
    return attempt(f"{title or function.__qualname__}({told})", list(given), lambda: function(**given))


def brief(value: Any) -> str:
    try:
        return repr(value)[:120]
    except Exception:
        return f"<{type(value).__name__}>"


def some(*values: Any) -> Maker:
    return lambda draw: draw.choice(values)


WORKERS = some(1, 1, 2, "1", "auto")


def settings(draw: random.Random, task: str) -> dict[str, Any]:
    """Keys of a tiny config, one or two of them odd."""
    found = tiny(task) | {"steps": draw.choice((1, 2))}
    for _ in range(draw.choice((0, 1, 1, 2))):
        key = draw.choice(list(discover()[_family(task)].config.model_fields))
        usual = found.get(key)
        found[key] = odd_object(draw) if draw.random() < 0.5 else odd_setting(draw, key, usual)
        if key == "steps" and isinstance(found[key], int) and found[key] > 9:
            found[key] = count(draw)
    return found


def _family(task: str) -> str:
    return next(name for name, family in discover().items() if task in family.tasks)


@kind("api-train", 2)
def train(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """samebits.train."""
    task = draw.choice(("life", "grow", "boolean", "gpt"))
    makers: Makers = {
        "preset": some("small"), "workers": WORKERS, "out": some("new", Path("new")),
        "observe": some(None, lambda step, row: None),
        "config_file": some(None), "interrupts": some(None),
    }  # fmt: skip
    given = chosen(draw, makers, 0.08) | settings(draw, task)
    if task == "gpt" and "data" not in given:
        given["data"] = "text.txt"
        (place / "text.txt").write_text("The quick brown fox.\n" * 40)
    first = odd_object(draw) if draw.random() < 0.1 else task
    return call(lambda **named: _looked_at(api.train(first, **named)), given, f"train[{brief(first)}]")


@kind("api-resume", 1)
def resume(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """samebits.resume."""
    bases.copy(draw.choice(list(BASES)), place)
    makers: Makers = {
        "path": some("run", Path("run")), "workers": WORKERS, "checkpoint": some("last", "best", "4", "step-4"),
        "observe": some(None), "interrupts": some(None), "other_bits": some(False, True), "keep": some(1, 2),
        "steps": some(6, 7, 8),
        "slot_memory": some(1, 2),
    }  # fmt: skip
    given = chosen(draw, makers, 0.15)
    if isinstance(given["steps"], int) and given["steps"] > 9 and draw.random() < 0.9:
        given["steps"] = 7  # whoever asks for more than a machine can do waits for it
    return call(lambda **named: _looked_at(api.resume(**named)), given, "resume")


def _looked_at(run: Any) -> Any:
    return run.weights.size, run.weights_hash, sorted(run.metrics), run.model is not None


@kind("api-load", 1)
def load(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """samebits.load."""
    bases.copy(draw.choice(list(BASES)), place)
    makers: Makers = {
        "path": some("run", Path("run"), "run/checkpoints/step-4"), "checkpoint": some("last", "best", "4", "step-4"),
        "dtype": some("float32", "float64", *DTYPES, np.float16),
        "kind": some(None, api.GptModel, api.LogicModel, api.GraphModel),
    }  # fmt: skip
    return call(
        api.load, {key: value for key, value in chosen(draw, makers).items() if draw.random() < 0.8 or key == "path"}
    )


def tokens(draw: random.Random) -> Any:
    return np.array([[draw.randrange(20) for _ in range(draw.randrange(1, 12))]] * draw.randrange(1, 3))


SAMPLING: Makers = {
    "prompt": some("", "The", "é", "\ud800", "x" * 50), "tokens": some(1, 3), "temperature": some(0, 0.8, 1e-30, 1e30),
    "top_p": some(1.0, 0.5, 1e-9), "top_k": some(0, 3, 10**6), "seed": some(0, 2**63 - 1),
}  # fmt: skip
GPT: dict[str, Makers] = {
    "logits": {"tokens": tokens, "workers": WORKERS},
    "generate": {**SAMPLING, "samples": some(1, 2), "workers": WORKERS},
    "stream": {**SAMPLING, "sample": some(0, 3, 2**62)},
    "vocabulary.encode": {"text": some("The", "", "\n", "zz~")},
    "vocabulary.encode_all": {"texts": some(["The", ""], [])},
    "vocabulary.decode": {"tokens": tokens},
}


def grids(channels: int) -> Maker:
    def make(draw: random.Random) -> Any:
        shape = (draw.randrange(1, 3), draw.randrange(1, 5), draw.randrange(3, 5), channels)
        return np.array([draw.randrange(2) for _ in range(int(np.prod(shape)))], draw.choice(DTYPES[:6])).reshape(shape)

    return make


def logic(channels: int) -> dict[str, Makers]:
    return {
        "rollout": {
            "grids": grids(channels), "steps": some(0, 1, 3), "soft": some(False, True),
            "trajectory": some(False, True),
            "fire": some(None, None, np.ones((1, 3, 3))), "workers": WORKERS,
        },
        "loss_and_gradient": {
            "grids": grids(channels), "targets": grids(1), "fire": some(None), "workers": WORKERS,
        },
        "circuit": {},
    }  # fmt: skip


GRAPH: dict[str, Makers] = {
    "parse": {"text": some("x", "(and x T)", "(f", "", "(eval x)", "(d x)")},
    "edits": {"trees": some([], ["x"], [None]), "workers": WORKERS},
    "predict": {"expressions": some([], ["x"], [None], "x"), "workers": WORKERS},
}


def parsed(model: Any, given: dict[str, Any], draw: random.Random) -> None:
    """Trees that the model itself made, where trees are asked for."""
    if "trees" in given and draw.random() < 0.6:
        given["trees"] = [model.parse(text) for text in ("x", "(and x (or y T))")[: draw.randrange(3)]]


@kind("api-model", 4)
def model(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """The methods of the three models."""
    name = draw.choice(list(BASES))
    found: Any = api.load(bases.folder / name) if name != "pairs" else api.load(bases.copy(name, place))
    methods = {"logic_ca": logic, "gpt": lambda _: GPT, "graph": lambda _: GRAPH}[BASES[name].family]
    method, makers = draw.choice(list(methods(getattr(found.config, "channels", 1)).items()))
    given = chosen(draw, makers)
    parsed(found, given, draw)
    for key in ("tokens", "samples", "steps"):
        if (
            key in given
            and method not in ("logits", "vocabulary.decode")
            and isinstance(given[key], int)
            and given[key] > 9
        ):
            given[key] = count(draw)

    def body(**named: Any) -> Any:
        target: Any = found
        for part in method.split("."):
            target = getattr(target, part)
        answer = target(**named) if callable(target) else target
        return list(itertools.islice(answer, 5)) if method == "stream" else answer

    return call(body, given, f"{type(found).__name__}.{method}")
