"""Tables of automata for groups of threads, without a device; tests/gpu/test_automata.py has their bits."""

import numpy as np
import pytest

from samebits.config import override
from samebits.errors import SamebitsError
from samebits.families import find_preset, find_task
from samebits.families.logic_ca.gpu.levels import levels_of
from samebits.families.logic_ca.gpu.passes import backward_plan
from samebits.families.logic_ca.gpu.rows import COSTS, FIELD, Streams, Team, _words, laid_out, ordered
from samebits.training.trainer import resolve


def test_rows_that_read_the_same_colour_are_kept_apart():
    colours = np.array([[0], [0], [0], [0], [1], [1], [1], [1]])
    sequence = ordered(colours, 1, 2)
    assert sorted(sequence) == list(range(8))
    assert all(len({int(colours[row, 0]) for row in sequence[i : i + 2]}) == 2 for i in range(0, 8, 2))


def test_a_circuit_that_is_too_large_for_a_row_is_refused():
    largest = (1 << FIELD) - 1
    assert int(_words(np.array([[largest, 1, 2]]))[0]) == largest + (1 << FIELD) + (2 << 2 * FIELD)
    with pytest.raises(SamebitsError, match=r"2,097,152 places .* --device cpu"):
        _words(np.array([[largest + 1, 0, 0]]))


def test_the_longest_lumps_are_given_out_first():
    gate, block, sums = [(0, 0, 0, 0)], [(0,) * 8], [(0, 0, 0, 0, -1)]
    streams = Streams(3)
    streams.add(([[gate]] * 4, [[block]] * 6, [[sums] * 8]), (gate, block, sums), np.zeros(3))
    load = streams.counts[0] @ np.array(COSTS)
    assert streams.counts[0].sum(axis=0).tolist() == [4, 6, 8]
    assert load.max() == COSTS[2] * 8  # whoever has the sums has nothing else
    assert sorted(load.tolist())[:2] == [21, 21]


@pytest.mark.parametrize(("lanes", "share"), [(32, 16), (32, 8), (96, 4)])
def test_every_gate_has_a_place_for_its_sums(lanes, share):
    family, _ = find_task("checkerboard")
    config = resolve(family, override(find_preset("checkerboard", "small"), {"lanes": lanes}))
    levels = levels_of(config, family.constants(config)).value
    team = Team(share, share * lanes // 32 // 4, 2)
    tables = laid_out(levels, backward_plan(levels, 2, chained=True), team, back=True)
    assert sorted(tables.order[tables.order >= 0].tolist()) == list(range(len(levels.gates)))
    assert len(tables.order) % team.gates == 0
