"""What fresh gates pass on: the same for every wiring when routed, and seen by running the automaton itself."""

import numpy as np
import pytest

from samebits.config import override
from samebits.errors import SamebitsError
from samebits.families import discover, find_preset
from samebits.families.logic_ca import reference, starts
from samebits.families.logic_ca.model import LogicModel
from samebits.training.trainer import resolve
from samebits.verify.bits import compare

FAMILY = discover()["logic_ca"]
BOARD = override(find_preset("checkerboard", "full"), {"residual": "routed"})
NEIGHBOURS = {0, 1, 2, 3, 5, 6, 7, 8}


def fresh(config):
    return LogicModel(config, FAMILY.init(config, np.float32), FAMILY.constants(config))


@pytest.mark.parametrize("wiring", [0, 1, 7, 23])
def test_routed_every_wiring_starts_by_moving_the_same_bits(wiring):
    model = fresh(override(BOARD, {"wiring_seed": wiring}))
    grids = np.random.default_rng(0).integers(0, 2, (1, 9, 11, 8)).astype(np.float32)
    seen = reference.patches(grids, periodic=False)  # (B, H, W, 9, C)
    wanted = np.stack([seen[..., position, channel] for channel, position in starts.first_sources(BOARD)], axis=-1)
    np.testing.assert_array_equal(model.rollout(grids, 1, workers=1), wanted)


def test_hidden_pairs_drift_to_all_four_sides_and_nobody_reads_what_is_seen():
    sources = starts.first_sources(override(BOARD, {"channels": 9, "update": (*[288] * 4, 144, 72, 36, 18, 9)}))
    assert all(channel != 0 for channel, _ in sources)
    drifts = set()
    for first in (1, 3, 5, 7):
        (partner, one), (back, other) = sources[first : first + 2]
        assert (partner, back) == (first + 1, first)
        drifts.add((one // 3 + other // 3 - 2, one % 3 + other % 3 - 2))
    assert drifts == {(0, -2), (-2, 0), (0, 2), (2, 0)}


@pytest.mark.parametrize(
    ("task", "wanted"), [("checkerboard", NEIGHBOURS), ("life", NEIGHBOURS), ("grow", {0, 2, 6, 8})]
)
def test_spread_kernels_see_as_many_neighbours_as_they_can(task, wanted):
    model = fresh(override(find_preset(task, "full"), {"residual": "spread"}))
    channels = model.config.channels
    found = set()
    for position in NEIGHBOURS:
        grids = np.zeros((1, 5, 5, channels))
        grids[0, 1 + position // 3, 1 + position % 3] = 1
        features = reference.perceive(model.config, model.params, grids, soft=False)[0, 2, 2, channels:]
        if features.any():
            found.add(position)
    assert found == wanted
    logits = model.weights.reshape(-1, 16)
    assert set(logits[model.config.kernels * sum(model.config.perceive) :].argmax(axis=1)) == {3}, "update passes a"


def test_what_cannot_be_routed_is_refused():
    config = override(find_preset("grow", "full"), {"residual": "routed"})
    with pytest.raises(SamebitsError, match=r"128 channels and 4 kernels.*residual=mixed"):
        FAMILY.init(config, np.float32)


def test_the_start_logit_says_how_surely():
    logits = FAMILY.init(override(BOARD, {"start_logit": 5.0}), np.float32).reshape(-1, 16)
    assert set(np.unique(logits)) == {0.0, 5.0}
    assert ((logits == 5).sum(axis=1) == 1).all()


def test_the_draw_depends_on_the_seed_and_not_on_the_workers():
    small = override(BOARD, {"height": 6, "width": 7, "ca_steps": 3, "harden_from": 0.0, "harden_full": 1.0})
    assert not np.array_equal(FAMILY.init(small, np.float32), FAMILY.init(override(small, {"seed": 1}), np.float32))
    assert len(set(compare(FAMILY, resolve(FAMILY, small), (1, 2, 3, 5), 3).values())) == 1
