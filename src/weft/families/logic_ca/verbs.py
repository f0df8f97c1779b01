"""What one can do with a trained automaton besides training it: test it, and look at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from weft.engine.arrays import Array
from weft.engine.rng import Purpose
from weft.engine.workers import Workers
from weft.errors import WeftError
from weft.families.logic_ca import data
from weft.families.logic_ca.model import LogicModel

SOUPS, SOUP_SIDE, SOUP_STEPS = 4, 64, 100
LARGEST_RENDER = 4 << 20  # cells · steps · channels: what still makes a picture somebody wants to open


def report(model: LogicModel, boards: data.LogicData, workers: Workers) -> list[dict[str, Any]]:
    """Rows of `weft eval`: what was tried, how many cells were wrong with the hard circuit, out of how many."""
    config = model.config
    batch = data.evaluation(config, boards, full=True)
    name = f"all {batch.samples} patterns" if boards.patterns is not None else f"{batch.samples} unseen starts"
    starts, wanted, _ = batch.arrays
    rows = [_judged(f"{name}, {config.ca_steps} steps", model, starts, wanted, config.ca_steps, workers)]
    if config.rule == "life":
        soups = data.random_grids(config, SOUPS, Purpose.EVALUATION, 1, (SOUP_SIDE, SOUP_SIDE))
        wanted = data.life_rollout(soups, SOUP_STEPS)
        title = f"{SOUPS} random {SOUP_SIDE}×{SOUP_SIDE} soups, {SOUP_STEPS} steps"
        rows.append(_judged(title, model, soups, wanted, SOUP_STEPS, workers))
    return rows


def _judged(test: str, model: LogicModel, grids: Array, wanted: Array, steps: int, workers: Workers) -> dict[str, Any]:
    found = model.rollout(grids, steps, workers=workers)[..., : wanted.shape[-1]]
    wrong = int((found != wanted).sum())
    return {"test": test, "wrong cells": wrong, "of": wanted.size, "exact": wrong == 0}


def render(
    model: LogicModel, folder: Path, steps: int | None = None, grid: tuple[int, int] | None = None, seed: int = 0,
    soft: bool = False, workers: int | str | Workers = "auto",
) -> list[Path]:  # fmt: skip
    """A rollout from random bits as rollout.gif and rollout.png in `folder`."""
    from weft.report.pictures import save_gif, save_strip

    config = model.config.model_copy(update={"seed": seed})
    life = config.rule == "life"
    size = grid or ((48, 48) if life else (config.height, config.width))
    count = steps if steps is not None else (60 if life else config.ca_steps + 4)
    if count < 1:
        raise WeftError(f"steps is {count}; a rollout needs at least 1; set --steps")
    if min(size) < 3 or size[0] * size[1] * config.channels * count > LARGEST_RENDER:
        raise WeftError(
            f"grid is {size[0]}x{size[1]} for {count} steps; each side must be at least 3 and cells × channels × steps "
            f"at most {LARGEST_RENDER}; choose a smaller --grid or fewer --steps"
        )
    start = data.random_grids(config, 1, Purpose.RENDER, 0, size)
    frames = model.rollout(start, count, soft=soft, trajectory=True, workers=workers)[:, 0, :, :, 0]
    captions = [f"step {i}" for i in range(count + 1)]
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "rollout.gif", folder / "rollout.png"]
    save_gif(paths[0], list(frames), captions)
    save_strip(paths[1], list(np.asarray(frames)), captions)
    return paths
