"""The GPT peer against the model in plain NumPy, until a step has been taken with every part of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from weft.bench.peers import Problem, gpt_torch
from weft.engine.family import Batch

CONFIG = SimpleNamespace(
    layers=2, heads=2, width=8, context=6, vocabulary=11, final_norm=True,
    lr=1e-2, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1, clip_element=0.0, clip_norm=1.0,
)  # fmt: skip
SHAPES = {
    "tokens": (11, 8), "positions": (6, 8), "head": (8, 11),
    **{f"blocks.{i}.{name}": shape for i in range(2)
       for name, shape in (("qkv", (8, 24)), ("out", (8, 8)), ("up", (8, 32)), ("down", (32, 8)))},
}  # fmt: skip


def norm(x):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def loss(params, inputs, targets, config=CONFIG):
    B, T = inputs.shape
    D, H = config.width, config.heads
    x = params["tokens"][inputs] + params["positions"][:T]
    for i in range(config.layers):
        q, k, v = np.split(norm(x) @ params[f"blocks.{i}.qkv"], 3, axis=-1)
        q, k, v = (part.reshape(B, T, H, D // H).transpose(0, 2, 1, 3) for part in (q, k, v))
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(D // H)
        seen = softmax(np.where(np.tri(T, dtype=bool), scores, -np.inf)) @ v
        x = x + seen.transpose(0, 2, 1, 3).reshape(B, T, D) @ params[f"blocks.{i}.out"]
        x = x + np.maximum(norm(x) @ params[f"blocks.{i}.up"], 0) ** 2 @ params[f"blocks.{i}.down"]
    chances = softmax((norm(x) if config.final_norm else x) @ params["head"])
    return -np.log(np.take_along_axis(chances, targets[..., None], axis=-1)).mean()


@pytest.mark.parametrize("final_norm", [True, False])
def test_losses_are_those_of_the_model_and_fall(final_norm):
    config = SimpleNamespace(**{**vars(CONFIG), "final_norm": final_norm})
    draw = np.random.default_rng(0)
    params = {name: draw.normal(0, 0.3, shape) for name, shape in SHAPES.items()}
    inputs, targets = draw.integers(0, 11, (2, 3, 6))
    stepper = gpt_torch.build(Problem(config, params, {}, lambda number: config.lr))
    batch = Batch((inputs, targets), 3, 1.0)
    found = []
    for number in range(3):
        wanted = loss(params, inputs, targets, config)
        found.append(stepper.step(number, batch))
        assert found[-1] == pytest.approx(wanted, rel=1e-5)
        flat, offset = stepper.weights(), 0
        for name, shape in SHAPES.items():
            params[name] = flat[offset : offset + np.prod(shape)].reshape(shape).astype(np.float64)
            offset += int(np.prod(shape))
    assert found[0] > found[1] > found[2]
