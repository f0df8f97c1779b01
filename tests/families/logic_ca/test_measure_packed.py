"""The record of packed simulation: nothing is timed before its cells are proved right."""

import json
from dataclasses import replace

import numpy as np
import pytest

from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families import discover, find_preset
from samebits.families.logic_ca import measure_packed
from samebits.families.logic_ca.model import LogicModel

FAMILY = discover()["logic_ca"]


def untrained(task, settings):
    config = override(find_preset(task, "small"), settings)
    size = FAMILY.init(config, np.float32).size
    drawn = np.random.default_rng(0).normal(size=size).astype(np.float32)  # any of the sixteen operations
    return LogicModel(config, drawn, FAMILY.constants(config))


@pytest.fixture
def board():
    return untrained("checkerboard", {"channels": 3, "kernels": 2, "update": (12, 6, 3), "boundary": "periodic"})


def test_packed_and_unpacked_agree(board):
    with Workers(1) as team:
        measure_packed.check_equal(board, 40, 5, team)


def test_a_circuit_that_differs_is_refused(board, monkeypatch):
    # One channel negated: an operation and its complement are numbers i and 15 − i.
    circuit = board.circuit
    ops = circuit.ops.copy()
    gate = max(circuit.outputs) - len(circuit.inputs)
    assert gate >= 0, "no output is a gate: draw another circuit"
    ops[gate] ^= 15
    monkeypatch.setattr(LogicModel, "circuit", replace(circuit, ops=ops))
    with Workers(1) as team, pytest.raises(SamebitsError, match="differ from the unpacked model"):
        measure_packed.check_equal(board, 40, 1, team)


def test_a_rule_that_is_not_life_is_refused():
    model = untrained("life", {})
    with Workers(1) as team, pytest.raises(SamebitsError, match="differ from the rule of Life"):
        measure_packed.check_equal(model, 40, 2, team)


def test_the_record_holds_every_grid_and_the_ratio(board, monkeypatch):
    monkeypatch.setattr(measure_packed, "CELL_UPDATES", 10_000)
    found = measure_packed.simulations(board, [1, 2], sides=(32, 64))
    gates = len(board.circuit.ops)
    small, large = (f"checkerboard, {gates} gates, {side}×{side} cells" for side in (32, 64))
    assert sorted((row["case"], row["threads"], row["system"]) for row in found.rows) == [
        (case, count, system)
        for case, systems in ((small, ("samebits", "unpacked")), (large, ("samebits",)))
        for count in (1, 2)
        for system in systems
    ]
    rates = {(row["case"], row["threads"], row["system"]): row for row in found.rows}
    slow = rates[small, 2, "unpacked"]
    assert slow["times_slower"] == rates[small, 2, "samebits"]["median"] / slow["median"]
    assert json.loads(json.dumps(found._asdict())) == found._asdict()
