"""init_from at the engine's level: what must be equal for one run to begin with another's weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from samebits.errors import SamebitsError
from samebits.runs.init_from import Source, begin_with

LAYOUT = [("a", (2, 3)), ("b", (4,))]
CONSTANTS = {"wires": np.arange(5)}


def source(**changes):
    arrays = {"a": np.full((2, 3), 1.5, np.float32), "b": np.arange(4, dtype=np.float32), "wires": np.arange(5)}
    arrays |= changes
    return Source(Path("run/step-1"), "f", {}, {name: value for name, value in arrays.items() if value is not None})


def test_every_tensor_goes_to_its_place():
    params = np.zeros(10, np.float32)
    begin_with(source(), LAYOUT, CONSTANTS, params)
    assert params.tolist() == [1.5] * 6 + [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"b": None}, "b is something this config has, and not init_from"),
        ({"c": np.zeros(1)}, "c is something init_from has, and this config has not"),
        ({"b": np.zeros(5, np.float32)}, r"b is float32 \(5,\); it must be float32 \(4,\)"),
        ({"b": np.zeros(4)}, r"b is float64 \(4,\); it must be float32"),
        ({"b": np.full(4, np.nan, np.float32)}, "b has values that are not finite"),
        ({"wires": np.zeros(5, int)}, "its wires is not this config's"),
    ],
)
def test_what_differs_is_named(changes, words):
    with pytest.raises(SamebitsError, match=words):
        begin_with(source(**changes), LAYOUT, CONSTANTS, np.zeros(10, np.float32))
