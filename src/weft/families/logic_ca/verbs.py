"""What one can do with a trained automaton besides training it: test it, and look at it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.engine.arrays import Array
from weft.engine.family import Report
from weft.engine.rng import Purpose
from weft.engine.workers import Workers, team_of
from weft.errors import WeftError
from weft.families.logic_ca import data
from weft.families.logic_ca.experiments import ASYNC_RATE, Bench, Damage, fire_grid
from weft.families.logic_ca.model import LogicModel
from weft.families.logic_ca.packed import simulate

LARGEST_RENDER = 16 << 20  # cells · steps: what still makes a picture somebody wants to open


def report(model: LogicModel, workers: Workers) -> Report:
    """The paper's tests of this kind of automaton, with the learned circuit."""
    bench = Bench(model, workers)
    curves: dict[str, Array] = {}
    if model.config.rule == "checkerboard":
        curves = bench.checkerboard()
    elif model.config.rule == "life":
        bench.life()
    else:
        bench.grow()
    return Report(
        bench.rows, curves, "a random 10×10 square cleared at every step", "step", "wrong cells", "robustness"
    )


def render(
    model: LogicModel, folder: Path, steps: int | None = None, grid: tuple[int, int] | None = None, seed: int = 0,
    soft: bool = False, damage: str | None = None, asynchronous: bool = False, workers: int | str | Workers = "auto",
) -> list[Path]:  # fmt: skip
    """A rollout as rollout.gif and rollout.png in `folder`."""
    from weft.report.pictures import save_gif, save_strip

    config = model.config.model_copy(update={"seed": seed})
    life = config.rule == "life"
    size = grid or ((48, 48) if life else (config.height, config.width))
    # A checkerboard stays; a grown picture was only ever asked for at its last step.
    usual = {"life": 60, "checkerboard": config.ca_steps + 4, "grow": config.ca_steps}[config.rule]
    count = steps if steps is not None else usual
    if count < 1:
        raise WeftError(f"steps is {count}; a rollout needs at least 1; set --steps")
    if min(size) < 3 or size[0] * size[1] * count > LARGEST_RENDER:
        raise WeftError(
            f"grid is {size[0]}x{size[1]} for {count} steps; each side must be at least 3 and cells × steps "
            f"at most {LARGEST_RENDER}; choose another --grid or fewer --steps"
        )
    hurt = Damage.parse(damage) if damage else None
    cleared = hurt.rectangles(count, size) if hurt else None
    start = data.start_grids(config, 1, Purpose.RENDER, 0, size)
    rate = ASYNC_RATE if asynchronous and config.fire_rate >= 1 else config.fire_rate
    fire = fire_grid(LogicModel(config, model.weights, model.constants), rate, count, size, Purpose.RENDER)
    with team_of(workers) as team:
        if soft:
            if cleared is not None:
                raise WeftError("--soft and --damage do not go together; damage is shown with the learned circuit")
            frames = model.rollout(start, count, soft=True, trajectory=True, fire=fire, workers=team)[:, 0]
        else:
            periodic = config.boundary == "periodic"
            _, frames = simulate(
                model.circuit,
                start,
                count,
                periodic,
                team,
                fire=fire,
                damage=cleared,
                every=1,
                visible=config.target_channels,
            )
            frames = frames[:, 0]
    shown = np.asarray(frames[..., : config.target_channels], np.float32)
    pictures = list(shown[..., 0] if config.target_channels == 1 else shown)
    captions = [_caption(i, hurt) for i in range(count + 1)]
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "rollout.gif", folder / "rollout.png"]
    save_gif(paths[0], pictures, captions)
    save_strip(paths[1], pictures, captions)
    return paths


def _caption(step: int, damage: Damage | None) -> str:
    if damage and damage.first <= step <= damage.last:
        return f"step {step}, hurt"
    return f"step {step}"
