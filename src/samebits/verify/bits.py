"""Train a few steps at several worker counts and compare hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from samebits.config import TrainConfig
from samebits.devices.cpu.workers import Workers
from samebits.devices.interface import Device
from samebits.groups.exchange import Links
from samebits.training.ahead import compile_ahead
from samebits.training.contract import Family
from samebits.training.params import weights_hash
from samebits.training.trainer import Trainer, resolve


def trained_hashes(
    family: Family, config: TrainConfig, device: Device, steps: int, links: Links | None = None
) -> tuple[str, str]:
    """(weights, metrics) after `steps` steps: every loss, norm and metric counts, not only the weights."""
    compile_ahead(family, config, device)
    trainer = Trainer(family, config, device, links=links)
    rows = [trainer.step() for _ in range(steps)]
    rows.append(trainer.evaluate(family.evaluation(config, trainer.data, False)))
    numbers = np.array([value for row in rows for value in row.values()], np.float64)
    weights = weights_hash(device.download(trainer.params))
    return weights, hashlib.sha256(numbers.astype("<f8").tobytes()).hexdigest()


def compare(
    family: Family, config: TrainConfig, counts: Sequence[int], steps: int, share_little: bool = False
) -> dict[int, tuple[str, str]]:
    """The hashes at each worker count; with `share_little` even what is too little to be shared is."""
    ready, found = resolve(family, config), {}
    for count in counts:
        with Workers(count, share_little=share_little) as team:
            found[count] = trained_hashes(family, ready, team, steps)
    return found
