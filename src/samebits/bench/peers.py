"""Other systems that train the same model, each written as its users would write it well.

A peer gets our config, our first weights, our batches and our learning rates, so its losses must be ours: the contest
(bench/contest.py) refuses to time one whose first losses differ. A peer is a module of its family's with
`build(problem, **options) -> Stepper`, and `build_on(problem, device, **options)` for a GPU, named in the family's
record; packages it needs are imported inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

from samebits.arithmetic.arrays import Array
from samebits.training.contract import Batch, Constants
from samebits.training.parts import Peer


class Problem(NamedTuple):
    """What is to be trained. `params` are the first weights by name, in the order of the flat vector."""

    config: Any
    params: Mapping[str, Array]
    constants: Constants
    lr: Callable[[int], float]  # of step 0, 1, …


class Stepper(NamedTuple):
    step: Callable[[int, Any], Any]  # (number, what `ready` made of its batch): one training step; its loss
    weights: Callable[[], Array]  # the flat vector, in our order
    ready: Callable[[Batch], Any] = lambda batch: batch  # not timed
    on_gpu: OnGpu | None = None


class OnGpu(NamedTuple):
    """Of a step that only queues its work, and returns no loss."""

    loss: Callable[[], float]  # of the last step; waits for it
    wait: Callable[[], None]  # for all that was queued
    megabytes: Callable[[], float]  # the most memory that the step's own arrays had on the GPU


def missing(peer: Peer) -> list[str]:
    """The packages this peer needs and does not have here."""
    return [package for package in peer.needs if find_spec(package) is None]
