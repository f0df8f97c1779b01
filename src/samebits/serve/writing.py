"""Tokens as text: pieces as they come, cut at stop sequences, with the probabilities of each token if asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from samebits.serve.batcher import Written
from samebits.training.parts import Vocabulary


def spelt(vocabulary: Vocabulary, token: int) -> str:
    """A token as text; one that is a part of a character as OpenAI spells it."""
    piece = vocabulary.pieces[token]
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)


@dataclass
class Logprobs:
    """The probabilities of some tokens, in OpenAI's columns."""

    tokens: list[str] = field(default_factory=list)
    token_logprobs: list[float | None] = field(default_factory=list)
    top_logprobs: list[dict[str, float] | None] = field(default_factory=list)
    text_offset: list[int] = field(default_factory=list)


@dataclass
class Piece:
    """Some more of a text, and why it ended if it has."""

    text: str
    logprobs: Logprobs
    end: str | None


class Writer:
    """One text from its tokens. What might become a stop sequence is held back until it has or has not."""

    def __init__(self, vocabulary: Vocabulary, stops: Sequence[str], offset: int = 0, logprobs: bool = False) -> None:
        self.vocabulary, self.stops, self.decoder = vocabulary, stops, vocabulary.stream()
        self.logprobs = logprobs  # whether they are wanted
        self.held = ""  # text that is not sent yet
        self.sent = offset  # characters that are
        self.records: list[tuple[int, Written]] = []  # of tokens not sent yet: where each begins
        self.end: str | None = None

    def feed(self, tokens: Sequence[Written], end: str | None) -> Piece:
        """More tokens, and why there will be no others if so."""
        for token in tokens:
            if self.logprobs:
                self.records.append((self.sent + len(self.held), token))
            self.held += self.decoder.feed(token.token)
            if self.stops and (found := self._stopped()):
                self.end = "stop"
                return self._send(found - 1)
        if end is not None:
            self.held += self.decoder.finish()
            found = self._stopped()
            self.end = "stop" if found else end
            return self._send(found - 1 if found else len(self.held))
        return self._send(len(self.held) - self._may_stop())

    def _stopped(self) -> int:
        """1 + where the first stop sequence begins; 0: there is none."""
        places = [place for stop in self.stops if (place := self.held.find(stop)) >= 0]
        return min(places, default=-1) + 1

    def _may_stop(self) -> int:
        """How many of the last characters may be the beginning of a stop sequence."""
        longest = max((len(stop) for stop in self.stops), default=1) - 1
        for count in range(min(longest, len(self.held)), 0, -1):
            if any(stop.startswith(self.held[-count:]) for stop in self.stops):
                return count
        return 0

    def _send(self, count: int) -> Piece:
        text, self.held = self.held[:count], self.held[count:]
        self.sent += count
        whole = self.end is not None and not self.held
        gone = [(at, token) for at, token in self.records if at < self.sent or whole]
        self.records = self.records[len(gone) :]
        return Piece(text, logprobs_of(self.vocabulary, gone), self.end)


def logprobs_of(vocabulary: Vocabulary, records: Sequence[tuple[int, Written]]) -> Logprobs:
    found = Logprobs()
    for at, token in records:
        found.tokens.append(spelt(vocabulary, token.token))
        found.token_logprobs.append(token.logprob)
        likeliest = {spelt(vocabulary, one): value for one, value in token.likeliest}
        found.top_logprobs.append(likeliest if token.logprob is not None else None)
        found.text_offset.append(at)
    return found


def as_json(logprobs: Logprobs) -> dict[str, Any]:
    return vars(logprobs)
