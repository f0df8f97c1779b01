"""Train a few steps at several worker counts and compare hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from samebits.config import TrainConfig
from samebits.engine.exchange import Links
from samebits.engine.family import Family
from samebits.engine.params import weights_hash
from samebits.engine.trainer import Trainer, resolve
from samebits.engine.workers import Workers


def trained_hashes(
    family: Family, config: TrainConfig, workers: int, steps: int, share_little: bool = False,
    links: Links | None = None,
) -> tuple[str, str]:  # fmt: skip
    """(weights, metrics) after `steps` steps: every loss, norm and metric counts, not only the weights."""
    with Workers(workers, share_little=share_little) as team:
        trainer = Trainer(family, config, team, links=links)
        rows = [trainer.step(log=True) for _ in range(steps)]
        rows.append(trainer.evaluate(family.evaluation(config, trainer.data, False)))
        numbers = np.array([value for row in rows for value in row.values()], np.float64)
        return weights_hash(trainer.params), hashlib.sha256(numbers.astype("<f8").tobytes()).hexdigest()


def compare(
    family: Family, config: TrainConfig, counts: Sequence[int], steps: int, share_little: bool = False
) -> dict[int, tuple[str, str]]:
    """The hashes at each worker count; with `share_little` even what is too little to be shared is."""
    ready = resolve(family, config)
    return {count: trained_hashes(family, ready, count, steps, share_little) for count in counts}
