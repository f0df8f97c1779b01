"""Text from a trained GPT: settings checked, samples set up, tokens turned into text as they come.

Positions are learned, so there is none beyond the context. The rule for longer texts: when the context is full, the
model forgets the older half of it and goes on. What it sees is a function of how many tokens there are, nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from samebits.engine.arrays import Array
from samebits.engine.pool import worker_count
from samebits.engine.workers import Workers, workers_for
from samebits.errors import SamebitsError
from samebits.families.gpt.decoding import Draw, generate_worker, scratch_size
from samebits.families.gpt.tokens import Vocabulary
from samebits.families.gpt.transformer import sizes

if TYPE_CHECKING:
    from samebits.families.gpt.model import GptModel

TOGETHER = 16  # samples in memory at once; whoever asks for more gets them in turns
STRETCH = 16  # tokens between two looks at the keyboard


@dataclass(frozen=True)
class Settings:
    """What to draw. Sample i is a function of the model, the prompt, these settings and i."""

    tokens: int = 200
    temperature: float = 0.8
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise SamebitsError(f"tokens is {self.tokens}; it must be at least 1; set --tokens")
        if not 0 <= self.temperature < float("inf"):
            raise SamebitsError(
                f"temperature is {self.temperature}; it must be 0 (always the likeliest token) or more; "
                "use --temperature 0.8"
            )
        if not 0 < self.top_p <= 1:
            raise SamebitsError(f"top_p is {self.top_p}; it must be above 0 and at most 1 (1: off); use --top-p 0.9")
        if self.top_k < 0:
            raise SamebitsError(f"top_k is {self.top_k}; it must be 0 (off) or more; use --top-k 40")
        if not 0 <= self.seed < 2**63:
            raise SamebitsError(f"seed is {self.seed}; it must be from 0 to 2⁶³ − 1; set --seed")

    def draw(self, vocabulary: Vocabulary) -> Draw:
        end = -1 if vocabulary.end is None else vocabulary.end
        return Draw(float(self.temperature), float(self.top_p), self.top_k, self.seed, end)


def prompt_tokens(vocabulary: Vocabulary, prompt: str) -> Array:
    """An empty prompt begins after a line break, or where there is none with the first token: something is needed."""
    try:
        return vocabulary.encode(prompt or "\n")
    except SamebitsError:
        if prompt:
            raise
        return np.zeros(1, np.int32)


@dataclass
class Tally:
    """How fast it went: tokens drawn, prompts read, compiling and showing left out of the seconds."""

    tokens: int = 0
    seconds: float = 0.0


class Decoder:
    """Some samples on their way: their tokens, their caches, and how far each has come."""

    def __init__(
        self, model: GptModel, prompt: Array, settings: Settings, first_sample: int = 0, samples: int = 1
    ) -> None:
        self.z, self.how = sizes(model.config), settings.draw(model.vocabulary)
        self.params, self.first_sample, self.prompt = model.weights, first_sample, len(prompt)
        self.text = np.zeros((samples, len(prompt) + settings.tokens), np.int32)
        self.text[:, : len(prompt)] = prompt
        self.lengths = np.full(samples, len(prompt), np.int64)
        self.seen = np.zeros((samples, 2), np.int64)
        self.cache = np.zeros((samples, self.z.L, 2, self.z.T, self.z.D), self.params.dtype)
        self.logits = np.zeros((samples, self.z.V), self.params.dtype)

    def advance(self, count: int, workers: Workers, tally: Tally | None = None) -> None:
        """Up to `count` more tokens of every sample."""
        before, began = int(self.lengths.sum()), time.perf_counter()
        self._run(count, workers)
        if tally is not None:
            tally.tokens += int(self.lengths.sum()) - before
            tally.seconds += time.perf_counter() - began

    def _run(self, count: int, workers: Workers) -> None:
        memory = workers.scratch("gpt.decoding").per_worker("block", scratch_size(self.z), self.params.dtype)
        workers.run(
            generate_worker, workers.tickets(), self.text, self.lengths, self.seen, self.cache, self.logits,
            self.prompt, count, self.first_sample, self.params, memory, self.how, self.z,
        )  # fmt: skip

    @property
    def finished(self) -> bool:
        full = self.lengths == self.text.shape[1]
        return bool((full | self._ended()).all())

    def _ended(self) -> Array:
        last = self.text[np.arange(len(self.text)), self.lengths - 1]
        return (self.lengths > self.prompt) & (last == self.how.end)

    def drawn(self, sample: int) -> Array:
        """The new tokens of one sample so far, without the one that ended it."""
        found = self.text[sample, self.prompt : self.lengths[sample]]
        return found[:-1] if len(found) and found[-1] == self.how.end else found


def generate(
    model: GptModel, prompt: str, settings: Settings, samples: int = 1, workers: int | str | Workers = "auto",
    tally: Tally | None = None,
) -> Iterator[str]:  # fmt: skip
    """The texts of samples 0, 1 …, without the prompt, each when it and its neighbours are done."""
    if samples < 1:
        raise SamebitsError(f"samples is {samples}; it must be at least 1; set --samples")
    if not isinstance(workers, Workers):
        worker_count(workers)  # refuses what is none before anything is compiled
    tokens = prompt_tokens(model.vocabulary, prompt)
    _compile(model, settings)
    return _texts(model, tokens, settings, samples, workers, tally)


def _compile(model: GptModel, settings: Settings) -> None:
    """Compile, or load, what draws: with nothing to draw."""
    with Workers(1) as alone:
        Decoder(model, np.zeros(1, np.int32), settings, samples=0).advance(0, alone)


def _texts(
    model: GptModel, tokens: Array, settings: Settings, samples: int, workers: int | str | Workers, tally: Tally | None
) -> Iterator[str]:
    for first in range(0, samples, TOGETHER):
        decoder = Decoder(model, tokens, settings, first, min(TOGETHER, samples - first))
        with workers_for(workers) as team:
            while not decoder.finished:
                decoder.advance(STRETCH, team, tally)
        for sample in range(len(decoder.text)):
            yield model.vocabulary.decode(decoder.drawn(sample))


def stream(
    model: GptModel, prompt: str, settings: Settings, sample: int = 0, tally: Tally | None = None
) -> Iterator[str]:
    """The text of one sample, token by token as it is drawn: the same text that `generate` gives. One core works."""
    if sample < 0:
        raise SamebitsError(f"sample is {sample}; samples count from 0; name another")
    decoder = Decoder(model, prompt_tokens(model.vocabulary, prompt), settings, sample)
    _compile(model, settings)
    return _pieces(decoder, model.vocabulary, tally)


def _pieces(decoder: Decoder, vocabulary: Vocabulary, tally: Tally | None) -> Iterator[str]:
    # Entered for every token: nothing of the caller's is changed while it holds a piece of text.
    alone, decode = Workers(1), vocabulary.stream()
    while not decoder.finished:
        with alone:
            decoder.advance(1, alone, tally)
        token = int(decoder.text[0, decoder.lengths[0] - 1])
        if token != decoder.how.end and (piece := decode.feed(token)):
            yield piece
    if piece := decode.finish():
        yield piece
