"""The learned Life rule, 64 cells a word, against the unpacked hard forward of the same model on the same grid."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from samebits import api
from samebits.bench.cases import OURS, ROUNDS, Found, compared, row
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families.logic_ca import rules
from samebits.families.logic_ca.model import LogicModel
from samebits.families.logic_ca.simulation.packed import simulate, throughput

SIDES = (512, 4096)
UNPACKED = "unpacked"
CELL_UPDATES = 500_000_000  # of one timing, packed: some tenths of a second
CHECK_STEPS, UNPACKED_STEPS = 8, 4


def check_equal(model: LogicModel, side: int, steps: int, workers: Workers) -> None:
    """Prove before timing: packed, unpacked and, for Life, Conway's rule itself give the same cells."""
    config = model.config
    start = np.random.default_rng(1).integers(0, 2, (1, side, side, config.channels)).astype(np.float32)
    found = simulate(model.circuit, start, steps, config.boundary == "periodic", workers)
    wanted = {"unpacked model": model.rollout(start, steps, workers=workers, packed=False)}
    if config.follows_cells:
        name = "of Life" if config.rule == "life" else config.rule
        wanted[f"rule {name}"] = rules.rollout(config.rule, start, steps)
    for what, cells in wanted.items():
        wrong = int((found != cells).sum())
        if wrong:
            raise SamebitsError(
                f"packed, {wrong} of {cells.size} cells differ from the {what} after {steps} steps; "
                "a timing would be meaningless; train until hard loss is 0"
            )


def unpacked_rate(model: LogicModel, side: int, steps: int, workers: Workers) -> float:
    """Cell updates per second of the model's own hard forward."""
    start = np.random.default_rng(0).integers(0, 2, (1, side, side, model.config.channels)).astype(np.float32)
    begin = time.perf_counter()
    model.rollout(start, steps, workers=workers, packed=False)
    return side * side * steps / (time.perf_counter() - begin)


def packed(counts: Sequence[int]) -> Found:
    """Train the default Life, then run what it learned."""
    with tempfile.TemporaryDirectory() as folder:
        model = api.load(api.train("life", out=Path(folder) / "life").path, kind=LogicModel)
    return simulations(model, counts)


def simulations(model: LogicModel, counts: Sequence[int], sides: Sequence[int] = SIDES) -> Found:
    """Cell updates a second on each grid, packed; on the first also unpacked. Equal cells are proved first."""
    smallest = sides[0]
    rates: dict[tuple[int, str, int], list[float]] = {}
    for count in counts:
        with Workers(count) as team:
            check_equal(model, smallest, CHECK_STEPS, team)
            for _ in range(ROUNDS):
                for side in sides:
                    steps = max(1, CELL_UPDATES // side**2)
                    found = throughput(model.circuit, side, steps, team)
                    rates.setdefault((side, OURS, count), []).append(found)
                found = unpacked_rate(model, smallest, UNPACKED_STEPS, team)
                rates.setdefault((smallest, UNPACKED, count), []).append(found)
    gates = len(model.circuit.ops)
    rows = [
        row(f"{model.config.rule}, {gates} gates, {side}×{side} cells", system, count, "cell updates/s", rounds)
        for (side, system, count), rounds in rates.items()
    ]
    settings = {"rule": model.config.rule, "seed": model.config.seed, "gates": gates}
    same = "packed = unpacked" + (" = Life" if model.config.rule == "life" else "")
    return Found(settings, f"{smallest}×{smallest} random cells, {CHECK_STEPS} steps: {same}", compared(rows))
