"""Learned Life as C, in Verilator and in our packed simulator, on one core: the same cells, then updates a second."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from samebits import api
from samebits.bench.cases import OURS, ROUNDS, Found, compared, row
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families.logic_ca.circuits.export import bench_vectors, cell_of, smaller_circuit
from samebits.families.logic_ca.model import LogicModel
from samebits.families.logic_ca.simulation.packed import throughput
from samebits.hardware import programs
from samebits.hardware.cell import Cell

SIDES = (64, 512)
VERILATED = 64  # larger grids take minutes to build
CHECK_STEPS = 50
CELL_UPDATES = 200_000_000  # of one timing
VERILATOR_STEPS = 20_000


def hardware(counts: Sequence[int]) -> Found:
    """Train the default Life, then run what was exported of it."""
    with tempfile.TemporaryDirectory() as name:
        model = api.load(api.train("life", out=Path(name) / "life").path, kind=LogicModel)
    return measured(model)


def measured(model: LogicModel, sides: Sequence[int] = SIDES, verilated: int = VERILATED) -> Found:
    """Everything on one core: neither the header nor a simulated grid shares its work. What is missing is said."""
    cell = cell_of(model, smaller_circuit(model), "life", "")
    rates: dict[tuple[int, str], list[float]] = {}
    there = {name for name in ("cc", "verilator") if shutil.which(name)}
    with tempfile.TemporaryDirectory() as name, Workers(1) as team:
        folder = Path(name)
        simulation: list[str] = []
        if "cc" in there:
            program = programs.build_c(cell, folder)
            for side in sides:
                _check_c(model, cell, program, side)
        if "verilator" in there:
            states, fire = bench_vectors(model, cell, (verilated, verilated), CHECK_STEPS)
            simulation = programs.build_simulation(cell, (verilated, verilated), states, fire, "verilator", folder)
        for _ in range(ROUNDS):
            for side in sides:
                steps = max(1, CELL_UPDATES // side**2)
                rates.setdefault((side, OURS), []).append(throughput(model.circuit, side, steps, team))
                if "cc" in there:
                    start = np.random.default_rng(0).integers(0, 2, (1, side, side), np.uint8)
                    seconds = programs.run_c(program, start, steps)[1]
                    rates.setdefault((side, "C, cc -O3"), []).append(side**2 * steps / seconds)
            if simulation:
                found = verilated**2 * VERILATOR_STEPS / _verilator_seconds(simulation, folder)
                rates.setdefault((verilated, "Verilator"), []).append(found)
    rows = [
        row(f"life, {len(cell.ops)} gates, {side}×{side} cells", system, 1, "cell updates/s", rounds)
        for (side, system), rounds in rates.items()
    ]
    told = [f"{name} is not installed, and not timed" for name in ("cc", "verilator") if name not in there]
    same = f"what was exported gives the rollout's cells, {CHECK_STEPS} steps from random ones"
    return Found({"rule": model.config.rule, "gates": len(cell.ops)}, "; ".join([same, *told]), compared(rows))


def _check_c(model: LogicModel, cell: Cell, program: Path, side: int) -> None:
    states, _ = bench_vectors(model, cell, (side, side), CHECK_STEPS)
    found, _ = programs.run_c(program, states[0].reshape(-1, side, side), CHECK_STEPS)
    wrong = int((found.reshape(states[-1].shape) != states[-1]).sum())
    if wrong:
        raise SamebitsError(f"C, {wrong} of {found.size} cells differ from the rollout; a timing would be meaningless")


def _verilator_seconds(simulation: list[str], folder: Path) -> float:
    """Of VERILATOR_STEPS steps: a run with them, less a run without."""
    seconds = []
    for steps in (0, VERILATOR_STEPS):
        begin = time.perf_counter()
        programs.run_simulation(simulation, folder, f"+speed={steps}")
        seconds.append(time.perf_counter() - begin)
    return max(1e-9, seconds[1] - seconds[0])
