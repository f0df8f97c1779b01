"""How long a step takes on many machines: a model of compute, bytes, bandwidth, latency and their number.

A rank computes its share of the units; what all compute alike, the optimiser above all, is not shared. Three times a
step everybody sends to everybody (nodes, results, losses): the bytes go at the link's rate, gloo asks before it sends,
so that a message crosses the link three times, and every message costs the time of a call. docs/cluster.md has it
beside what was measured (tests/network/measure.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from samebits.arithmetic.tree import tree_nodes
from samebits.groups.shares import shares

ROUNDS = 3  # in which everybody sends to everybody
CROSSINGS = 3  # of the link by a message: may I, yes, here it is
MESSAGE = 45e-6  # seconds to send one and to receive one: gloo, 2 to 8 ranks on 16 cores (docs/LOG.md)


@dataclass
class Work:
    """A step of one process, in seconds, and what of it travels."""

    shared: float  # gradient and merge: units are shared
    alike: float  # the rest: everybody does all of it
    row_bytes: int
    groups: list[int]  # units of each group


@dataclass
class Network:
    latency: float  # seconds, one way
    bits: float  # a second, into a machine and out of it
    cores: float = float("inf")  # that all ranks have together, one worker each: fewer than ranks where they share them


@dataclass
class Step:
    """Seconds, by part."""

    compute: float
    transfer: float
    waiting: float

    @property
    def total(self) -> float:
        return self.compute + self.transfer + self.waiting


def predict(work: Work, network: Network, ranks: int) -> Step:
    ends = [0, *np.cumsum(work.groups).tolist()]
    parts = [(ends[first], ends[last]) for first, last in shares(np.array(work.groups), ranks)]
    most = max(last - first for first, last in parts) / ends[-1]
    crowd = max(1.0, ranks / network.cores)
    compute = crowd * (work.shared * most + work.alike)
    if ranks == 1:
        return Step(compute, 0.0, 0.0)
    part = work.row_bytes / ranks
    nodes = [len(tree_nodes(*units)) for units in parts]
    out = (ranks - 1) * part * (max(nodes) + 1)
    into = part * (sum(nodes) - min(nodes)) + (ranks - 1) * part
    losses = 8 * ends[-1]
    waiting = ROUNDS * (CROSSINGS * network.latency + (ranks - 1) * MESSAGE)
    return Step(compute, 8 * (max(out, into) + losses) / network.bits, waiting)
