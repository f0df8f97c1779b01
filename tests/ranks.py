"""Processes that are threads: the exchange of several ranks, without a network and in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from samebits.groups.exchange import Links


class Hub:
    """Where the ranks of a test meet."""

    def __init__(self, size: int) -> None:
        self.size, self.barrier, self.posted = size, threading.Barrier(size), [None] * size

    def swap(self, rank: int, value: Any) -> list[Any]:
        self.posted[rank] = value
        self.barrier.wait()
        found = list(self.posted)
        self.barrier.wait()
        return found


class ThreadLinks(Links):
    def __init__(self, hub: Hub, rank: int, near: bool) -> None:
        self.hub, self.rank, self.size, self.sent, self.near = hub, rank, hub.size, 0, near

    @property
    def far(self):
        return ThreadLinks(self.hub, self.rank, False)

    def all_to_all(self, sent, sizes, received, theirs):
        assert sent.size == sum(sizes)
        assert received.size == sum(theirs)
        parts = np.split(sent.copy(), np.cumsum(sizes)[:-1])
        for_me = [row[self.rank] for row in self.hub.swap(self.rank, parts)]
        assert [part.size for part in for_me] == theirs
        received[:] = np.concatenate(for_me)
        self.sent += sum(part.nbytes for rank, part in enumerate(parts) if rank != self.rank)

    def all_gather(self, mine, into):
        into[:] = np.concatenate(self.hub.swap(self.rank, mine.copy().reshape(-1)))
        self.sent += mine.nbytes * (self.size - 1)

    def broadcast(self, content):
        content[:] = self.hub.swap(self.rank, content.copy())[0]

    def share(self, shape, dtype):
        return self.hub.swap(self.rank, np.zeros(shape, dtype)) if self.near else None

    def barrier(self):
        self.hub.barrier.wait()


def on_ranks(size: int, work: Callable[[ThreadLinks], Any], near: bool = False) -> list[Any]:
    """What `work` gives on every rank; `near` ranks see each other's memory."""
    hub, found, problems = Hub(size), [None] * size, []

    def run(rank: int) -> None:
        try:
            found[rank] = work(ThreadLinks(hub, rank, near))
        except BaseException as problem:
            problems.append(problem)
            hub.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for problem in sorted(problems, key=lambda problem: isinstance(problem, threading.BrokenBarrierError)):
        raise problem
    return found
