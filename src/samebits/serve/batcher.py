"""Continuous batching: the texts of all requests are written together, one token each a step, by one thread.

A text takes a place of its model's batch (parts.TextBatch) when one is free, and leaves it when it is done or
nobody wants it any more, or for a while: when its reader lags behind, or after a turn, if others wait. It comes back by
being read again, which gives the same bits. So what a text says is a function of the model, the prompt, the settings
and its number, and of nobody else who is being served.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.cpu.pool import worker_count
from samebits.devices.cpu.workers import Workers
from samebits.training.parts import NO_TOKEN, TextModel

NO_PLACE = -1
PLACES = 64  # texts written at once, of one model
PLACE_MEMORY = 1 << 29  # bytes of keys and values of one model, at most
TURN = 256  # tokens, after which a text lets others have its place, if any wait
MOST_UNREAD = 256  # tokens that a reader may lag behind before its text is set aside
IDLE_MODELS = 2  # batches kept though nobody uses them, the latest ones


class Written(NamedTuple):
    """A token, and where asked for the natural logarithm of its probability and of the likeliest ones'."""

    token: int
    logprob: float | None = None
    likeliest: tuple[tuple[int, float], ...] = ()


@dataclass(eq=False)
class Text:
    """One text on its way. What is `written` and not taken yet belongs to the event loop; the rest to the batcher."""

    tokens: list[int]  # the prompt, then what was drawn
    how: Any  # what TextModel.draw returned
    sample: int
    most: int  # tokens to draw
    logprobs: int | None  # how many of the likeliest tokens to tell; None: nothing
    fresh: asyncio.Event  # set when there is something to take; several texts of a request may share it
    prompt: int = field(init=False)
    place: int = NO_PLACE
    turn: int = 0  # tokens drawn since it took its place
    sent: int = 0
    taken: int = 0
    unwanted: bool = False
    end: str | None = None  # why it ended, once it has: "stop", "length" or an error
    over: bool = False  # it has ended, and all of it is in `written`
    written: deque[Written] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.prompt = len(self.tokens)

    @property
    def lags(self) -> bool:
        return self.sent - self.taken >= MOST_UNREAD


