"""The fixed tree: node (0, i) is unit i, node (l, i) = node (l−1, 2i) + node (l−1, 2i+1), and a missing right child
passes the left one on unchanged. Which numbers are added to which never depends on workers or waves.

Rows arrive wave by wave and fold like a binary counter: `partial[l]` holds the finished node of level l that still
waits for its right sibling. The work is cut over slices of the row, of fixed length.
"""

from __future__ import annotations

from numpy.typing import DTypeLike

from weft.engine.arrays import Array, aligned
from weft.engine.jit import kernel
from weft.engine.sync import claim
from weft.engine.workers import Workers

SLICE = 1024  # elements; fixed, so that neither sums nor work depend on the worker count
INLINE_ELEMENTS = 1 << 15  # below this much work a dispatch, some 5 µs, costs more than it saves


@kernel
def fold_slice(nodes: Array, partial: Array, rows: Array, first: int, start: int, end: int) -> None:
    """Push rows (units first, first + 1, …) into the counter, columns start to end.

    A row joins the nodes that wait for it, smallest first, and what comes out waits one level up. All of it happens in
    `nodes` (levels, SLICE), which stays in the cache; only what still waits at the end goes back to `partial`. The
    usual short chains are one pass each.
    """
    levels, width, last = partial.shape[0], end - start, first + rows.shape[0]
    for level in range(levels):
        if (first >> level) & 1:
            nodes[level, :width] = partial[level, start:end]
    for i in range(rows.shape[0]):
        # Sliced first, then counted from 0: an index that might be negative is not vectorised.
        row = rows[i, start:end]
        level = 0
        while ((first + i) >> level) & 1:
            level += 1
        node = nodes[level, :width]
        if level == 0:
            for j in range(row.size):
                node[j] = row[j]
        elif level == 1:
            p0 = nodes[0, :width]
            for j in range(row.size):
                node[j] = p0[j] + row[j]
        elif level == 2:
            p0, p1 = nodes[0, :width], nodes[1, :width]
            for j in range(row.size):
                right = p0[j] + row[j]
                node[j] = p1[j] + right
        else:
            p0, p1, p2 = nodes[0, :width], nodes[1, :width], nodes[2, :width]
            for j in range(row.size):
                right = p0[j] + row[j]
                right = p1[j] + right
                node[j] = p2[j] + right
            for k in range(3, level):
                left = nodes[k, :width]
                for j in range(row.size):
                    node[j] = left[j] + node[j]
    for level in range(levels):
        if (last >> level) & 1:
            partial[level, start:end] = nodes[level, :width]


@kernel
def root_slice(root: Array, partial: Array, count: int, start: int, end: int) -> None:
    """Fold what waits, smallest level first: each is the left sibling of everything below it."""
    total = root[start:end]
    empty = True
    for level in range(partial.shape[0]):
        if (count >> level) & 1:
            node = partial[level, start:end]
            if empty:
                for j in range(total.size):
                    total[j] = node[j]
                empty = False
            else:
                for j in range(total.size):
                    total[j] = node[j] + total[j]


@kernel
def fold_worker(worker: int, tickets: Array, scratch: Array, partial: Array, rows: Array, first: int) -> None:
    width, nodes = rows.shape[1], scratch[worker].reshape(partial.shape[0], SLICE)
    while True:
        start = claim(tickets) * SLICE
        if start >= width:
            break
        fold_slice(nodes, partial, rows, first, start, min(start + SLICE, width))


@kernel
def root_worker(worker: int, tickets: Array, root: Array, partial: Array, count: int) -> None:
    width = root.shape[0]
    while True:
        start = claim(tickets) * SLICE
        if start >= width:
            break
        root_slice(root, partial, count, start, min(start + SLICE, width))


class TreeSum:
    """Sums rows by the fixed tree. Allocated once, used every step."""

    def __init__(self, width: int, most_units: int, dtype: DTypeLike) -> None:
        self.partial = aligned((most_units.bit_length(), width), dtype)
        self.root = aligned(width, dtype)
        self.count = 0

    def push(self, rows: Array, workers: Workers) -> None:
        """Fold in the next units' rows, in order."""
        if self.count + len(rows) >= 1 << len(self.partial):
            raise ValueError(f"{self.count + len(rows)} units; this sum was made for fewer")
        scratch = workers.per_worker("nodes", len(self.partial) * SLICE, rows.dtype)
        if rows.size < INLINE_ELEMENTS:
            fold_worker(0, workers.tickets(), scratch, self.partial, rows, self.count)
        else:
            workers.run(fold_worker, workers.tickets(), scratch, self.partial, rows, self.count)
        self.count += len(rows)

    def finish(self, workers: Workers) -> Array:
        """The root, good until the next push; and an empty counter, ready for the next step."""
        count, self.count = self.count, 0
        if count.bit_count() == 1:  # a single node waits: it is the root
            return self.partial[count.bit_length() - 1]
        if self.root.size < INLINE_ELEMENTS:
            root_worker(0, workers.tickets(), self.root, self.partial, count)
        else:
            workers.run(root_worker, workers.tickets(), self.root, self.partial, count)
        return self.root


@kernel
def sum_tree(values: Array) -> float:
    """The same tree over a vector of float64, in place."""
    n = values.size
    while n > 1:
        half = n // 2
        for i in range(half):
            values[i] = values[2 * i] + values[2 * i + 1]
        if n & 1:
            values[half] = values[n - 1]
        n = (n + 1) // 2
    return values[0]
