"""Fewer gates, the same circuit; the same circuit for everybody."""

import numpy as np
import pytest

from samebits.families.logic_ca.circuits import minimise as minimising
from samebits.families.logic_ca.circuits.circuit import DROPPED, equivalent, kept_channels
from samebits.families.logic_ca.circuits.minimise import least_gates, minimise, usual
from samebits.families.logic_ca.circuits.pruning import prune
from tests.families.logic_ca.test_circuit import assert_same, random_circuit
from tests.hardware.models import learned


def test_learned_life_needs_at_most_30_gates():
    before = learned("life").pruned
    found = usual(before)
    assert len(before.ops) > 150
    assert len(found.ops) <= 30
    assert equivalent(before, found).exhaustive


def test_the_search_is_the_same_for_everybody():
    before = learned("life").pruned
    assert_same(*(minimise(before, turns=3) for _ in range(2)))  # no clock, no worker count, no chance


@pytest.mark.parametrize("seed", range(12))
def test_it_stays_the_same_circuit(seed, monkeypatch):
    """Whole circuits, and where few inputs are allowed, parts of them."""
    monkeypatch.setattr(minimising, "TURN", 1 << 10)
    if seed % 2:
        monkeypatch.setattr(minimising, "TABLE_INPUTS", 3)
        monkeypatch.setattr(minimising, "WINDOW_INPUTS", 4)
    circuit = random_circuit(seed, 5 + seed % 6, 40, 3)
    if seed % 3 == 0:
        circuit.outputs[0] = DROPPED
    found = minimise(circuit, turns=30)
    assert equivalent(circuit, found).exhaustive
    assert kept_channels(found) == kept_channels(circuit)
    assert len(found.ops) <= len(prune(circuit).ops)


@pytest.mark.jit_off
def test_a_few_moves_of_the_walk(monkeypatch):
    """Small enough to run as plain Python too."""
    monkeypatch.setattr(minimising, "TURN", 24)
    circuit = random_circuit(4, 4, 12, 2)
    assert equivalent(circuit, minimise(circuit, turns=6)).exhaustive


def test_parts_of_a_large_circuit_shrink_too():
    before = learned("checkerboard-async").pruned
    found = minimise(before, turns=40)
    assert len(found.ops) < len(before.ops)
    assert equivalent(before, found)


def test_an_interrupted_search_keeps_what_it_found(monkeypatch):
    turns, told = [], []
    turn = minimising._whole_turn

    def interrupted(circuit, number, warmth):
        turns.append(number)
        if len(turns) == 3:
            raise KeyboardInterrupt
        return turn(circuit, number, warmth)

    monkeypatch.setattr(minimising, "_whole_turn", interrupted)
    before = learned("life").pruned
    found = minimise(before, seconds=1000, found=lambda *gain: told.append(gain))
    assert len(turns) == 3
    assert len(found.ops) == told[-1][0] < len(before.ops)


def test_where_no_gate_can_go_nothing_is_searched(monkeypatch):
    monkeypatch.setattr(minimising, "_whole_turn", None)
    before = prune(learned("checkerboard").pruned, (0,))
    assert len(before.ops) == least_gates(before) == 3  # four inputs, all needed
    assert len(usual(before).ops) == 3


def test_nothing_is_searched_where_nothing_is_left():
    circuit = random_circuit(0, 4, 0, 2)
    assert len(usual(circuit).ops) == 0
    assert np.array_equal(usual(circuit).outputs, prune(circuit).outputs)
