"""Rules of one bit a cell: read from what users write, and stepped as they say."""

import numpy as np
import pytest

from samebits.errors import SamebitsError
from samebits.families import find_preset
from samebits.families.logic_ca import data, rules
from tests.families.logic_ca.configured import configured

HIGHLIFE = "B36/S23"


def life(rule):
    return configured(find_preset("life", "small"), {"rule": rule})


def counted(patch):
    """HighLife, as one would write it in Python."""
    around = int(patch.sum() - patch[1, 1])
    return around in (2, 3) if patch[1, 1] else around in (3, 6)


def test_life_by_name_by_digits_and_by_table_are_one():
    soup = data.random_grids(find_preset("life", "small"), 3, 1, 0, (9, 11))
    wanted = data.life_rollout(soup, 5)
    for rule in ("life", "B3/S23", "".join(map(str, rules.table_of("B3/S23")))):
        np.testing.assert_array_equal(rules.rollout(life(rule).rule, soup, 5), wanted)
    assert not np.array_equal(rules.rollout(HIGHLIFE, soup, 5), wanted)


def test_a_rule_is_read_from_text_files_arrays_and_functions(tmp_path):
    digits = "".join(map(str, rules.table_of(HIGHLIFE)))
    path = tmp_path / "rule.txt"
    for text in (HIGHLIFE, digits, "\n".join(digits[i : i + 64] for i in range(0, 512, 64))):
        path.write_text(text + "\n")
        np.testing.assert_array_equal(rules.table_of(life(str(path)).rule), rules.table_of(HIGHLIFE))
    assert life("b63/s32").rule == HIGHLIFE
    assert life(rules.table_of(HIGHLIFE)).rule == life(counted).rule == digits


def test_an_asymmetric_table_looks_where_it_says():
    """Each cell becomes its upper left neighbour: everything moves down and to the right."""
    shift = life(lambda patch: patch[0, 0])
    soup = data.random_grids(shift, 2, 1, 0, (6, 7))
    np.testing.assert_array_equal(rules.rollout(shift.rule, soup, 2), np.roll(soup, (2, 2), axis=(1, 2)))


def test_what_is_learned_is_the_rule(tmp_path):
    config = life(HIGHLIFE)
    boards = data.evaluation(config, data.load(config), True).arrays
    np.testing.assert_array_equal(boards.targets, rules.rollout(HIGHLIFE, boards.grids, 1))
    six = data.life_patterns()[0b111111000].copy()[None]  # six around a dead centre? the centre is alive; clear it
    six[0, 1, 1], six[0, 2, 0] = 0, 1
    assert rules.rollout(HIGHLIFE, six, 1)[0, 1, 1, 0] == 1
    assert rules.rollout("life", six, 1)[0, 1, 1, 0] == 0


@pytest.mark.parametrize("rule", ["B9/S23", "conway", "0101", 5, [0, 1], np.full(512, 2), "B3S23", "~nosuchuser/x"])
def test_what_is_no_rule_is_refused(rule):
    with pytest.raises(SamebitsError, match=r"rule (is|has) .*;"):
        life(rule)


def test_only_rules_of_cells_are_one_bit():
    with pytest.raises(SamebitsError, match="channels is 8; a Life cell is one bit"):
        configured(find_preset("checkerboard", "small"), {"rule": HIGHLIFE, "boundary": "periodic"})
