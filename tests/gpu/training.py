"""The same few steps on a device and on the CPU."""

from __future__ import annotations

from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.families import find_preset, find_task
from samebits.training.params import weights_hash
from samebits.training.trainer import Trainer, resolve


def trained(family, config, device):
    """Weights, what was logged, and an evaluation."""
    trainer = Trainer(family, config, device)
    rows = [trainer.step() for _ in range(3)]
    rows.append(trainer.evaluate(family.evaluation(config, trainer.data, False)))
    return weights_hash(device.download(trainer.params)), rows


def check_bits(gpu, task, settings):
    family, _ = find_task(task)
    config = resolve(family, override(find_preset(task, "small"), settings))
    with Workers(2) as workers:
        wanted = trained(family, config, workers)
    assert trained(family, config, gpu) == wanted
