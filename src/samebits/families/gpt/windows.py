"""Logits of whole windows, on any device, and text drawn from them.

The CPU keeps keys and values of what it has read (decoding.py). Other devices read the window anew for every token:
many samples at once, and the same bits, for what follows a position does not change it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.interface import Device
from samebits.families.gpt import gpu, transformer
from samebits.families.gpt.config import GptConfig
from samebits.families.gpt.decoding import Request, choose, in_view

LOGITS: Mapping[str, Callable[..., Array]] = {"cpu": transformer.logits, "gpu": gpu.logits}


def draw_from_windows(
    config: GptConfig, params: Array, text: Array, lengths: Array, request: Request, device: Device
) -> None:
    """decoding.generate_worker: up to so many more tokens for every sample that is neither full nor ended."""
    prompt, count, first_sample, how = request
    T, weights = config.context, device.upload(params)
    for _ in range(count):
        ended = (lengths > prompt) & (text[np.arange(len(text)), lengths - 1] == how.end)
        going = np.flatnonzero((lengths < text.shape[1]) & ~ended)
        if going.size == 0:
            return
        windows, lasts = np.zeros((going.size, T), np.int32), []
        for window, k in zip(windows, going, strict=True):
            first = in_view(int(lengths[k]), T)
            seen = text[k, first : lengths[k]]
            window[: len(seen)] = seen
            lasts.append(len(seen) - 1)
        found = LOGITS[device.kind](config, weights, windows, device)
        for row, last, sample in zip(found, lasts, going.tolist(), strict=True):
            n = int(lengths[sample])
            text[sample, n] = choose(row[last], n - prompt, first_sample + sample, how)
            lengths[sample] = n + 1
