"""The learned Life rule, 64 cells a word, against the unpacked hard forward of the same model on the same grid."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft import api
from weft.engine.workers import Workers
from weft.errors import WeftError
from weft.families.logic_ca.data import life_rollout
from weft.families.logic_ca.model import LogicModel
from weft.families.logic_ca.packed import simulate, throughput

SIDES = (512, 4096)
ROUNDS = 5
CELL_UPDATES = 500_000_000  # of one timing, packed: some tenths of a second
CHECK_STEPS, UNPACKED_STEPS = 8, 4


def check_equal(model: LogicModel, side: int, steps: int, workers: Workers) -> None:
    """Prove before timing: packed, unpacked and, for Life, Conway's rule itself give the same cells."""
    config = model.config
    start = np.random.default_rng(1).integers(0, 2, (1, side, side, config.channels)).astype(np.float32)
    found = simulate(model.circuit, start, steps, config.boundary == "periodic", workers)
    wanted = {"unpacked model": model.rollout(start, steps, workers=workers)}
    if config.rule == "life":
        wanted["rule of Life"] = life_rollout(start, steps)
    for what, cells in wanted.items():
        wrong = int((found != cells).sum())
        if wrong:
            raise WeftError(
                f"packed, {wrong} of {cells.size} cells differ from the {what} after {steps} steps; "
                "a timing would be meaningless; train until hard loss is 0"
            )


def unpacked_rate(model: LogicModel, side: int, steps: int, workers: Workers) -> float:
    """Cell updates per second of the model's own hard forward."""
    start = np.random.default_rng(0).integers(0, 2, (1, side, side, model.config.channels)).astype(np.float32)
    begin = time.perf_counter()
    model.rollout(start, steps, workers=workers)
    return side * side * steps / (time.perf_counter() - begin)


def measure(model: LogicModel, sides: Sequence[int] = SIDES, rounds: int = ROUNDS, workers: int = 1) -> dict[str, Any]:
    """A record: packed speed on each grid, the unpacked one on the first, and their ratio; equal cells proved first."""
    smallest = sides[0]
    packed: dict[int, list[float]] = {side: [] for side in sides}
    unpacked: list[float] = []
    with Workers(workers) as team:
        check_equal(model, smallest, CHECK_STEPS, team)
        for _ in range(rounds):  # in turns, so that a slow moment of the machine hits all alike
            unpacked.append(unpacked_rate(model, smallest, UNPACKED_STEPS, team))
            for side in sides:
                steps = max(1, CELL_UPDATES // side**2)
                packed[side].append(throughput(model.circuit, side, steps, team))
    rows: list[dict[str, Any]] = [
        {"grid": [side, side], "cell_updates_per_second": statistics.median(rates), "rounds": rates}
        for side, rates in packed.items()
    ]
    slow = statistics.median(unpacked)
    return {
        "rule": model.config.rule,
        "seed": model.config.seed,
        "workers": workers,
        "gates": len(model.circuit.ops),
        "equal": f"{smallest}×{smallest} random cells, {CHECK_STEPS} steps: packed = unpacked"
        + (" = Life" if model.config.rule == "life" else ""),
        "packed": rows,
        "unpacked": {"grid": [smallest, smallest], "cell_updates_per_second": slow, "rounds": unpacked},
        "times_the_unpacked": rows[0]["cell_updates_per_second"] / slow,
    }


def learned_life(run: str | Path | None = None, workers: int = 1, **settings: Any) -> dict[str, Any]:
    """`measure` the automaton of a run folder, or train the default Life first (settings are config keys)."""
    if run is not None:
        return measure(api.load(run), workers=workers)
    with tempfile.TemporaryDirectory() as folder:
        return measure(api.train("life", out=Path(folder) / "life", **settings).model, workers=workers)
