"""How good a trained GPT is: the whole validation text, every token counted once, beside what needs no model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from samebits.engine.arrays import Array
from samebits.engine.device import Device, Vector
from samebits.engine.elementary import LN2, exp, log
from samebits.engine.family import Batch, Constants, Wave
from samebits.engine.parts import Report
from samebits.engine.reduction import Reduction
from samebits.engine.workers import Workers
from samebits.families.gpt import data, gpu, transformer
from samebits.families.gpt.config import GptConfig
from samebits.families.gpt.data import Text

if TYPE_CHECKING:
    from samebits.families.gpt.model import GptModel

COLUMNS = ("nats", "tokens", "hits")  # of a unit's row


def summarise(config: GptConfig, sums: Mapping[str, float], batch: Batch) -> dict[str, float]:
    loss = sums["nats"] / sums["tokens"]
    return {
        "loss": loss,
        "perplexity": exp(min(loss, 700.0)),
        "bits_per_byte": loss / LN2 / float(batch.arrays.bytes_per_token[0]),
        "accuracy": sums["hits"] / sums["tokens"],
    }


def evaluate(
    config: GptConfig, constants: Constants, params: Array, batch: Batch, wave: Wave, rows: Array, workers: Workers
) -> None:
    inputs, targets, _, _ = transformer.cut(config, batch, wave)
    transformer.evaluate(config, params, inputs, targets, rows, workers)


EVALUATE: Mapping[str, Callable[..., None]] = {"cpu": evaluate, "gpu": gpu.evaluate}


def validate(model: GptModel, batch: Batch, device: Device) -> dict[str, float]:
    """The metrics that training would log for this batch, bit for bit: the same units, the same tree."""
    config, S, params = model.config, model.config.unit_samples, device.upload(model.weights)
    reduction = Reduction(device, config.slot_memory, config.micro_batches, 8 * S * config.context)
    plan = reduction.plan(np.ones(-(-batch.samples // S), np.int64), 8 * len(COLUMNS))

    def compute(wave: Wave, rows: Vector) -> None:
        EVALUATE[device.kind](config, model.constants, params, batch, wave, rows, device)

    merged = reduction.total(plan, len(COLUMNS), np.float64, compute)
    device.join()
    return summarise(config, dict(zip(COLUMNS, device.download(merged).tolist(), strict=True)), batch)


def unigram(config: GptConfig, text: Text, batch: Batch) -> dict[str, float]:
    """Every token by how often it occurs in training, one occurrence added: a symbol may be missing there."""
    counts = np.bincount(text.train.tokens, minlength=config.symbols) + 1.0
    targets = batch.arrays.targets
    found = np.bincount(targets[targets >= 0], minlength=config.symbols)
    # fsum is exact before its one rounding, whatever the order.
    nats = math.fsum(-count * log(share) for count, share in zip(found.tolist(), counts / counts.sum(), strict=True))
    sums = {"nats": nats, "tokens": float(found.sum()), "hits": float(found[counts.argmax()])}
    return summarise(config, sums, batch)


def uniform(config: GptConfig, batch: Batch) -> dict[str, float]:
    """Every symbol alike."""
    return summarise(config, {"nats": log(float(config.symbols)), "tokens": 1.0, "hits": 1 / config.symbols}, batch)


def report(model: GptModel, device: Device) -> Report:
    """What `samebits eval` shows."""
    text = data.load(model.config, model.vocabulary)
    batch = data.evaluation(model.config, text, True)
    found = {
        "the model": validate(model, batch, device),
        "unigram: how often each token occurs in training": unigram(model.config, text, batch),
        "uniform: every token alike": uniform(model.config, batch),
    }
    heading = f"on all {int(batch.divisor):,} validation tokens"
    return Report([{heading: name, **_shown(values)} for name, values in found.items()])


def _shown(values: Mapping[str, float]) -> dict[str, Any]:
    return {
        "loss": f"{values['loss']:.4f}",
        "perplexity": f"{values['perplexity']:.3f}",
        "bits per byte": f"{values['bits_per_byte']:.4f}",
        "accuracy": f"{100 * values['accuracy']:.2f} %",
    }
