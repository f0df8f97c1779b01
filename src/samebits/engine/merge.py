"""The fixed tree: node (0, i) is unit i, node (l, i) = node (l−1, 2i) + node (l−1, 2i+1), and a missing right child
passes the left one on unchanged. Which numbers are added to which never depends on workers or waves.

Rows arrive wave by wave and fold like a binary counter: `partial[l]` holds the finished node of level l that still
waits for its right sibling. The work is cut over slices of the row, of fixed length. Where rows are short, whoever
computes them folds the lowest levels at once (fold_up), while they are in its cache.
"""

from __future__ import annotations

from numpy.typing import DTypeLike

from samebits.engine.arrays import Array, aligned
from samebits.engine.jit import kernel
from samebits.engine.sync import PAD, claim, fetch_add, load_acquire
from samebits.engine.workers import Workers

SLICE = 1024  # elements; fixed, so that neither sums nor work depend on the worker count
WIDE_SLICE = 4096  # of rows long enough for many of them: longer runs of memory are read faster
LITTLE = 1 << 15  # elements that one worker adds up in the time it takes to wake another


@kernel
def is_awaited(arrivals: Array, unit: int, first: int) -> bool:
    """Whether the left sibling of `unit` is complete: then its row need not be kept, fold_up adds it at once."""
    return bool((first + unit) & 1) and load_acquire(arrivals, unit * PAD) == 1


@kernel
def fold_up(rows: Array, row: Array, arrivals: Array, unit: int, first: int, levels: int) -> None:
    """The row of `unit` is complete: add it to its sibling's if that is too, and so on, at most `levels` up.

    Rows are those of a wave that begins at unit `first` of the step. `row` is the unit's own there, or, for a unit that
    is awaited, any other. The second of two siblings to arrive does the sum, so arrivals, a counter a unit, must start
    at 0. Nodes that reach beyond the wave are left to TreeSum: at its beginning the left sibling never arrives.
    """
    size = 1
    for _ in range(levels):
        left = (first + unit) // (2 * size) * (2 * size) - first
        middle = left + size
        if middle + size > rows.shape[0] or fetch_add(arrivals, middle * PAD, 1) == 0:
            break
        node, right = rows[left], row if middle == unit else rows[middle]
        for j in range(node.size):
            node[j] = node[j] + right[j]
        size *= 2


@kernel
def level_of(unit: int, last: int, levels: int) -> int:
    """How far fold_up has come with the row of `unit`, the left end of its node, in a wave that ends before `last`."""
    level = 0
    while level < levels and (unit >> level) & 1 == 0 and unit + (2 << level) <= last:
        level += 1
    return level


@kernel
def fold_slice(nodes: Array, partial: Array, rows: Array, first: int, folded: int, start: int, end: int) -> None:
    """Push rows (units first, first + 1, …, folded so many levels) into the counter, columns start to end.

    A row joins the nodes that wait for it, smallest first, and what comes out waits one level up. All of it happens in
    `nodes` (levels, slice), which stays in the cache; only what still waits at the end goes back to `partial`. The
    usual short chains are one pass each.
    """
    levels, width, last = partial.shape[0], end - start, first + rows.shape[0]
    for level in range(levels):
        if (first >> level) & 1:
            nodes[level, :width] = partial[level, start:end]
    unit = first
    while unit < last:
        # Sliced first, then counted from 0: an index that might be negative is not vectorised.
        row = rows[unit - first, start:end]
        own = level_of(unit, last, folded)
        level = own
        while (unit >> level) & 1:
            level += 1
        node = nodes[level, :width]
        if level == own:
            for j in range(row.size):
                node[j] = row[j]
        elif level == own + 1:
            p0 = nodes[own, :width]
            for j in range(row.size):
                node[j] = p0[j] + row[j]
        elif level == own + 2:
            p0, p1 = nodes[own, :width], nodes[own + 1, :width]
            for j in range(row.size):
                right = p0[j] + row[j]
                node[j] = p1[j] + right
        else:
            p0, p1, p2 = nodes[own, :width], nodes[own + 1, :width], nodes[own + 2, :width]
            for j in range(row.size):
                right = p0[j] + row[j]
                right = p1[j] + right
                node[j] = p2[j] + right
            for k in range(own + 3, level):
                left = nodes[k, :width]
                for j in range(row.size):
                    node[j] = left[j] + node[j]
        unit += 1 << own
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
def fold_worker(
    worker: int, tickets: Array, scratch: Array, partial: Array, rows: Array, first: int, folded: int
) -> None:
    width, nodes = rows.shape[1], scratch[worker].reshape(partial.shape[0], -1)
    length = nodes.shape[1]
    while True:
        start = claim(tickets) * length
        if start >= width:
            break
        fold_slice(nodes, partial, rows, first, folded, start, min(start + length, width))


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
        self.slice = SLICE if width < 64 * WIDE_SLICE else WIDE_SLICE
        self.count = 0

    def push(self, rows: Array, workers: Workers, folded: int = 0) -> None:
        """Fold in the next units' rows, in order; `folded` is what fold_up was given. Posted, not done."""
        if self.count + len(rows) >= 1 << len(self.partial):
            raise ValueError(f"{self.count + len(rows)} units; this sum was made for fewer")
        scratch = workers.per_worker("nodes", len(self.partial) * self.slice, rows.dtype)
        little = rows.size >> folded < LITTLE
        workers.post(fold_worker, workers.tickets(), scratch, self.partial, rows, self.count, folded, alone=little)
        self.count += len(rows)

    def finish(self, workers: Workers) -> Array:
        """The root, there once the workers have joined, and good until the next push; and an empty counter."""
        count, self.count = self.count, 0
        if count.bit_count() == 1:  # a single node waits: it is the root
            return self.partial[count.bit_length() - 1]
        workers.post(root_worker, workers.tickets(), self.root, self.partial, count, alone=self.root.size < LITTLE)
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
