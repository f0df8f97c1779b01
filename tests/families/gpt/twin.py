"""The model once more, in PyTorch, for its autograd: the second oracle."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

DROPOUT = 7  # the purpose of its draws


def masks(config, samples, step):
    """(samples, 2L + 1, T, D): zeros and what the others are scaled by, of bits that NumPy draws."""
    rate, sites, size = round(config.dropout * 2**16) / 2**16, 2 * config.layers + 1, config.context * config.width
    if step < 0 or rate == 0:
        return torch.ones(samples, sites, 1, 1, dtype=torch.float64)
    rows = []
    for sample in range(samples):
        for site in range(sites):
            philox = np.random.Philox(counter=[0, site, sample, step], key=[config.seed, DROPOUT]).advance(-1)
            rows.append(
                [(word >> 16 * part) % 2**16 for word in philox.random_raw(-(-size // 4)).tolist() for part in range(4)]
            )
    draws = torch.tensor(rows, dtype=torch.float64)[:, :size] / 2**16
    return ((draws >= rate).double() / (1 - rate)).reshape(samples, sites, config.context, config.width)


def norm(x):
    return functional.rms_norm(x, x.shape[-1:], eps=1e-5)


def loss(config, params, constants, batch):
    windows = batch.arrays
    inputs, targets = (torch.tensor(x, dtype=torch.long) for x in (windows.inputs, windows.targets))
    B, T = inputs.shape
    keep = masks(config, B, int(windows.step[0]))
    x = (params["token"][inputs] + params["position"]) * keep[:, 0]
    for i in range(config.layers):
        qkv = (norm(x) @ params[f"blocks.{i}.qkv"]).view(B, T, 3, config.heads, -1).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(*qkv, is_causal=True).transpose(1, 2).reshape(B, T, -1)
        x = x + y @ params[f"blocks.{i}.out"] * keep[:, 2 * i + 1]
        x = (
            x
            + functional.relu(norm(x) @ params[f"blocks.{i}.up"]).square()
            @ params[f"blocks.{i}.down"]
            * keep[:, 2 * i + 2]
        )
    final = norm(x) if config.final_norm else x
    return (
        functional.cross_entropy(
            (final @ params["head"]).flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum"
        )
        / batch.divisor
    )
