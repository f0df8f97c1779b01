"""The kernels as functions of a config: buffers, waves and dropout filled in."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array
from samebits.devices.cpu.workers import Workers
from samebits.families.gpt.config import GptConfig
from samebits.families.gpt.kernels import (
    Dropout,
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


def sizes(config: GptConfig) -> Sizes:
    shape = config.context, config.width, config.heads, config.layers, config.symbols
    return Sizes(config.unit_samples, *shape, config.final_norm)


def cut(config: GptConfig, batch: Batch, wave: Wave) -> tuple[Array, Array, int, int]:
    """The wave's inputs and targets, the step, and the place of its first sample."""
    first, last = wave.first_group * config.unit_samples, wave.last_group * config.unit_samples
    windows = batch.arrays
    return windows.inputs[first:last], windows.targets[first:last], int(windows.step[0]), first


def dropout_threshold(config: GptConfig) -> int:
    """Of 65,536 equally likely draws, this many are dropped."""
    return round(config.dropout * 65536)


def dropout_of(config: GptConfig, step: int) -> Dropout:
    """The draws of a training step; none in evaluations, whose step is −1."""
    threshold = dropout_threshold(config) if step >= 0 else 0
    return Dropout(threshold, 65536 / (65536 - threshold), config.seed, max(step, 0)) if threshold else NO_DROPOUT


def _scratch(z: Sizes, drop: Dropout, dtype: DTypeLike, workers: Workers) -> tuple[Array, Array]:
    """Activations and dropout masks of one unit, a row each worker."""
    scratch = workers.scratch(OWNER)
    return scratch.per_worker("activations", scratch_size(z), dtype), scratch.per_worker(
        "dropout", mask_size(z, drop), np.uint8
    )


def _panels(params: Array, z: Sizes, workers: Workers) -> Array:
    """Post it: the weights as the units read them."""
    panels = workers.scratch(OWNER).buffer("panels", (panels_total(z),), params.dtype)
    workers.post(panel_worker, workers.tickets(), panels, params, z)
    return panels


def gradient(
    config: GptConfig, params: Array, inputs: Array, targets: Array, step: int, first_sample: int, slots: Array,
    losses: Array, workers: Workers,
) -> None:  # fmt: skip
    """Post it: a slot row and a loss for every unit of the samples given; first_sample is their place in the step."""
    z, drop = sizes(config), dropout_of(config, step)
    memory, masks = _scratch(z, drop, params.dtype, workers)
    panels = _panels(params, z, workers)
    workers.post(
        gradient_worker, workers.tickets(), slots, losses, params, panels, inputs, targets, first_sample, memory,
        masks, workers.schedule, drop, z,
    )  # fmt: skip


def evaluate(config: GptConfig, params: Array, inputs: Array, targets: Array, rows: Array, workers: Workers) -> None:
    """rows (units, 3): nats, counted targets, right guesses."""
    z = sizes(config)
    memory, masks = _scratch(z, NO_DROPOUT, params.dtype, workers)
    workers.run(
        evaluate_worker, workers.tickets(), rows, params, _panels(params, z, workers), inputs, targets, memory, masks,
        NO_DROPOUT, z
    )  # fmt: skip


def logits(config: GptConfig, params: Array, inputs: Array, workers: Workers) -> Array:
    """(B, T, V) for tokens (B, T), T being the context."""
    z = sizes(config)
    memory, masks = _scratch(z, NO_DROPOUT, params.dtype, workers)
    out = np.empty((*inputs.shape, z.V), params.dtype)
    panels = _panels(params, z, workers)
    workers.run(logits_worker, workers.tickets(), out, params, panels, inputs, memory, masks, NO_DROPOUT, z)
    return out