class Group:
    """The texts of one model."""

    def __init__(self, model: TextModel, workers: Workers) -> None:
        places = int(max(1, min(PLACES, PLACE_MEMORY // model.place_bytes)))
        self.batch, self.free = model.batch(places, workers), list(range(places))
        self.end = model.vocabulary.end
        self.placed: dict[int, Text] = {}
        self.waiting: deque[Text] = deque()

    def arrange(self) -> list[tuple[Text, Written | None]]:
        """Who is done with goes; who lags or had a turn makes room if somebody waits; who waits comes in, in order.

        Returns the texts that could not take a place, which have ended.
        """
        failed: list[tuple[Text, Written | None]] = []
        for text in [text for text in self.placed.values() if text.unwanted or text.end]:
            self._leave(text)
        if not self.waiting:
            return failed
        self.waiting = deque(text for text in self.waiting if not text.unwanted)
        ready = sum(not text.lags for text in self.waiting)
        for text in sorted(self.placed.values(), key=lambda text: (not text.lags, -text.turn)):
            if ready <= len(self.free) or not (text.lags or text.turn >= TURN):
                break
            self._leave(text)
            self.waiting.append(text)
        for text in [text for text in self.waiting if not text.lags][: len(self.free)]:
            self.waiting.remove(text)
            text.place, text.turn = self.free.pop(), 0
            self.placed[text.place] = text
            try:
                self.batch.put(text.place, text.tokens, text.how, text.sample, len(text.tokens) - text.prompt)
            except Exception as error:
                self._leave(text)
                failed += ended([text], reason_of(error))
        return failed

    def _leave(self, text: Text) -> None:
        del self.placed[text.place]
        self.free.append(text.place)
        text.place = NO_PLACE

    def step(self) -> list[tuple[Text, Written | None]]:
        """One token each; None: the text has ended."""
        active = [place for place, text in self.placed.items() if not text.lags]
        drawn = self.batch.step(np.array(active, np.int64)).tolist()
        found: list[tuple[Text, Written | None]] = []
        for place in active:
            text, token = self.placed[place], drawn[place]
            if token == NO_TOKEN:
                continue
            if token == self.end:
                text.end = "stop"
                found.append((text, None))
                continue
            try:
                drawn_token = written(token, self.batch.logits[place], text.logprobs)
            except Exception as error:
                found += ended([text], reason_of(error))
                continue
            text.tokens.append(token)
            text.turn += 1
            text.sent += 1
            found.append((text, drawn_token))
            if len(text.tokens) - text.prompt == text.most:
                text.end = "length"
                found.append((text, None))
        return found

    @property
    def busy(self) -> bool:
        return any(not text.lags for text in self.placed.values())


def written(token: int, logits: Array, logprobs: int | None) -> Written:
    if logprobs is None:
        return Written(token)
    row = logits.astype(np.float64)
    row -= row.max()
    row -= np.log(np.exp(row).sum())
    likeliest = np.argsort(-row, kind="stable")[:logprobs]
    return Written(token, float(row[token]), tuple((int(one), float(row[one])) for one in likeliest))


def ended(texts: Sequence[Text], reason: str) -> list[tuple[Text, Written | None]]:
    """These texts, each ended for this reason, as `deliver` takes them."""
    for text in texts:
        text.end = reason
    return [(text, None) for text in texts]


def reason_of(error: BaseException) -> str:
    return "not enough memory" if isinstance(error, MemoryError) else f"{type(error).__name__}: {error}"


class Batcher:
    """The thread that writes. An error ends the texts that it concerns and no others, and the thread goes on.

    Made, started and stopped by the event loop; all else of it may be called there too.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, workers: int | str = "auto") -> None:
        self.loop, self.workers = loop, worker_count(workers)
        self.groups: dict[Hashable, Group] = {}
        self.new: deque[tuple[Hashable, TextModel, Sequence[Text]]] = deque()
        self.bell, self.closing = threading.Event(), False
        self.over = ""  # why the thread writes no more, once it has ended
        self.thread = threading.Thread(target=self._work, name="samebits-batcher", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def end(self) -> None:
        """Write no more: every text ends where it is."""
        self.closing = True
        self.bell.set()

    def close(self) -> None:
        self.end()
        self.thread.join()

    def submit(self, key: Hashable, model: TextModel, texts: Sequence[Text]) -> None:
        self.new.append((key, model, texts))
        self.bell.set()
        if self.over:  # nobody will look at it
            deliver(self._end_new(self.over))

    def take(self, text: Text) -> list[Written]:
        """All that was written since."""
        lagged = text.lags
        found, text.written = list(text.written), deque()
        text.taken += len(found)
        if lagged and not text.lags:
            self.bell.set()
        return found

    def drop(self, texts: Sequence[Text]) -> None:
        """Nobody wants them any more: their places are free from the next step on."""
        for text in texts:
            text.unwanted = True
        self.bell.set()

    @property
    def placed(self) -> int:
        """Texts that hold a place."""
        return sum(len(group.placed) for group in list(self.groups.values()))

    def _work(self) -> None:
        reason = "the server has ended"
        try:
            with Workers(self.workers) as team:
                while not self.closing:
                    self.bell.clear()  # before looking, so that nothing rung for is missed
                    try:
                        self._advance(team)
                    except Exception as error:  # one that no text could be blamed for
                        self._tell(self._end_all(reason_of(error)))
                    if not any(group.busy for group in self.groups.values()) and not self.new and not self.closing:
                        self.bell.wait()
        except BaseException as error:
            reason = reason_of(error)
            raise
        finally:
            self.over = reason  # before the last look at what is new: who submits looks at it afterwards
            self._tell(self._end_all(reason))

    def _advance(self, team: Workers) -> None:
        """One token for every text that has a place."""
        self._admit(team)
        for key, group in list(self.groups.items()):
            found: list[tuple[Text, Written | None]] = []
            try:
                found += group.arrange()
                if group.busy:
                    found += group.step()
            except Exception as error:
                found += self._give_up(key, reason_of(error))
            self._tell(found)

    def _tell(self, found: list[tuple[Text, Written | None]]) -> None:
        if found:
            self.loop.call_soon_threadsafe(deliver, found)

    def _admit(self, team: Workers) -> None:
        while self.new:
            key, model, texts = self.new.popleft()
            try:
                group = self.groups.pop(key, None) or Group(model, team)
            except Exception as error:
                self._tell(ended(texts, reason_of(error)))
                continue
            self.groups[key] = group  # the latest stand last
            group.waiting.extend(texts)
        idle = [key for key, group in self.groups.items() if not group.placed and not group.waiting]
        for key in idle[: max(0, len(idle) - IDLE_MODELS)]:
            del self.groups[key]

    def _give_up(self, key: Hashable, reason: str) -> list[tuple[Text, Written | None]]:
        """A model that cannot be computed ends its texts, and no others."""
        group = self.groups.pop(key)
        return ended([*group.placed.values(), *group.waiting], reason)

    def _end_new(self, reason: str) -> list[tuple[Text, Written | None]]:
        found = []
        with suppress(IndexError):  # empty; the event loop may take from it as well
            while True:
                found += ended(self.new.popleft()[2], reason)
        return found

    def _end_all(self, reason: str) -> list[tuple[Text, Written | None]]:
        """Every text, of those that wait to be looked at as well."""
        found = self._end_new(reason)
        for key in list(self.groups):
            found += self._give_up(key, reason)
        return found


def deliver(found: Sequence[tuple[Text, Written | None]]) -> None:
    """On the event loop: what a step has written, to those who wait for it."""
    for text, token in found:
        if token is not None:
            text.written.append(token)
        else:
            text.over = True
        text.fresh.set()
