"""What one can do with a trained automaton besides training it: test it, and look at it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.rng import Purpose
from samebits.config import override
from samebits.devices.choose import device_for
from samebits.devices.interface import Device
from samebits.errors import SamebitsError
from samebits.families.logic_ca import data
from samebits.families.logic_ca.config import LogicConfig
from samebits.families.logic_ca.model import LogicModel
from samebits.families.logic_ca.simulation.experiments import ASYNC_RATE, Damage, Experiments, fire_grid
from samebits.families.logic_ca.simulation.packed import simulate
from samebits.training.parts import Report

LARGEST_RENDER = 16 << 20  # cells · steps, · channels if soft: what still makes a picture somebody wants to open


def report(model: LogicModel, device: Device) -> Report:
    """The paper's tests of this kind of automaton, with the learned circuit: 64 cells a word, so the CPU does it."""
    experiments = Experiments(model, device.workers)
    curves: dict[str, Array] = {}
    if model.config.rule == "checkerboard":
        curves = experiments.checkerboard()
    elif model.config.follows_cells:
        experiments.life()
    else:
        experiments.grow()
    title = "a random 10×10 square cleared at every step"
    return Report(experiments.rows, curves=curves, title=title, x="step", y="wrong cells", plot="robustness")


def render(
    model: LogicModel, folder: Path, steps: int | None = None, grid: tuple[int, int] | None = None, *, seed: int = 0,
    soft: bool = False, damage: str | None = None, asynchronous: bool = False, device: str | Device = "cpu",
) -> list[Path]:  # fmt: skip
    """A rollout as rollout.gif and rollout.png in `folder`."""
    from samebits.report.pictures import save_gif, save_strip

    config = override(model.config, {"seed": seed})
    size = grid or ((48, 48) if config.follows_cells else (config.height, config.width))
    # A checkerboard stays; a grown picture was only ever asked for at its last step.
    usual = 60 if config.follows_cells else config.ca_steps + 4 * (config.rule == "checkerboard")
    count = steps if steps is not None else usual
    _check_size(size, count, config.channels if soft else 1)
    if soft and damage:
        raise SamebitsError("--soft and --damage do not go together; damage is shown with the learned circuit")
    hurt = Damage.parse(damage) if damage else None
    cleared = hurt.rectangles(count, size) if hurt else None
    rate = ASYNC_RATE if asynchronous and config.fire_rate >= 1 else config.fire_rate
    shown = _frames(model, config, size, count, rate, soft, cleared, device)
    pictures = list(shown[..., 0] if config.target_channels == 1 else shown)
    captions = [_caption(i, hurt) for i in range(count + 1)]
    paths = [folder / "rollout.gif", folder / "rollout.png"]
    save_gif(paths[0], pictures, captions)
    save_strip(paths[1], pictures, captions)
    return paths


def _check_size(size: tuple[int, int], steps: int, channels: int) -> None:
    """`channels` is how many of a cell are kept: a soft rollout keeps them all."""
    if steps < 1:
        raise SamebitsError(f"steps is {steps}; a rollout needs at least 1; set --steps")
    if min(size) < 3 or size[0] * size[1] * steps * channels > LARGEST_RENDER:
        product = "cells × steps" if channels == 1 else f"cells × steps × channels, {channels},"
        remedy = "" if channels == 1 else ", or leave --soft out"
        raise SamebitsError(
            f"grid is {size[0]}x{size[1]} for {steps} steps; each side must be at least 3 and {product} "
            f"at most {LARGEST_RENDER}; choose another --grid or fewer --steps{remedy}"
        )


def _frames(
    model: LogicModel, config: LogicConfig, size: tuple[int, int], steps: int, rate: float, soft: bool,
    cleared: Array | None, device: str | Device,
) -> Array:  # fmt: skip
    """(steps + 1, H, W, k): the visible channels of one grid, start included. `config` is the model's, with a seed."""
    start = data.start_grids(config, 1, Purpose.RENDER, 0, size)
    fire = fire_grid(config, rate, steps, size, Purpose.RENDER)
    visible, periodic = config.target_channels, config.boundary == "periodic"
    with device_for(device) as used:
        if soft:
            frames = model.rollout(start, steps, soft=True, trajectory=True, fire=fire, device=used)
        else:
            _, frames = simulate(
                model.circuit,
                start,
                steps,
                periodic,
                used.workers,
                fire=fire,
                damage=cleared,
                every=1,
                visible=visible,
            )
    return np.asarray(frames[:, 0, ..., :visible], np.float32)


def _caption(step: int, damage: Damage | None) -> str:
    if damage and damage.first <= step <= damage.last:
        return f"step {step}, hurt"
    return f"step {step}"
