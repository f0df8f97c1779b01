"""Sums over processes: nodes of the one tree travel, never sums over processes, whose order would be another.

A row is cut into as many slices as there are processes. Everybody sends every slice of its nodes to the one who owns
that slice; the owner finishes the tree there; all gather the results. With one node each, 2 · (P − 1) / P of a row goes
into a process and out of it, which is the least there can be. On one machine nobody sends: everybody reads its slice of
the nodes where they lie, and writes its slice of the result where all read it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import LINE, Array
from samebits.arithmetic.tree import tree_nodes
from samebits.devices.cpu.tree import Node, row_of, waiting_rows
from samebits.devices.interface import Device, Vector


class Links(Protocol):
    """How processes reach each other (cluster.py). Every call is made by all of them, in the same order."""

    rank: int
    size: int
    sent: int  # bytes so far, to others

    @property
    def far(self) -> Links:
        """The same without memory that all of them see."""

    def all_to_all(self, sent: Array, sizes: list[int], received: Array, theirs: list[int]) -> None:
        """Parts of a flat array to every rank, and from every rank a part."""

    def all_gather(self, mine: Array, into: Array) -> None:
        """`mine` of every rank, in their order."""

    def broadcast(self, content: Array) -> None:
        """Rank 0's content into everybody's array."""

    def share(self, shape: tuple[int, ...], dtype: DTypeLike) -> list[Array] | None:
        """An array of zeros for every rank, that all of them see; None where they cannot."""

    def barrier(self) -> None:
        """Return when everybody has called it: what each has written is there for all."""


class Exchange:
    """The root of a tree whose units several processes have computed, each a range of them."""

    def __init__(self, device: Device, links: Links, width: int, most_units: int, dtype: DTypeLike) -> None:
        self.device, self.links, self.width, self.dtype = device, links, width, np.dtype(dtype)
        step = LINE // self.dtype.itemsize  # slices begin at cache lines
        self.slice = -(-width // (links.size * step)) * step
        whole, self._levels = links.size * self.slice, most_units.bit_length()
        self._seen = links.share((waiting_rows(most_units), whole), self.dtype)
        self.mine = device.tree_sum(width, most_units, dtype, self._seen[links.rank] if self._seen else None)
        self.total = device.tree_sum(self.slice, most_units, dtype)
        rows = links.share((whole,), self.dtype)
        self.row = rows[0] if rows else np.zeros(whole, self.dtype)  # gathered
        self._own = slice(links.rank * self.slice, (links.rank + 1) * self.slice)
        self._copy = device.tree_sum(width, 1, dtype)  # a sum of one row: a copy, made by all workers
        self._sent = self._received = np.zeros(0, self.dtype)

    def run(self, ranges: list[tuple[int, int]]) -> Vector:
        """Everybody's nodes, of the ranges of units that each of them has summed, to the root: the same on all, and
        everybody's own to change."""
        self.device.join()
        theirs = [tree_nodes(*units) for units in ranges]
        slices = self._look(theirs, self._seen) if self._seen else self._swap(theirs)
        self.total.start()
        for (level, place), row in zip((node for found in theirs for node in found), slices, strict=True):
            self.total.take(Node(level, place, self.device.upload(row)))
        finished = self.total.finish()
        self.device.join()
        if not self._seen:
            self.links.all_gather(self.device.download(finished), self.row)
            return self.device.upload(self.row[: self.width])
        self.row[self._own] = finished
        self.links.barrier()
        self._copy.start()
        self._copy.push(self.row[None, : self.width], 1)
        return self._copy.finish()

    def _look(self, theirs: list[list[tuple[int, int]]], seen: list[Array]) -> list[Array]:
        """Our slice of everybody's nodes, where they lie: good until all have finished theirs."""
        links, length = self.links, self.slice
        links.barrier()
        links.sent += (links.size - 1) * length * self.dtype.itemsize * (len(theirs[links.rank]) + 1)  # read by others
        return [
            memory[row_of(level, place, self._levels), self._own]
            for memory, nodes in zip(seen, theirs, strict=True)
            for level, place in nodes
        ]

    def _swap(self, theirs: list[list[tuple[int, int]]]) -> Array:
        """Our slice of everybody's nodes, sent to us."""
        links, length, nodes = self.links, self.slice, self.mine.nodes()
        mine, everybody = len(nodes), sum(map(len, theirs))
        self._sent = grown(self._sent, mine * self.row.size)
        self._received = grown(self._received, everybody * length)
        sent = self._sent[: mine * self.row.size].reshape(links.size, mine, length)
        for index, node in enumerate(nodes):
            whole = self.device.download(node.row)
            for owner in range(links.size):
                part = whole[owner * length : (owner + 1) * length]
                sent[owner, index, : len(part)] = part
        received = self._received[: everybody * length]
        links.all_to_all(
            sent.reshape(-1), [mine * length] * links.size, received, [len(found) * length for found in theirs]
        )
        return received.reshape(everybody, length)


def grown(memory: Array, size: int) -> Array:
    return memory if memory.size >= size else np.zeros(size, memory.dtype)
