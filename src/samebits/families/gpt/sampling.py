"""Text from a trained GPT: settings checked, samples set up, tokens turned into text as they come.

Positions are learned, so there is none beyond the context. The rule for longer texts: when the context is full, the
model forgets the older half of it and goes on. What it sees is a function of how many tokens there are, nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.checks import real, refuse, whole
from samebits.devices.cpu.workers import Workers
from samebits.devices.interface import Device
from samebits.errors import SamebitsError
from samebits.families.gpt.decoding import Draw, Request, Texts, generate_worker, scratch_size
from samebits.families.gpt.tokens import Vocabulary
from samebits.families.gpt.transformer import sizes
from samebits.families.gpt.windows import draw_from_windows

if TYPE_CHECKING:
    from samebits.families.gpt.model import GptModel

TOGETHER = 16  # samples in memory at once; whoever asks for more gets them in turns
STRETCH = 16  # tokens between two looks at the keyboard
MOST = 2**31 - 1  # tokens, samples, and the likeliest tokens to choose from


@dataclass(frozen=True)
class Settings:
    """What to draw. Sample i is a function of the model, the prompt, these settings and i."""

    tokens: int = 200
    temperature: float = 0.8
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        vars(self).update(  # plain numbers, whatever types were given: compiled code is made for these
            tokens=whole("tokens", self.tokens, 1, MOST, "set --tokens"),
            temperature=self._real("temperature", "0 (always the likeliest token) or more", "use --temperature 0.8"),
            top_p=self._real("top_p", "above 0 and at most 1 (1: off)", "use --top-p 0.9"),
            top_k=whole("top_k", self.top_k, 0, MOST, "use --top-k 40, or 0 for all"),
            seed=whole("seed", self.seed, 0, 2**63 - 1, "set --seed"),
        )

    def _real(self, name: str, rule: str, remedy: str) -> float:
        value = getattr(self, name)
        found = real(name, value, rule, remedy)
        if found < 0 or (name == "top_p" and not 0 < found <= 1):
            raise refuse(name, value, rule, remedy)
        return found

    def draw(self, vocabulary: Vocabulary) -> Draw:
        end = -1 if vocabulary.end is None else vocabulary.end
        return Draw(self.temperature, self.top_p, self.top_k, self.seed, end)


def prompt_tokens(vocabulary: Vocabulary, prompt: str) -> Array:
    """An empty prompt begins after a line break, or where there is none with the first token: something is needed."""
    if not isinstance(prompt, str):
        raise refuse("prompt", prompt, "a text")
    try:
        return vocabulary.encode(prompt or "\n")
    except SamebitsError as error:
        if prompt:
            raise SamebitsError(f"prompt: {error}") from None
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
        self.config, self.z, self.how = model.config, sizes(model.config), settings.draw(model.vocabulary)
        self.params, self.first_sample, self.prompt = model.weights, first_sample, len(prompt)
        try:
            self.text = np.zeros((samples, len(prompt) + settings.tokens), np.int32)
        except MemoryError:
            rule = f"fewer, for {samples} texts of them to fit into memory"
            raise refuse("tokens", settings.tokens, rule, "set --tokens") from None
        self.text[:, : len(prompt)] = prompt
        self.lengths = np.full(samples, len(prompt), np.int64)
        self.seen = np.zeros((samples, 2), np.int64)
        self.cache = np.zeros((samples, self.z.L, 2, self.z.T, self.z.D), self.params.dtype)
        self.logits = np.zeros((samples, self.z.V), self.params.dtype)

    def advance(self, count: int, device: Device, tally: Tally | None = None) -> None:
        """Up to `count` more tokens of every sample."""
        before, began = int(self.lengths.sum()), time.perf_counter()
        DRAW[device.kind](self, count, device)
        if tally is not None:
            tally.tokens += int(self.lengths.sum()) - before
            tally.seconds += time.perf_counter() - began

    def by_token(self, count: int, workers: Workers) -> None:
        memory = workers.scratch("gpt.decoding").per_worker("block", scratch_size(self.z), self.params.dtype)
        texts = Texts(self.text, self.lengths, self.seen, self.cache, self.logits)
        workers.run(generate_worker, workers.tickets(), texts, self._request(count), self.params, memory, self.z)

    def by_window(self, count: int, device: Device) -> None:
        draw_from_windows(self.config, self.params, self.text, self.lengths, self._request(count), device)

    def _request(self, count: int) -> Request:
        return Request(self.prompt, count, self.first_sample, self.how)

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


DRAW: Mapping[str, Callable[[Decoder, int, Any], None]] = {"cpu": Decoder.by_token, "gpu": Decoder.by_window}
# Who draws a single text: one worker is faster than many that wait for it.
FOR_ONE: Mapping[str, Callable[[Any], AbstractContextManager[Device]]] = {
    "cpu": lambda device: Workers(1),
    "gpu": nullcontext,
}


def generate(
    model: GptModel, prompt: str, settings: Settings, samples: int, device: Device, tally: Tally | None = None
) -> Iterator[str]:
    """The texts of samples 0, 1 …, without the prompt, each when it and its neighbours are done."""
    samples = whole("samples", samples, 1, MOST, "set --samples")
    tokens = prompt_tokens(model.vocabulary, prompt)
    _compile(model, settings, device)
    return _texts(model, tokens, settings, samples, device, tally)


def _compile(model: GptModel, settings: Settings, device: Device) -> None:
    """Compile, or load, what draws: with nothing to draw."""
    Decoder(model, np.zeros(1, np.int32), settings, samples=0).advance(0, device)


def _texts(
    model: GptModel, tokens: Array, settings: Settings, samples: int, device: Device, tally: Tally | None
) -> Iterator[str]:
    for first in range(0, samples, TOGETHER):
        decoder = Decoder(model, tokens, settings, first, min(TOGETHER, samples - first))
        while not decoder.finished:
            decoder.advance(STRETCH, device, tally)
        for sample in range(len(decoder.text)):
            yield model.vocabulary.decode(decoder.drawn(sample))


def stream(
    model: GptModel, prompt: str, settings: Settings, sample: int, device: AbstractContextManager[Device],
    tally: Tally | None = None,
) -> Iterator[str]:  # fmt: skip
    """The text of one sample, token by token as it is drawn: the same text that `generate` gives.

    The device is entered for every token: nothing of the caller's is changed while it holds a piece of text.
    """
    sample = whole("sample", sample, 0, MOST, "name another")
    decoder = Decoder(model, prompt_tokens(model.vocabulary, prompt), settings, sample)
    with device as used:
        _compile(model, settings, used)
    return _pieces(decoder, model.vocabulary, device, tally)


def _pieces(
    decoder: Decoder, vocabulary: Vocabulary, device: AbstractContextManager[Device], tally: Tally | None
) -> Iterator[str]:
    decode = vocabulary.stream()
    while not decoder.finished:
        with device as used:
            decoder.advance(1, used, tally)
        token = int(decoder.text[0, decoder.lengths[0] - 1])
        if token != decoder.how.end and (piece := decode.feed(token)):
            yield piece
    if piece := decode.finish():
        yield piece
