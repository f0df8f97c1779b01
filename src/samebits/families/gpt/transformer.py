"""The kernels as functions of a config: buffers, waves and dropout filled in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array
from samebits.devices.cpu.workers import Workers
from samebits.families.gpt.config import GptConfig
from samebits.families.gpt.kernels import (
    Dropout,
    Memory,
    Model,
    Samples,
    evaluate_worker,
    gradient_worker,
    logits_worker,
    mask_size,
    scratch_size,
)
from samebits.families.gpt.weights import Sizes, panel_worker, panels_total
from samebits.training.contract import Batch, Wave

OWNER = "gpt"  # of scratch memory
NO_DROPOUT = Dropout(0, 1.0, 0, 0)


class Part(NamedTuple):
    """The samples of a wave."""

    inputs: Array
    targets: Array
    step: int
    first_sample: int  # its place in the step


def sizes(config: GptConfig) -> Sizes:
    shape = config.context, config.width, config.heads, config.layers, config.symbols
    return Sizes(config.unit_samples, *shape, config.final_norm)


def cut(config: GptConfig, batch: Batch, wave: Wave) -> Part:
    first, last = wave.first_group * config.unit_samples, wave.last_group * config.unit_samples
    windows = batch.arrays
    return Part(windows.inputs[first:last], windows.targets[first:last], int(windows.step[0]), first)


def dropout_threshold(config: GptConfig) -> int:
    """Of 65,536 equally likely draws, this many are dropped."""
    return round(config.dropout * 65536)


def dropout_of(config: GptConfig, step: int) -> Dropout:
    """The draws of a training step; none in evaluations, whose step is −1."""
    threshold = dropout_threshold(config) if step >= 0 else 0
    return Dropout(threshold, 65536 / (65536 - threshold), config.seed, max(step, 0)) if threshold else NO_DROPOUT


def _memory(z: Sizes, drop: Dropout, dtype: DTypeLike, workers: Workers) -> Memory:
    """Activations and dropout masks of one unit, a row each worker."""
    scratch = workers.scratch(OWNER)
    return Memory(
        scratch.per_worker("activations", scratch_size(z), dtype),
        scratch.per_worker("dropout", mask_size(z, drop), np.uint8),
    )


def _panels(params: Array, z: Sizes, workers: Workers) -> Array:
    """Post it: the weights as the units read them."""
    panels = workers.scratch(OWNER).buffer("panels", (panels_total(z),), params.dtype)
    workers.post(panel_worker, workers.tickets(), panels, params, z)
    return panels


def gradient(config: GptConfig, params: Array, part: Part, slots: Array, losses: Array, workers: Workers) -> None:
    """Post it: a slot row and a loss for every unit of these samples."""
    z, drop = sizes(config), dropout_of(config, part.step)
    memory = _memory(z, drop, params.dtype, workers)
    model = Model(params, _panels(params, z, workers), drop, z)
    wave = Samples(part.inputs, part.targets, part.first_sample)
    workers.post(gradient_worker, workers.tickets(), workers.schedule, slots, losses, wave, memory, model)


def evaluate(config: GptConfig, params: Array, inputs: Array, targets: Array, rows: Array, workers: Workers) -> None:
    """rows (units, 3): nats, counted targets, right guesses."""
    z = sizes(config)
    memory = _memory(z, NO_DROPOUT, params.dtype, workers)
    model = Model(params, _panels(params, z, workers), NO_DROPOUT, z)
    workers.run(evaluate_worker, workers.tickets(), rows, Samples(inputs, targets, 0), memory, model)


def logits(config: GptConfig, params: Array, inputs: Array, workers: Workers) -> Array:
    """(B, T, V) for tokens (B, T), T being the context."""
    z = sizes(config)
    memory = _memory(z, NO_DROPOUT, params.dtype, workers)
    out = np.empty((*inputs.shape, z.V), params.dtype)
    model = Model(params, _panels(params, z, workers), NO_DROPOUT, z)
    workers.run(logits_worker, workers.tickets(), out, inputs, memory, model)
    return out
