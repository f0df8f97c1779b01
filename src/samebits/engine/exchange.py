"""Sums over processes: nodes of the one tree travel, never sums over processes, whose order would be another.

A row is cut into as many slices as there are processes. Everybody sends every slice of its nodes to the one who owns
that slice; the owner finishes the tree there; all gather the results. With one node each, 2 · (P − 1) / P of a row goes
into a process and out of it, which is the least there can be.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from samebits.engine.arrays import LINE, Array
from samebits.engine.device import Device
from samebits.engine.merge import Node
from samebits.engine.shares import tree_nodes


class Links(Protocol):
    """How processes reach each other (cluster.py). Every call is made by all of them, in the same order."""

    rank: int
    size: int
    sent: int  # bytes so far, to others

    def all_to_all(self, sent: Array, sizes: list[int], received: Array, theirs: list[int]) -> None:
        """Parts of a flat array to every rank, and from every rank a part."""

    def all_gather(self, mine: Array, into: Array) -> None:
        """`mine` of every rank, in their order."""

    def broadcast(self, content: Array) -> None:
        """Rank 0's content into everybody's array."""


class Exchange:
    """The root of a tree whose units several processes have computed, each a range of them."""

    def __init__(self, device: Device, links: Links, width: int, units: int, dtype: DTypeLike) -> None:
        self.device, self.links, self.width, self.dtype = device, links, width, np.dtype(dtype)
        step = LINE // self.dtype.itemsize  # slices begin at cache lines
        self.slice = -(-width // (links.size * step)) * step
        self.total = device.tree_sum(self.slice, units, dtype)
        self.row = np.zeros(links.size * self.slice, dtype)  # gathered
        self._sent = self._received = np.zeros(0, dtype)

    def run(self, nodes: list[Node], ranges: list[tuple[int, int]]) -> Array:
        """Everybody's nodes, of the ranges of units that each of them has, to the root: the same on all of them."""
        links, length = self.links, self.slice
        theirs = [tree_nodes(*units) for units in ranges]
        mine, all_nodes = len(nodes), sum(map(len, theirs))
        self._sent = grown(self._sent, mine * self.row.size)
        self._received = grown(self._received, all_nodes * length)
        sent = self._sent[: mine * self.row.size].reshape(links.size, mine, length)
        for index, node in enumerate(nodes):
            whole = self.device.download(node.row)
            for owner in range(links.size):
                part = whole[owner * length : (owner + 1) * length]
                sent[owner, index, : len(part)] = part
        received = self._received[: all_nodes * length]
        links.all_to_all(
            sent.reshape(-1), [mine * length] * links.size, received, [len(found) * length for found in theirs]
        )
        self.total.start()
        rows = iter(received.reshape(all_nodes, length))
        for level, place in (node for found in theirs for node in found):
            self.total.take(Node(level, place, self.device.upload(next(rows))))
        finished = self.total.finish()
        self.device.join()
        links.all_gather(self.device.download(finished), self.row)
        return self.row[: self.width]


def grown(memory: Array, size: int) -> Array:
    return memory if memory.size >= size else np.zeros(size, memory.dtype)
