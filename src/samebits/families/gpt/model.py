"""A trained GPT to use from Python: text or tokens in, logits and text out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.checks import array, refuse
from samebits.devices.choose import device_for
from samebits.devices.cpu.workers import Workers, workers_for
from samebits.devices.interface import Device
from samebits.errors import SamebitsError
from samebits.families.gpt import evaluation, sampling
from samebits.families.gpt.config import GptConfig, layout
from samebits.families.gpt.sampling import Settings
from samebits.families.gpt.tokens import Vocabulary
from samebits.families.gpt.windows import LOGITS
from samebits.report.notebook import model_card
from samebits.training.contract import Constants
from samebits.training.params import check_model, views, weights_hash


@dataclass(eq=False)
class GptModel:
    """`params` maps names to arrays; they are views into `weights`."""

    config: GptConfig
    weights: Array  # the flat vector
    constants: Constants
    params: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        check_model(GptConfig, layout, self.config, self.weights, self.constants)
        self.params = {**views(layout(self.config), self.weights), **self.constants}

    def _repr_html_(self) -> str:
        """The model as a notebook shows it."""
        facts = {"context": self.config.context, "width": self.config.width, "layers": self.config.layers}
        return model_card("gpt", facts, self.weights.size, weights_hash(self.weights), self.params)

    def __repr__(self) -> str:
        config = self.config
        shape = f"{config.layers} layers of width {config.width}, context {config.context}, {config.symbols} symbols"
        return f"GptModel({shape}, {self.weights.size:,} weights)"

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.from_arrays(self.constants)

    def logits(self, tokens: Array, workers: int | str | Workers = "auto", device: str | Device = "cpu") -> Array:
        """(B, T, V) for tokens (B, T), T at most the context: position t has seen tokens 0 … t."""
        rule = f"whole numbers (samples, 1 to {self.config.context})"
        found = array("tokens", tokens, "iu", rule, "encode the text with model.vocabulary")
        if found.ndim != 2 or not 1 <= found.shape[1] <= self.config.context:
            raise SamebitsError(f"tokens have shape {found.shape}; they must be {rule}; cut them")
        if found.size and not (found.min() >= 0 and found.max() < self.config.symbols):
            raise SamebitsError(
                f"tokens reach from {found.min()} to {found.max()}; they must lie in 0 to {self.config.symbols - 1}; "
                "encode the text with model.vocabulary"
            )
        # What follows a position does not change it, so a short row is filled up.
        filled = np.zeros((len(found), self.config.context), np.int32)
        filled[:, : found.shape[1]] = found
        with device_for(device, workers) as used:
            return LOGITS[used.kind](self.config, used.upload(self.weights), filled, used)[:, : found.shape[1]]

    def loss(self, text: str, workers: int | str | Workers = "auto") -> float:
        """Nats a token, the mean over a text of two tokens or more: what training logs as `loss`. Its perplexity is
        math.exp of it. Every token but the first is predicted once, from what precedes it in its stretch of context."""
        if not isinstance(text, str):
            raise refuse("text", text, "a text of two tokens or more")
        with workers_for(workers) as team:
            return evaluation.judge(self, [text], team, whole=0)["loss"]

    def generate(
        self, prompt: str = "", *, tokens: int = 200, temperature: float = 0.8, top_p: float = 1.0, top_k: int = 0,
        seed: int = 0, samples: int = 1, workers: int | str | Workers = "auto", device: str | Device = "cpu",
    ) -> list[str]:  # fmt: skip
        """What the model writes after the prompt, once for each sample. Sample i depends on seed and i only, not on how
        many are drawn or by how many workers. Temperature 0 takes the likeliest token; top_p 1 and top_k 0 are off."""
        settings = Settings(tokens, temperature, top_p, top_k, seed)
        with device_for(device, workers) as used:
            return list(sampling.generate(self, prompt, settings, samples, used))

    def stream(
        self, prompt: str = "", *, tokens: int = 200, temperature: float = 0.8, top_p: float = 1.0, top_k: int = 0,
        seed: int = 0, sample: int = 0,
    ) -> Iterator[str]:  # fmt: skip
        """The text of one sample piece by piece, as one core draws it; joined, what `generate` gives for it."""
        chosen = Settings(tokens, temperature, top_p, top_k, seed)
        return sampling.stream(self, prompt, chosen, sample, Workers(1))
