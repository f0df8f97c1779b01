"""Tokens a second with the cache of keys and values, against running the whole context again for every token."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from weft.engine.arrays import Array
from weft.engine.workers import Workers
from weft.errors import WeftError
from weft.families.gpt.config import GptConfig
from weft.families.gpt.family import FAMILY
from weft.families.gpt.model import GptModel
from weft.families.gpt.sampling import Decoder, Settings

PROVED = 24  # greedy tokens that must be the same both ways before anything is timed


def full_forward(model: GptModel, tokens: Array, count: int, team: Workers) -> Array:
    """`count` greedy tokens after `tokens`, each from a forward pass over everything before it."""
    text = tokens.copy()
    for _ in range(count):
        following = model.logits(text[None], team)[0, -1].argmax()
        text = np.append(text, np.int32(following))
    return text[len(tokens) :]


def sampling(config: GptConfig, full_tokens: int = 8) -> dict[str, Any]:
    """An untrained model writes its context full, one token a step, one worker; the same greedy tokens proved first.

    The other way is timed over `full_tokens` tokens only: each costs the same, as the context is always filled up.
    """
    config = FAMILY.prepare(config)
    model = GptModel(config, FAMILY.init(config, np.float32), FAMILY.constants(config))
    prompt = np.arange(min(8, config.context - 1), dtype=np.int32) % config.symbols
    count = config.context - len(prompt)
    with Workers(1) as team:
        decoder = Decoder(model, prompt, Settings(tokens=min(PROVED, count), temperature=0.0))
        decoder.advance(count, team)
        cached = decoder.text[0, len(prompt) :]
        if not np.array_equal(cached, full_forward(model, prompt, len(cached), team)):
            raise WeftError("the cache and the full forward pass write different texts; a timing would be meaningless")
        seconds = []
        for _ in range(3):
            decoder = Decoder(model, prompt, Settings(tokens=count, temperature=0.0))
            began = time.perf_counter()
            decoder.advance(count, team)
            seconds.append(time.perf_counter() - began)
        slow = []
        for _ in range(3):
            began = time.perf_counter()
            full_forward(model, prompt, full_tokens, team)
            slow.append(time.perf_counter() - began)
    fast, full = count / min(seconds), full_tokens / min(slow)
    return {
        "config": config.model_dump(mode="json"),
        "parameters": int(model.weights.size),
        "context": config.context,
        "same_greedy_tokens": len(cached),
        "cached_tokens_per_second": fast,
        "full_forward_tokens_per_second": full,
        "ratio": fast / full,
    }
