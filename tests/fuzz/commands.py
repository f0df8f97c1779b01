"""Command lines: every verb and option, with values that are right and values that are not."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from samebits.config import to_toml
from samebits.families import discover
from tests.fuzz.bases import BASES, Bases, tiny
from tests.fuzz.judge import command
from tests.fuzz.kinds import Outcome, kind
from tests.fuzz.values import argument_text, odd_number, odd_setting

Maker = Callable[[random.Random], object]


def one(*values: object, bad: tuple[object, ...] = ()) -> Maker:
    """One of these; now and then one that is wrong here, or something else altogether."""

    def make(draw: random.Random) -> object:
        sort = draw.random()
        return draw.choice(values) if sort < 0.88 else draw.choice(bad) if bad and sort < 0.94 else _else(draw)

    return make


def few(*values: object) -> Maker:
    """A number of things to do: one of these, or one that must be refused; a huge one seldom: who takes it hangs."""

    def make(draw: random.Random) -> object:
        sort = draw.random()
        return draw.choice(values) if sort < 0.92 else 10**20 if sort < 0.923 else draw.choice((0, -1, "x", "", "1.5"))

    return make


def _else(draw: random.Random) -> object:
    return odd_number(draw) if draw.random() < 0.3 else argument_text(draw)


def setting(draw: random.Random) -> str:
    """KEY=VALUE of some family, or not even that."""
    family = draw.choice(list(discover().values()))
    key = draw.choice(list(family.config.model_fields))
    if draw.random() < 0.15:
        return argument_text(draw) if draw.random() < 0.5 else f"{key}{draw.choice(('', ':', '==', ' = '))}"
    usual = next(iter(family.tasks.values())).checks[0].model_dump(mode="json")[key]
    value = usual if draw.random() < 0.3 else odd_setting(draw, key, usual)
    return f"{key}={str(value).replace(chr(0), '')}"


WORKERS = one(1, 1, 2, 3, "auto", bad=(0, -1, "1.5", 10**20))  # thousands are legal, and threads
DEVICE = one("cpu", "cpu", bad=("gpu", "cuda", "cuda:0", "opencl:99", "cpu:1", "gpu:0", "cuda:", "opencl:-1", "CPU"))
COUNTS = one("1,2", "2,1", bad=("1", "1,1", "", ",", "0,1"))
CHECKPOINT = one("last", "best", 2, 4, 6, "step-4", bad=(7, "step-", "step-x"))
ELSEWHERE = ("none", "file", "full", "run/checkpoints", "run/checkpoints/step-4")
RUN = one("run", "run", "run/", "./run", bad=ELSEWHERE)
OUT = one("new", "new", "a/b", bad=("file", "full", "run", "file/x", "."))
TASK = one("life", "grow", "gpt", "boolean", "peano", "checkerboard", bad=("Life", "gpt "))
PRESET = one("small", "small", "full", bad=("smal",))
EXPRESSION = one("x", "(and x T)", "(or (and x y) F)", bad=("(not)", "((", ")", "(and x", "(f x)", "(eval 1)"))
FAMILIES = {
    "sample": ("gpt", "bpe"),
    "export": ("gpt", "bpe", "life", "grow"),
    "predict": ("boolean", "pairs"),
    "circuit": ("life", "grow"),
}
FAMILIES |= {"render": ("life", "grow", "life", "grow", "boolean")}  # graphs take half a second to draw

OPTIONS: dict[str, dict[str, Maker]] = {
    "train": {
        "--preset": PRESET, "--steps": few(1, 1, 2), "--batch-size": few(1, 2), "--seed": one(0, 1),
        "--workers": WORKERS, "--device": DEVICE, "--inexact": lambda draw: None,
        "--out": OUT, "--keep": one(1, 2), "--set": setting,
        "--config": one("tiny.toml", bad=("run/config.toml", "file")),
        "--data": one("text.txt", "pairs.jsonl", "full"),
        "--target": one("lizard", "letter", "picture.txt"),
        "--init-from": one("run", "run/checkpoints/step-4"),
    },
    "resume": {
        "--steps": few(6, 7, 5), "--workers": WORKERS, "--checkpoint": CHECKPOINT, "--keep": one(1, 2),
        "--set": setting, "--device": DEVICE,
        "--other-bits": lambda draw: None,
    },
    "eval": {"--workers": WORKERS, "--device": DEVICE, "--checkpoint": CHECKPOINT, "--against": RUN},
    "render": {
        "--steps": few(1, 3), "--grid": one("4x4", "3x5", bad=("2x2", "99999x99999", "4x", "x")), "--seed": one(0, 5),
        "--soft": lambda draw: None,
        "--out": OUT, "--damage": one("1x1@1-1", bad=("2x2@1-2", "0x0@0-0", "2x2@2-1", "9x9@1-1", "1x1@1-99")),
        "--async": lambda draw: None,
        "--workers": WORKERS, "--checkpoint": CHECKPOINT, "--device": DEVICE,
    },
    "predict": {"--checkpoint": CHECKPOINT, "--device": DEVICE},
    "circuit": {"--checkpoint": CHECKPOINT, "--out": OUT, "--all-channels": lambda draw: None,
                "--minimise": one(0, 0.01, bad=("nan", -1))},
    "sample": {
        "--prompt": one("The", "", "x", "\n"), "--tokens": few(1, 5, 30), "--temperature": one(0, 0.5, 1),
        "--top-p": one(1, 0.5),
        "--top-k": one(0, 1, 5), "--seed": one(0, 7), "--samples": few(1, 2), "--workers": WORKERS,
        "--checkpoint": CHECKPOINT, "--device": DEVICE,
    },
    "export": {
        "--to": one("safetensors", "verilog", "blif", "aiger", "c", "json", "truth-table", bad=("onnx", "", "vhdl")),
        "--out": OUT, "--checkpoint": CHECKPOINT, "--grid": one("3x3", "4x5", bad=("0x3", "3", "9999x9999")),
        "--no-prove": lambda draw: None, "--minimise": one(0, 0.01, bad=("nan", -1)), "--check": one("file", "none"),
    },
    "verify": {
        "--workers": COUNTS, "--preset": one("small"), "--steps": few(1), "--batch-size": few(1), "--seed": one(0),
        "--set": setting,
        "--cpus": one("none", "", "x,y"), "--device": one("cpu", bad=("gpu", "cuda:7", "x")),
    },
    "bench": {"--workers": COUNTS, "--preset": one("smal"), "--set": setting, "--batch-size": one(0, -1)},
    "profile": {
        "--workers": one("0", "x"), "--preset": one("smal"), "--json": lambda draw: None, "--set": setting,
        "--batch-size": one(0),
    },
    "tasks": {},
    "doctor": {"--canary": one(1)},
}  # fmt: skip
WEIGHTS = {
    "train": 6,
    "resume": 5,
    "eval": 3,
    "render": 4,
    "predict": 4,
    "sample": 5,
    "verify": 1,
    "bench": 0.5,
    "profile": 0.5,
    "tasks": 0.1,
    "doctor": 0.2,
}
RARE = {"--set", "--data", "--target", "--init-from", "--against"}  # each fits few tasks or runs
ALWAYS = {  # what keeps a step small, and a verb that takes long from going on
    "train": ("--steps", "--config", "--preset", "--workers"), "resume": ("--steps", "--workers"),
    "sample": ("--tokens",), "render": ("--steps",), "verify": ("--preset", "--steps", "--workers"),
    "bench": ("--preset",), "profile": ("--workers",), "doctor": ("--canary",),
}  # fmt: skip


def options(draw: random.Random, verb: str) -> list[str]:
    found: list[list[str]] = []
    for flag, make in OPTIONS[verb].items():
        times = 1 if flag in ALWAYS.get(verb, ()) or draw.random() < (0.1 if flag in RARE else 0.2) else 0
        if flag == "--set" and times:
            times = draw.choice((1, 1, 2))
        for _ in range(times):
            value = make(draw)
            word = str(value).replace("\0", "")
            found.append([flag] if value is None else [f"{flag}={word}"] if draw.random() < 0.3 else [flag, word])
    draw.shuffle(found)
    return [word for words in found for word in words]


def arguments(draw: random.Random, verb: str) -> list[str]:
    makers: dict[str, list[Maker]] = {
        "train": [TASK], "verify": [TASK], "bench": [TASK], "profile": [TASK], "predict": [RUN, EXPRESSION],
        "tasks": [], "doctor": [],
    }  # fmt: skip
    return [str(make(draw)).replace("\0", "") for make in makers.get(verb, [RUN])]


def line(draw: random.Random) -> list[str]:
    """A command line, in the order that most people type it, and now and then spoilt."""
    verb = draw.choices(list(OPTIONS), [WEIGHTS.get(verb, 2) for verb in OPTIONS])[0]
    words = [verb, *arguments(draw, verb), *options(draw, verb)]
    if draw.random() < 0.08 and verb not in ALWAYS:
        words.insert(draw.randrange(len(words) + 1), argument_text(draw))
    if draw.random() < 0.03 and verb not in ALWAYS:
        words.pop(draw.randrange(len(words)))
    if draw.random() < 0.02:
        words = [draw.choice(("--version", "--help", "-h", "--show-completion", argument_text(draw))), *words[:1]]
    return words


def lay_out(draw: random.Random, verb: str, place: Path, bases: Bases) -> None:
    """What command lines name: a run, mostly one that has the verb, a file, a folder, configs."""
    fitting = FAMILIES.get(verb, tuple(BASES))
    bases.copy(draw.choice(fitting if draw.random() < 0.9 else tuple(BASES)), place)
    place.joinpath("file").write_text("mine")
    place.joinpath("full").mkdir()
    place.joinpath("full/precious.txt").write_text("mine")
    place.joinpath("picture.txt").write_text(".##.\n#..#\n.##.\n")


def write_tiny(place: Path, task: str) -> None:
    """The config that keeps a training small, of the task that is to be trained."""
    known = {name for family in discover().values() for name in family.tasks}
    values: dict[str, Any] = tiny(task if task in known else "life")
    place.joinpath("tiny.toml").write_text(to_toml({"config": values}), encoding="utf-8")


@kind("commands", 8)
def commands(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    words = line(draw)
    lay_out(draw, words[0] if words else "", place, bases)
    write_tiny(place, words[1] if len(words) > 1 else "")
    return command(place, *words)
