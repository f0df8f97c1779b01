"""What every gate passes on at first.

A gate starts as almost a wire, so a fresh automaton only moves bits about: each channel's next state is one channel of
one neighbour. With every gate passing a, as published, the wiring alone decides which. Some wirings can then never
learn where the grid ends, or overwrite what they know (docs/automata.md). `routed` gives every wiring the same start.
"""

from __future__ import annotations

import numpy as np

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array
from samebits.arithmetic.rng import Purpose
from samebits.errors import SamebitsError
from samebits.families.logic_ca.circuits.circuit import PASS_A, PASS_B
from samebits.families.logic_ca.config import LogicConfig, gate_count
from samebits.families.logic_ca.wiring import CENTRE, wires
from samebits.training.contract import Constants

NORTH_WEST, NORTH_EAST, SOUTH_WEST, SOUTH_EAST = 0, 2, 6, 8  # positions in the 3×3 patch
# Two channels that read each other from two corners: bits drift to one side, two cells in two steps.
DRIFTS = ((NORTH_WEST, SOUTH_WEST), (NORTH_WEST, NORTH_EAST), (NORTH_EAST, SOUTH_EAST), (SOUTH_WEST, SOUTH_EAST))
AROUND = (0, 8, 2, 6, 1, 7, 3, 5)  # corners first, then edges, opposite ones together
ATTEMPTS = 200

Path = dict[tuple[int, int], int]  # (layer, gate) → 0: it passes a, 1: b


def first_sources(config: LogicConfig) -> list[tuple[int, int]]:
    """(channel, position) that each channel reads at first.

    Hidden channels drift in pairs, so that what lies outside the grid comes in from each side in turn. The visible ones
    read a hidden one and no pair reads them: what the loss does to them early on, greying them out, destroys nothing.
    """
    visible, channels = config.target_channels, config.channels
    found = [(0, NORTH_WEST if channels > 1 else CENTRE)] * channels  # of a hidden channel without a partner, too
    for pair, first in enumerate(range(visible, channels - 1, 2)):
        drift = DRIFTS[pair % len(DRIFTS)]
        found[first], found[first + 1] = (first + 1, drift[0]), (first, drift[1])
    for c in range(min(visible, channels - visible)):
        found[c] = (visible + c, NORTH_WEST)
    return found


def leaves(constants: Constants, layer: int, gate: int) -> list[tuple[int, Path]]:
    """The neighbours that a perceive gate can be made to pass on, and how."""
    pair = constants[f"perceive.{layer}.wires"][:, gate]
    if layer == 0:
        return [(int(pair[0]), {(0, gate): 0})]
    return [
        (neighbour, {**path, (layer, gate): side})
        for side in (0, 1)
        for neighbour, path in leaves(constants, layer - 1, int(pair[side]))
    ]


def spread_kernels(config: LogicConfig, constants: Constants) -> tuple[list[Array], list[tuple[int, int]]]:
    """Kernel k passes the k-th neighbour that each of its outputs can reach, so that together they see all.

    Sides of the perceive gates, layer by layer (K, gates), and the (channel, position) of every update input.
    """
    outputs, last = config.perceive[-1], len(config.perceive) - 1
    sides = [np.zeros((config.kernels, gates), np.int64) for gates in config.perceive]
    seen = np.zeros((outputs, config.kernels), np.int64)
    for output in range(outputs):
        choices = leaves(constants, last, output)
        if config.kernels < len(choices):  # then at least all around
            choices.sort(key=lambda choice: AROUND.index(choice[0]))
        for kernel in range(config.kernels):
            seen[output, kernel], path = choices[kernel % len(choices)]
            for (layer, gate), side in path.items():
                sides[layer][kernel, gate] = side
    inputs = [(c, CENTRE) for c in range(config.channels)]
    inputs += [(c, int(position)) for c in range(config.channels) for position in seen.ravel()]
    return sides, inputs


def find_path(
    pairs: list[list[list[int]]], preferred: list[list[int]], layer: int, gate: int, goals: set[int],
    closed: set[tuple[int, int]],
) -> Path | None:  # fmt: skip
    """From an update gate down to one of the inputs in `goals` past gates that are not `closed`; closes dead ends."""
    if (layer, gate) in closed:
        return None
    for side in (preferred[layer][gate], 1 - preferred[layer][gate]):
        source = pairs[layer][side][gate]
        if layer == 0:
            path: Path | None = {} if source in goals else None
        else:
            path = find_path(pairs, preferred, layer - 1, source, goals, closed)
        if path is not None:
            path[layer, gate] = side
            return path
    closed.add((layer, gate))
    return None


def route(config: LogicConfig, constants: Constants, inputs: list[tuple[int, int]]) -> Path:
    """Paths through the update network, no two through one gate, that give each channel its source."""
    last, cuts = len(config.update) - 1, np.cumsum(config.update)[:-1]
    pairs = [constants[f"update.{layer}.wires"].tolist() for layer in range(last + 1)]
    goals = [{i for i, found in enumerate(inputs) if found == wanted} for wanted in first_sources(config)]
    for attempt in range(ATTEMPTS if all(goals) else 0):
        # Which side each gate tries first is drawn; where the channels bar each other's way, drawn anew.
        drawn = rng.bits((1, sum(config.update)), config.seed, Purpose.INIT, config.wiring_seed, attempt, extra=1)[0]
        preferred = [sides.tolist() for sides in np.split(drawn, cuts)]
        taken = Path()
        for channel in range(config.channels):
            path = find_path(pairs, preferred, last, channel, goals[channel], set(taken))
            if path is None:
                break
            taken |= path
        else:
            return taken
    raise SamebitsError(
        f"residual is routed, but with {config.channels} channels and {config.kernels} kernels no {config.channels} "
        "separate paths were found through the update network; widen it, add kernels, or use --set residual=mixed"
    )


def first_passes(config: LogicConfig) -> Array:
    """(G,) the operation each gate starts with, PASS_A or PASS_B."""
    sides = np.zeros(gate_count(config), np.int64)
    perceive = config.kernels * sum(config.perceive)
    if config.residual == "mixed":
        # All passing a, every kernel sees the same neighbours; mixed, the kernels start by seeing different ones.
        first = config.kernels * config.perceive[0]
        drawn = rng.bits((1, len(sides)), config.seed, Purpose.INIT, config.wiring_seed)[0]
        sides[first:perceive] = drawn[first:perceive]
    elif config.residual in ("spread", "routed"):
        constants = wires(config)
        kernels, inputs = spread_kernels(config, constants)
        sides[:perceive] = np.concatenate([layer.ravel() for layer in kernels])
        paths = route(config, constants, inputs) if config.residual == "routed" else Path()
        layer_starts = perceive + np.concatenate([[0], np.cumsum(config.update)])
        for (layer, gate), side in paths.items():
            sides[layer_starts[layer] + gate] = side
    return np.where(sides == 0, PASS_A, PASS_B)
