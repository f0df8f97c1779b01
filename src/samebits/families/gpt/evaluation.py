"""How good a trained GPT is: the whole validation text, every token counted once, beside what needs no model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.elementary import LN2, exp, log
from samebits.checks import refuse
from samebits.devices.cpu.workers import Workers
from samebits.devices.interface import Device
from samebits.errors import SamebitsError
from samebits.families.gpt import transformer
from samebits.families.gpt.config import GptConfig
from samebits.families.gpt.data import Text, evaluation, load, part, side_by_side
from samebits.families.gpt.text import read as read_text
from samebits.families.gpt.tokens import known_text, said
from samebits.training.computation import computation
from samebits.training.contract import Batch, Work
from samebits.training.parts import Report

if TYPE_CHECKING:
    from samebits.families.gpt.model import GptModel

COLUMNS = ("nats", "tokens", "hits")  # of a unit's row
FORMATS = {"loss": ".4f", "perplexity": ".3f", "bits per byte": ".4f", "accuracy": ".2%"}


def summarise(config: GptConfig, sums: Mapping[str, float], batch: Batch) -> dict[str, float]:
    loss = sums["nats"] / sums["tokens"]
    return {
        "loss": loss,
        "perplexity": exp(min(loss, 700.0)),
        "bits_per_byte": loss / LN2 / float(batch.arrays.bytes_per_token[0]),
        "accuracy": sums["hits"] / sums["tokens"],
    }


def evaluate(work: Work[GptConfig, Workers], rows: Array) -> None:
    inputs, targets, _, _ = transformer.cut(work.config, work.batch, work.wave)
    transformer.evaluate(work.config, work.params, inputs, targets, rows, work.device)


def validate(model: GptModel, batch: Batch, device: Device) -> dict[str, float]:
    """The metrics that training would log for this batch, bit for bit: the same units, the same tree."""
    from samebits.families.gpt.family import FAMILY  # which imports this module

    params = device.upload(model.weights)
    return computation(FAMILY, model.config, model.constants, params, device).evaluate(batch)


def judge(model: GptModel, documents: Sequence[str], device: Device, whole: int | None = None) -> dict[str, float]:
    """The metrics of any texts, and how many tokens were predicted; the first `whole` documents end where they end."""
    given = part(model.vocabulary, documents, len(documents) if whole is None else whole)
    batch = side_by_side(model.config, given)
    if batch.divisor < 1:
        raise refuse("text", documents[0] if documents else "", "at least 2 tokens long", "give more of it")
    return {**validate(model, batch, device), "tokens": batch.divisor}


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


def report(model: GptModel, device: Device, data: Path | None = None, unknown: str | None = None) -> Report:
    """What `samebits eval` shows: of the run's own validation text, or of another one."""
    if data is not None:
        return _of_another_text(model, device, data, unknown)
    if unknown is not None:
        raise SamebitsError(
            "--unknown goes with --data here: a run knows every character of its own text; leave it out"
        )
    text = load(model.config, model.vocabulary)
    batch = evaluation(model.config, text, True)
    found = {
        "the model": validate(model, batch, device),
        "unigram: how often each token occurs in training": unigram(model.config, text, batch),
        "uniform: every token alike": uniform(model.config, batch),
    }
    heading = f"on all {int(batch.divisor):,} validation tokens"
    return Report([{heading: name, **_named(values)} for name, values in found.items()], FORMATS)


def _of_another_text(model: GptModel, device: Device, path: Path, unknown: str | None) -> Report:
    corpus = read_text(str(path))
    documents, lost = known_text(model.vocabulary, corpus.documents, unknown)
    found = judge(model, documents, device)
    done = f"; {lost:,} characters that the model does not know were {said(unknown)}" if lost else ""
    heading = f"on the {int(found['tokens']):,} tokens of {corpus.name}{done}"
    uniformly = uniform(model.config, side_by_side(model.config, part(model.vocabulary, documents, len(documents))))
    rows = {"the model": found, "uniform: every token alike": uniformly}
    return Report([{heading: name, **_named(values)} for name, values in rows.items()], FORMATS)


def _named(values: Mapping[str, float]) -> dict[str, float]:
    return {name: values[name.replace(" ", "_")] for name in FORMATS}
