"""What changes, told as it happens by server-sent events. One watcher looks, however many listen."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from samebits.errors import SamebitsError
from samebits.serve.metrics import Curve
from samebits.serve.runs import Library, escaped

RUN_SECONDS = 0.5  # between two looks at a run that is listened to
LIST_SECONDS = 2.0  # and at all of them
BEAT_SECONDS = 15.0  # after which a silent line says that it is still there
MOST_LISTENERS = 256
IDLE_CURVES = 32  # of runs that nobody listens to any more, kept for whoever comes back
MOST_BEHIND = 64  # messages; a listener that lags more is told everything anew

LOG = logging.getLogger("uvicorn.error")  # what the server writes to standard error


class Listener:
    """A queue that never grows: who lags behind loses single messages and gets the whole instead."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[str | None] = asyncio.Queue(MOST_BEHIND)  # None: the server ends
        self.lost: set[Watcher] = set()

    def send(self, source: Watcher, message: str) -> None:
        if source in self.lost:
            return
        try:
            self.queue.put_nowait(message)
        except asyncio.QueueFull:
            self.lost.add(source)


class Watcher:
    """Calls `look` every so often, in a thread, and tells its listeners what it returns."""

    def __init__(self, look: Callable[[], list[str]], whole: Callable[[], list[str]], seconds: float) -> None:
        self.look, self.whole, self.seconds = look, whole, seconds
        self.listeners: set[Listener] = set()
        self.task: asyncio.Task[None] | None = None
        self.looking = asyncio.Lock()

    async def join(self, listener: Listener) -> None:
        async with self.looking:
            for message in await asyncio.to_thread(self._first):
                listener.send(self, message)
            self.listeners.add(listener)
        if self.task is None:
            self.task = asyncio.create_task(self._watch())

    def _first(self) -> list[str]:
        """Everything; those who listen already miss nothing of what is read meanwhile."""
        news = self.look()
        for message in news:
            for other in self.listeners:
                other.send(self, message)
        return self.whole()

    def leave(self, listener: Listener) -> None:
        self.listeners.discard(listener)
        if not self.listeners and self.task is not None:
            self.task.cancel()
            self.task = None

    async def _watch(self) -> None:
        """Look for as long as somebody listens. A look that fails is logged, and the next one is made all the same."""
        while True:
            await asyncio.sleep(self.seconds)
            try:
                async with self.looking:
                    await self._look_and_tell()
            except Exception:
                LOG.exception("a watcher failed; it goes on")

    async def _look_and_tell(self) -> None:
        messages = await asyncio.to_thread(self.look)
        for listener in list(self.listeners):
            if self in listener.lost and listener.queue.qsize() < MOST_BEHIND // 2:
                listener.lost.discard(self)
                messages_now = await asyncio.to_thread(self.whole)
            else:
                messages_now = messages
            for message in messages_now:
                listener.send(self, message)


def message(kind: str, content: Any) -> str:
    return f"event: {kind}\ndata: {escaped(json.dumps(content, allow_nan=False, ensure_ascii=False))}\n\n"


class RunLook:
    """What one run has to tell: its line, its curve, and then what is new of both."""

    def __init__(self, library: Library, name: str) -> None:
        self.library, self.name = library, name
        self.curve = Curve(library.find(name) / "metrics.csv")
        self.told: dict[str, Any] = {}
        self.problem = ""

    def look(self) -> list[str]:
        found = []
        try:
            summary = self.library.refresh(self.name).as_json()
            again, rows = self.curve.update()
        except (SamebitsError, LookupError, OSError) as error:
            return self._tell_problem(str(error))
        except Exception:
            LOG.exception("a look at a run failed; it is made again")
            return self._tell_problem("it cannot be read; the server's log says why")
        self.problem = ""
        if again:
            found.append(message("curve", {"run": self.name, **self.curve.told()}))
        elif len(rows):
            found.append(message("rows", {"run": self.name, **self.curve.told_rows(rows)}))
        if summary != self.told:
            self.told = summary
            found.append(message("run", summary))
        return found

    def _tell_problem(self, problem: str) -> list[str]:
        news = [message("problem", {"run": self.name, "problem": problem})] if problem != self.problem else []
        self.problem = problem
        return news

    def whole(self) -> list[str]:
        found = [message("run", self.told)] if self.told else []
        found.append(message("curve", {"run": self.name, **self.curve.told()}))
        if self.problem:
            found.append(message("problem", {"run": self.name, "problem": self.problem}))
        return found


class ListLook:
    """What the table of runs has to tell: all of them, and then those that changed or went."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.told: dict[str, dict[str, Any]] = {}

    def look(self) -> list[str]:
        now = {summary.id: summary.as_json() for summary in self.library.scan()}
        changed = [summary for name, summary in now.items() if self.told.get(name) != summary]
        gone = [name for name in self.told if name not in now]
        self.told = now
        return [message("runs", {"changed": changed, "gone": gone})] if changed or gone else []

    def whole(self) -> list[str]:
        return [message("all", {"runs": list(self.told.values()), "folders": self.library.shown})]


class Watchers:
    """One watcher for each run that somebody listens to, and one for the table."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.table = ListLook(library)
        self.all = Watcher(self.table.look, self.table.whole, LIST_SECONDS)
        self.runs: dict[str, Watcher] = {}
        self.listeners: set[Listener] = set()

    def end(self) -> None:
        """Tell all who listen that there is no more to come."""
        for listener in self.listeners:
            while listener.queue.full():
                listener.queue.get_nowait()
            listener.queue.put_nowait(None)

    def of(self, name: str) -> Watcher:
        if name not in self.runs:
            look = RunLook(self.library, name)
            self.runs[name] = Watcher(look.look, look.whole, RUN_SECONDS)
        return self.runs[name]

    def add(self) -> Listener | None:
        """One more listener, for `events`; None where there are MOST_LISTENERS already. It is counted from now on."""
        if len(self.listeners) >= MOST_LISTENERS:
            return None
        listener = Listener()
        self.listeners.add(listener)
        return listener

    async def events(self, names: Sequence[str], listener: Listener) -> AsyncIterator[str]:
        """What these runs have to tell, or without names the table of all of them, until the listener goes."""
        watchers = [self.of(name) for name in names] or [self.all]
        try:
            for watcher in watchers:
                await watcher.join(listener)
            told: str | None = ": here\n\n"
            while told is not None:
                yield told
                try:
                    told = await asyncio.wait_for(listener.queue.get(), BEAT_SECONDS)
                except TimeoutError:
                    told = ": still here\n\n"
        finally:
            self.listeners.discard(listener)
            for watcher in watchers:
                watcher.leave(listener)
            idle = [name for name, watcher in self.runs.items() if not watcher.listeners]
            for name in idle[: max(0, len(idle) - IDLE_CURVES)]:
                del self.runs[name]
