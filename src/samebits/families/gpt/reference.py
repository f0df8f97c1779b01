"""The model in plain NumPy, float64, one formula a line. Slow on purpose; the kernels are held to it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.families.gpt.config import DROPOUT, GptConfig

EPS = 1e-5


def keep_masks(config: GptConfig, samples: int, step: int) -> Array:
    """(samples, 2L + 1, T, D): what dropout multiplies with; site 0 is the embedding, then two sites a layer."""
    T, D, sites = config.context, config.width, 2 * config.layers + 1
    dropped = round(config.dropout * 65536)  # of so many equally likely draws
    if not dropped or step < 0:
        return np.ones((samples, sites, 1, 1))
    found = np.zeros((samples, sites, T, D))
    for sample in range(samples):
        for site in range(sites):
            words = drawn(config.seed, step, sample, site, -(-T * D // 4))
            draws = words.astype("<u8").view("<u2")[: T * D]  # sixteen bits each
            found[sample, site] = (draws >= dropped).reshape(T, D) * (65536 / (65536 - dropped))
    return found


def drawn(seed: int, step: int, sample: int, site: int, count: int) -> Array:
    """(count,) words of NumPy's Philox, which counts before it draws."""
    first = (step << 192 | sample << 128 | site << 64) - 1
    counter = [first % 2**256 >> shift & 2**64 - 1 for shift in (0, 64, 128, 192)]
    return np.random.Philox(counter=np.array(counter, np.uint64), key=[seed, DROPOUT]).random_raw(count)


def norm(x: Array) -> Array:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPS)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(config: GptConfig, qkv: Array) -> Array:
    """qkv (B, T, 3D) → (B, T, D): each head looks at itself and what came before."""
    B, T, _ = qkv.shape
    q, k, v = qkv.reshape(B, T, 3, config.heads, -1).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones((T, T), bool)), scores, -np.inf)
    return (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(B, T, -1)


def logits(config: GptConfig, params: Mapping[str, Array], inputs: Array, step: int = -1) -> Array:
    """inputs (B, T) → (B, T, V); dropout as in training step `step`, or none."""
    keep = keep_masks(config, len(inputs), step)
    x = (params["token"][inputs] + params["position"][: inputs.shape[1]]) * keep[:, 0]
    for i in range(config.layers):
        y = attention(config, norm(x) @ params[f"blocks.{i}.qkv"])
        x = x + y @ params[f"blocks.{i}.out"] * keep[:, 2 * i + 1]
        hidden = np.maximum(norm(x) @ params[f"blocks.{i}.up"], 0) ** 2
        x = x + hidden @ params[f"blocks.{i}.down"] * keep[:, 2 * i + 2]
    return (norm(x) if config.final_norm else x) @ params["head"]


def loss(config: GptConfig, params: Mapping[str, Array], inputs: Array, targets: Array, step: int = -1) -> float:
    """Summed cross-entropy in nats; targets of −1 do not count."""
    chances = softmax(logits(config, params, inputs, step))
    rows, columns = np.nonzero(targets >= 0)
    return float(-np.log(chances[rows, columns, targets[rows, columns]]).sum())
