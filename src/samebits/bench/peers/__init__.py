"""Other systems that train the same model, each written as its users would write it well.

A peer gets our config, our first weights, our batches and our learning rates, so its losses must be ours: the contest
(bench/contest.py) refuses to time one whose first losses differ. To add a peer, write a module here with
`build(problem, **options) -> Stepper` and name it in PEERS; packages it needs are imported inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

from samebits.engine.arrays import Array
from samebits.engine.family import Batch, Constants


class Problem(NamedTuple):
    """What is to be trained. `params` are the first weights by name, in the order of the flat vector."""

    config: Any
    params: Mapping[str, Array]
    constants: Constants
    lr: Callable[[int], float]  # of step 0, 1, …


class Stepper(NamedTuple):
    step: Callable[[int, Batch], float]  # (number, batch): one training step; its loss
    weights: Callable[[], Array]  # the flat vector, in our order


class Peer(NamedTuple):
    name: str
    module: str  # in this folder
    needs: tuple[str, ...]  # packages
    options: Mapping[str, Any]


_TORCH = ("torch",)

PEERS: dict[str, tuple[Peer, ...]] = {
    "logic_ca": (
        Peer("PyTorch eager", "logic_torch", _TORCH, {}),
        Peer("PyTorch compiled", "logic_torch", _TORCH, {"compiled": True}),
        Peer("JAX, published formulation", "logic_jax", ("jax",), {}),
        Peer("JAX, rows of cells", "logic_jax", ("jax",), {"rows": True}),
    ),
    "gpt": (
        Peer("PyTorch eager", "gpt_torch", _TORCH, {}),
        Peer("PyTorch compiled", "gpt_torch", _TORCH, {"compiled": True}),
    ),
    "graph": (Peer("PyTorch Geometric", "graph_torch", ("torch", "torch_geometric"), {}),),
}


def missing(peer: Peer) -> list[str]:
    """The packages this peer needs and does not have here."""
    return [package for package in peer.needs if find_spec(package) is None]
