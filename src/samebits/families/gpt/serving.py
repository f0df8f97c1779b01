"""A GPT as `samebits serve` uses it (training/parts.py, TextModel): the texts of many requests, written together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.cpu.workers import Workers
from samebits.families.gpt.batching import Batch, place_bytes
from samebits.families.gpt.decoding import Draw
from samebits.families.gpt.model import GptModel
from samebits.families.gpt.sampling import Settings, prompt_tokens
from samebits.training.parts import TextModel


class Texts:
    """A GPT as a TextModel."""

    def __init__(self, model: GptModel) -> None:
        self.model, self.vocabulary = model, model.vocabulary
        self.context, self.place_bytes = model.config.context, place_bytes(model)

    def encode(self, prompt: str) -> list[int]:
        tokens: list[int] = prompt_tokens(self.vocabulary, prompt).tolist()
        return tokens

    def draw(self, temperature: float, top_p: float, top_k: int, seed: int) -> Draw:
        return Settings(1, temperature, top_p, top_k, seed).draw(self.vocabulary)

    def logits(self, tokens: Sequence[int], workers: Workers) -> Array:
        found: Array = self.model.logits(np.array([tokens]), workers)[0]
        return found

    def batch(self, places: int, workers: Workers) -> Batch:
        return Batch(self.model, places, workers)


def text_model(model: GptModel) -> TextModel:
    return Texts(model)
