"""What one does with a run folder, from the command line or from Python, at little cost."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

import samebits as api
from tests.fuzz.bases import STEPS, tiny
from tests.fuzz.judge import attempt, command
from tests.fuzz.kinds import Outcome
from tests.helpers import sets

VERBS = {
    "logic_ca": ("eval", "render", "circuit", "resume", "load"),
    "gpt": ("sample", "sample", "export", "eval", "resume", "init", "load"),
    "graph": ("predict", "predict", "predict", "eval", "render", "resume", "resume", "load", "load"),
}
EVERY = ("eval", "render", "circuit", "resume", "load", "sample", "export", "predict", "init")
SLOW = 0.25  # of those that draw graphs, evaluate or plot are tried


def use(draw: random.Random, place: Path, family: str, checkpoint: tuple[str, ...] = ()) -> Outcome:
    """One use of place/run: mostly one that its family has."""
    verb = draw.choice(VERBS[family] if draw.random() < 0.95 else EVERY)
    if verb in ("render", "eval") and family == "graph" and draw.random() > SLOW:
        verb = "predict"
    if verb == "load":
        return load(draw, place, checkpoint)
    if verb == "init":
        settings = sets(**{key: tiny("gpt")[key] for key in ("context", "width", "heads", "layers", "batch_size")})
        source = ["run", "run/checkpoints/step-6"][draw.randrange(2)]
        common = ["--preset", "small", "--workers", 1, "--steps", 1, "--data", "text.txt", "--out", "new"]
        return command(place, "train", "gpt", *common, *settings, "--init-from", source)
    return command(place, verb, "run", *_options(draw, verb), *checkpoint)


def _options(draw: random.Random, verb: str) -> list[object]:
    found: list[object] = []
    if verb == "sample":
        found += ["--tokens", draw.choice((1, 3, 15)), "--samples", draw.choice((1, 1, 2))]
        found += ["--temperature", 0] if draw.random() < 0.3 else []
        found += ["--prompt", draw.choice(("The", "x", "\n", "é", "ß~"))] if draw.random() < 0.5 else []
    elif verb == "render":
        found += ["--steps", draw.choice((1, 3))] if draw.random() < 0.5 else []
    elif verb == "resume":
        found += ["--steps", STEPS + draw.choice((0, 1, 1, 2))] if draw.random() < 0.8 else []
    elif verb == "predict":
        found += [draw.choice(("(and x T)", "x", "(or (not x) (and y T))", "(f a b c)"))]
    elif verb == "circuit":
        found += ["--all-channels"] if draw.random() < 0.3 else []
    return found + (["--workers", draw.choice((1, 1, 2))] if verb in ("eval", "render", "resume", "sample") else [])


def load(draw: random.Random, place: Path, checkpoint: tuple[str, ...]) -> Outcome:
    """The model, and what it can do."""
    seed = draw.randrange(1 << 30)

    def body() -> Any:
        model: Any = api.load("run", *checkpoint[1:])
        return exercise(model, random.Random(seed))

    return attempt(f"samebits.load('run', *{checkpoint[1:]}), exercise({seed})", [], body)


def exercise(model: Any, draw: random.Random) -> Any:
    """One right call of a model, of whatever family."""
    if isinstance(model, api.GptModel):
        if draw.random() < 0.5:
            return model.generate(draw.choice(("", "The")), tokens=3, workers=1, samples=2)
        symbols, context = model.config.symbols, model.config.context
        tokens = np.array([[draw.randrange(symbols) for _ in range(draw.randrange(1, context + 1))]])
        return model.logits(tokens, workers=1), model.vocabulary.decode(tokens)
    if isinstance(model, api.GraphModel):
        return model.predict([model.parse("(and x (or y T))")], workers=1)[0].texts
    size = (1, draw.randrange(3, 6), draw.randrange(3, 6), model.config.channels)
    grids = np.array([draw.randrange(2) for _ in range(int(np.prod(size)))]).reshape(size)
    if draw.random() < 0.3:
        return len(model.circuit.ops)
    if draw.random() < 0.5:
        return model.loss_and_gradient(grids, grids[..., :1], workers=1)[0]
    return model.rollout(grids, draw.randrange(4), soft=draw.random() < 0.5, trajectory=True, workers=1).shape
