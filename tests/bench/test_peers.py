"""A peer that computes something else is no peer: its first losses and weights are ours. (The compiled variants are the
same source; `samebits bench` holds them to the same rule whenever it times them.)"""

from __future__ import annotations

import numpy as np
import pytest

from samebits.bench import runner
from samebits.bench.peers import missing
from samebits.bench.runner import Spec
from samebits.families import discover
from samebits.training.parts import Peer

STEPS = 4
# XLA compiles for seconds, so JAX sees two tasks only: fire masks and a border of zeros, and a torus.
JAX = {("checkerboard-async", "JAX, published formulation"), ("life", "JAX, rows of cells")}
CASES = [
    (name, task, peer)
    for name, family in discover().items()
    for task in family.tasks
    for peer in family.bench.peers
    # PyTorch Geometric has no argument positions: it is timed on random graphs that have none either.
    if (name != "graph" or task == "boolean")
    and "compiled" not in peer.options
    and ("jax" not in peer.needs or (task, peer.name) in JAX)
]


def train(opened):
    with opened as running:
        return [running.step(i, running.prepare(i)) for i in range(STEPS)], running.weights().copy()


@pytest.mark.parametrize(("name", "what", "peer"), CASES, ids=[f"{task}-{peer.name}" for _, task, peer in CASES])
def test_a_peer_trains_the_same_model(name, what, peer):
    assert not missing(peer)  # make test installs them all
    # Without dropout: a peer draws other masks.
    found = discover()[name].tasks[what]
    same = found.presets.get("timing")
    chosen = same or next(check for check in found.checks if not getattr(check, "dropout", 0))
    config = chosen.model_dump(mode="json")
    ours, weights = train(runner.samebits_running(Spec(name, config, 1)))
    theirs, also = train(runner.peer_running(Spec(name, config, 1, module=peer.module, options=peer.options)))
    assert theirs == pytest.approx(ours, rel=peer.tolerance)
    assert ours[0] != ours[-1]
    # Weights in our order: an update is at most lr, so a tenth of that is far from a wrong sign or a swapped tensor.
    assert also.shape == weights.shape
    assert np.abs(also - weights).max() < config["lr"]
    assert np.median(np.abs(also - weights)) < 0.1 * config["lr"]


def test_a_package_that_is_not_there_is_named():
    assert missing(Peer("nobody", "nothing", ("numpy", "samebits_has_no_such_package"), {})) == [
        "samebits_has_no_such_package"
    ]
