"""Tokens a second with the cache of keys and values, against running the whole context again for every token."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.bench.cases import OURS, ROUNDS, Found, Row, compared, row
from samebits.config import TrainConfig
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families.gpt.config import TASKS, GptConfig
from samebits.families.gpt.family import FAMILY
from samebits.families.gpt.model import GptModel
from samebits.families.gpt.sampling import Decoder, Settings

PRESETS = ("xs", "l")
PROVED = 24  # greedy tokens that must be the same both ways before anything is timed
PROMPT = 8  # tokens
FULL_TOKENS = 8  # timed of the slow way: each costs the same, as the model always fills its context up


def sampling(counts: Sequence[int], configs: Mapping[str, TrainConfig] | None = None) -> Found:
    """Untrained models write their context full, one token a step. One text is written by one worker."""
    chosen = configs or {name: TASKS["gpt"].presets[name] for name in PRESETS}
    rows = [found for name, config in chosen.items() for found in both_ways(name, config)]
    settings = {name: config.model_dump(mode="json") for name, config in chosen.items()}
    return Found(settings, f"{PROVED} greedy tokens, the same both ways", compared(rows))


def both_ways(name: str, config: TrainConfig) -> list[Row]:
    assert isinstance(config, GptConfig)
    config = FAMILY.prepare(config)
    model = GptModel(config, FAMILY.init(config, np.float32), FAMILY.constants(config))
    prompt = np.arange(min(PROMPT, config.context - 1), dtype=np.int32) % config.symbols
    count = config.context - len(prompt)
    with Workers(1) as team:
        proved = min(PROVED, count)
        if not np.array_equal(with_cache(model, prompt, proved, team), full_forward(model, prompt, proved, team)):
            raise SamebitsError(
                "the cache and the full forward pass write different texts; a timing would be meaningless"
            )
        cached, full = [], []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            with_cache(model, prompt, count, team)
            cached.append(count / (time.perf_counter() - began))
            began = time.perf_counter()
            full_forward(model, prompt, FULL_TOKENS, team)
            full.append(FULL_TOKENS / (time.perf_counter() - began))
    case = f"gpt {name} writing, context {config.context}"
    return [row(case, OURS, 1, "tokens/s", cached), row(case, "without the cache", 1, "tokens/s", full)]


def with_cache(model: GptModel, prompt: Array, count: int, team: Workers) -> Array:
    """`count` greedy tokens after the prompt, each from one pass over the weights."""
    decoder = Decoder(model, prompt, Settings(tokens=count, temperature=0.0))
    decoder.advance(count, team)
    return decoder.text[0, len(prompt) :]


def full_forward(model: GptModel, prompt: Array, count: int, team: Workers) -> Array:
    """The same, each from a forward pass over everything before it."""
    text = prompt.copy()
    for _ in range(count):
        following = model.logits(text[None], team)[0, -1].argmax()
        text = np.append(text, np.int32(following))
    return text[len(prompt) :]
