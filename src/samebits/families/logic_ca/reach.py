"""Where a picture begins to grow, and whether it can get from there to its last cell."""

from __future__ import annotations

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.errors import SamebitsError
from samebits.families.logic_ca import pictures
from samebits.families.logic_ca.config import LogicConfig


def check_reach(config: LogicConfig) -> LogicConfig:
    """Refuse to train what cannot be learned: a picture that reaches further than a bit moves in the steps there are.

    Pictures of our own are let pass: preset `small` has too few steps for the tip of the lizard's head, and is no more
    than a first look.
    """
    if config.rule != "grow" or config.start == "random" or config.target in pictures.BUILT_IN.values():
        return config
    steps, periodic = (config.loss_steps or (config.ca_steps,))[0], config.boundary == "periodic"
    for number, picture in enumerate(pictures.split(config.target)):
        start = start_picture(config, number) * np.float32(config.start != "any")  # random bits have the border alone
        needed = pictures.steps_needed(pictures.to_bits(picture), start, periodic)
        if needed is None:
            raise SamebitsError(
                "start is zeros on a torus; nothing tells one cell from another there, and no picture can grow; use "
                "--set start=centre or --set boundary=zeros"
            )
        if needed > steps:
            name, remedy = "ca_steps", f"use --set ca_steps={needed}"
            if config.loss_steps:
                name, remedy = "the first of loss_steps", f"begin --set loss_steps with {needed} or more"
            raise SamebitsError(
                f"{name} is {steps}; a bit moves one cell a step, and this picture of {config.height}×{config.width} "
                f"cells needs at least {needed} from where it starts; {remedy}"
            )
    return config


def start_picture(config: LogicConfig, number: int) -> Array:
    """(H, W, C): where picture `number` begins, one full cell, nothing, or as it was drawn."""
    if isinstance(config.start, tuple):
        return pictures.start_bits(pictures.split(config.start)[number], config.channels)
    found = np.zeros((config.height, config.width, config.channels), np.float32)
    if config.start in ("centre", "any"):
        found[config.height // 2, config.width // 2] = 1
    return found
