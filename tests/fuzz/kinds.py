"""What a kind of input is, how an input ends, and the register of all kinds."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.fuzz.bases import Bases

MODULES = (
    "parsers",
    "checkpoints",
    "runfolders",
    "filesystems",
    "datafiles",
    "commands",
    "calls",
    "distances",
    "ranks",
    "circuits",
    "devices",
)


class Outcome(NamedTuple):
    """Inputs that were taken and that were refused as they should be: one, but for kinds that try many at once."""

    accepted: int
    refused: int
    told: str = ""  # what was done and said, for --once


class BrokenRuleError(Exception):
    """A rule that an ending broke without an exception: `rule` and `where` tell one such finding from another."""

    def __init__(self, rule: str, where: str, told: str) -> None:
        super().__init__(f"{rule}: {where}\n{told}")
        self.rule, self.where = rule, where


Try = Callable[[random.Random, Path, "Bases"], Outcome]


class Kind(NamedTuple):
    """`weight` says how often it is drawn. `run` gets the draw that decides everything, and an empty folder to be in.

    What `run` lets escape is a finding.
    """

    weight: float
    run: Try


KINDS: dict[str, Kind] = {}


def kind(name: str, weight: float) -> Callable[[Try], Try]:
    """Register a kind under a name."""

    def register(run: Try) -> Try:
        KINDS[name] = Kind(weight, run)
        return run

    return register


def load(also: Collection[str] = ()) -> dict[str, Kind]:
    """All kinds, and those of further modules."""
    for name in [*(f"tests.fuzz.{name}" for name in MODULES), *also]:
        importlib.import_module(name)
    return KINDS


def drawn_kind(seed: int, names: Collection[str] | None = None) -> str:
    """The kind that a seed gets in a run over these kinds."""
    known = {name: found for name, found in KINDS.items() if not names or name in names}
    return random.Random(f"kind {seed}").choices(list(known), [found.weight for found in known.values()])[0]


def draw_of(name: str, seed: int) -> random.Random:
    """What decides an input."""
    return random.Random(f"{name} {seed}")
