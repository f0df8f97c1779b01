"""Gradients that are folded over units where they are computed: the bits of the tree over single units."""

import pytest

from samebits.devices.gpu import products
from samebits.devices.gpu.products import levels_for
from samebits.families.gpt import gpu as transformer
from tests.gpu.training import check_bits

TINY = {"data": "generated", "dropout": 0.0, "width": 12, "heads": 2, "layers": 1, "context": 7, "unit_samples": 1}
CASES = {
    "one row": {"batch_size": 8},
    "three rows of four": {"batch_size": 12, "dropout": 0.1},
    "waves of two and four": {"batch_size": 6, "micro_batches": 2},
    "no final norm": {"batch_size": 4, "final_norm": False, "dropout": 0.1, "layers": 2},
    "more than a panel": {"batch_size": 4, "context": 520, "width": 8},
}


@pytest.mark.parametrize("more", CASES.values(), ids=CASES)
def test_folded_units_have_the_same_bits(gpu, monkeypatch, more):
    monkeypatch.setattr(products, "ENOUGH_OF_UNITS", 0)
    monkeypatch.setattr(transformer, "MOST_CHANCES", 0)  # computed again on the way back
    check_bits(gpu, "gpt", {**TINY, **more})


@pytest.mark.parametrize("more", CASES.values(), ids=CASES)
def test_rows_that_are_folded_layer_by_layer_have_the_same_bits(gpu, monkeypatch, more):
    monkeypatch.setattr(products, "ENOUGH_OF_UNITS", 0)
    monkeypatch.setattr(products, "MOST_LEVELS", 1)
    monkeypatch.setattr(transformer, "MOST_WAITING", 0)
    monkeypatch.setattr(transformer, "ATTENDING", 1)  # few samples at once
    check_bits(gpu, "gpt", {**TINY, **more})


@pytest.mark.parametrize(
    ("first", "last", "levels"), [(0, 64, 2), (0, 63, 0), (0, 48, 1), (2, 130, 1), (0, 16, 0), (0, 1024, 6)]
)
def test_units_are_folded_where_enough_is_left(first, last, levels):
    shapes = [(256, 768), (256, 256), (256, 1024), (1024, 256)]  # gpt, preset l
    assert levels_for(shapes, first, last) == levels
