"""The state of a training run: what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field, with_config

from samebits.arithmetic.arrays import Array
from samebits.checks import MOST
from samebits.training.contract import Constants
from samebits.training.schedule import Plateau

Count = Annotated[int, Field(ge=0, le=MOST)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@with_config(ConfigDict(extra="forbid", strict=True, allow_inf_nan=False))
@dataclass
class TrainState:
    """Everything a run knows besides its vectors."""

    step: Count = 0  # optimiser steps done
    plateau: Plateau = field(default_factory=Plateau)
    best_value: float | None = None
    best_step: Count | None = None
    stale_evaluations: Count = 0  # since the best, for early stopping
    stopped_early: bool = False
    metrics_bytes: Count = 0  # length of metrics.csv at this point
    metrics_sha256: Sha256 | None = None  # of these bytes; versions before 0.2 did not say


class Checkpoint(NamedTuple):
    state: TrainState
    params: Array
    first: Array
    second: Array
    constants: Constants
    config_hash: str
    mutable: Mapping[str, Array] = {}  # the family's mutable state (Family.state)

    @property
    def arrays(self) -> Constants:
        """What a model gets besides its weights."""
        return {**self.constants, **self.mutable} if self.mutable else self.constants
