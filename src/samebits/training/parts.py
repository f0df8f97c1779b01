"""What a family may bring besides training: reports, and what `samebits bench` and `profile` know of it.

What a part needs is imported when it is used: training loads no benchmark. Such things are named "module:attribute".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from samebits.arithmetic.arrays import Array
from samebits.config import TrainConfig


class Model(Protocol):
    """What every trained model has, beside what its family gives it."""

    config: Any
    weights: Array  # the flat vector
    constants: Mapping[str, Array]
    params: dict[str, Array]  # by name, constants too


C_contra = TypeVar("C_contra", bound=TrainConfig, contravariant=True)


class MakeModel(Protocol[C_contra]):
    """A model to use from Python. `constants` holds the arrays of the family's mutable state too."""

    def __call__(self, config: C_contra, weights: Array, constants: Mapping[str, Array]) -> Model: ...


@dataclass
class Report:
    """What `samebits eval` prints, and curves to plot, if there are any. A column that is empty in every row goes."""

    rows: list[dict[str, Any]]  # plain numbers: --json prints them as they are
    formats: Mapping[str, str] = field(default_factory=dict)  # by column: a format of Python's; ".2%" also of a share
    heading: str = ""  # of the table, where it is not the task's name
    curves: dict[str, Array] = field(default_factory=dict)
    title: str = ""
    x: str = ""
    y: str = ""
    plot: str = "curves"  # name of the picture


class Exported(NamedTuple):
    """What `samebits export` wrote, and what there is to say of it."""

    paths: Sequence[Path]
    lines: Sequence[str] = ()


class Peer(NamedTuple):
    """Another system that trains the same model; see bench/peers.py for what its module has to have."""

    name: str
    module: str
    needs: tuple[str, ...]  # packages
    options: Mapping[str, Any] = {}
    distributed: Mapping[str, Any] | None = None  # options for several processes, where it can do that
    tolerance: float = 1e-4  # of its first losses, relative: other orders of addition, or numbers with fewer digits


class Measurement(NamedTuple):
    """Something that `samebits bench NAME` measures and that is not training."""

    summary: str
    measure: str  # "module:function", worker counts → bench.cases.Found; it raises when answers disagree


@dataclass(frozen=True)
class Bench:
    flops: Callable[[Any], float] | None = None  # floating-point operations of one training step
    # What no implementation of a training step can do without: its matrix products, as (m, k, n, how many), or else the
    # bytes its kernels read and write if none were in the first-level cache.
    products: Callable[[Any], Sequence[tuple[int, int, int, int]]] | None = None
    traffic: Callable[[Any], float] | None = None
    # What a step works through, for the progress line: a word in the plural, and how many of them. Of any config.
    work: tuple[str, Callable[[Any], float]] | None = None
    peers: tuple[Peer, ...] = ()
    gpu_peers: tuple[Peer, ...] = ()
    peers_lack: Mapping[str, Any] = field(default_factory=dict)  # settings of what no peer does alike: draws of its own
    measurements: Mapping[str, Measurement] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)  # profile: names of posted functions that are no gradient


def find(name: str) -> Any:
    """What "module:attribute" names."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
