"""The record of packed simulation: nothing is timed before its cells are proved right."""

import json
from dataclasses import replace

import numpy as np
import pytest

from weft.bench import packed
from weft.config import override
from weft.engine.workers import Workers
from weft.errors import WeftError
from weft.families import discover, find_preset
from weft.families.logic_ca.model import LogicModel

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
        packed.check_equal(board, 40, 5, team)


def test_a_circuit_that_differs_is_refused(board):
    # One channel negated: an operation and its complement are numbers i and 15 − i.
    circuit = board.circuit
    ops = circuit.ops.copy()
    gate = max(circuit.outputs) - len(circuit.inputs)
    assert gate >= 0, "no output is a gate: draw another circuit"
    ops[gate] ^= 15
    board.__dict__["circuit"] = replace(circuit, ops=ops)
    with Workers(1) as team, pytest.raises(WeftError, match="differ from the unpacked model"):
        packed.check_equal(board, 40, 1, team)


def test_a_rule_that_is_not_life_is_refused():
    model = untrained("life", {})
    with Workers(1) as team, pytest.raises(WeftError, match="differ from the rule of Life"):
        packed.check_equal(model, 40, 2, team)


def test_the_record_holds_every_grid_and_the_ratio(board, monkeypatch):
    monkeypatch.setattr(packed, "CELL_UPDATES", 10_000)
    record = json.loads(json.dumps(packed.measure(board, sides=(32, 64), rounds=3)))
    assert [row["grid"] for row in record["packed"]] == [[32, 32], [64, 64]]
    assert all(len(row["rounds"]) == 3 for row in [*record["packed"], record["unpacked"]])
    packed_rate, unpacked_rate = (
        sorted(row["rounds"])[1] for row in (record["packed"][0], record["unpacked"])
    )  # medians
    assert record["times_the_unpacked"] == packed_rate / unpacked_rate
    assert record["gates"] == len(board.circuit.ops)
