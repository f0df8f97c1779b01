"""What is made of the ticks of a step."""

import pytest

from samebits.bench.profile import PARTS, computing, idle
from samebits.families import discover

LOG = [("gradient_worker", 100, 160), ("fold_worker", 160, 170), ("optimise_worker", 175, 180)]


def test_ticks_are_added_up_by_part():
    more = [*LOG, ("mix_worker", 200, 201), ("root_worker", 201, 203), ("pull_back_worker", 203, 207)]
    parts = {**PARTS, **discover()["logic_ca"].bench.parts}
    assert computing(more, parts) == {"gradient": 61, "merge": 16, "optimiser": 5}


@pytest.mark.parametrize(
    ("interval", "ticks"),
    [((10, 30), 20), ((90, 110), 10), ((100, 180), 5), ((165, 178), 5), ((170, 175), 5), ((179, 300), 120)],
)
def test_time_in_which_somebody_computes_is_not_idle(interval, ticks):
    assert idle([interval], LOG) == ticks
    assert idle([interval, (0, 1)], LOG) == ticks + 1
