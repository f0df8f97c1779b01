"""The fixed tree: node (0, i) is unit i, node (l, i) = node (l−1, 2i) + node (l−1, 2i+1), and a missing right child
passes the left one on unchanged. Which numbers are added to which never depends on workers or waves.

Rows arrive wave by wave and fold like a binary counter: a finished node of level l waits in `partial[l]` for its right
sibling. A sum may begin at any unit: then a node whose left sibling lies before the beginning waits as well, in
`partial[levels + l]`, for whoever has that one; `nodes` hands out what waits, `take` takes in what others computed. The
work is cut over slices of the row, of fixed length. Where rows are short, whoever computes them folds the lowest levels
at once (fold_up), while they are in its cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array, aligned
from samebits.arithmetic.tree import tree_nodes
from samebits.compiler.jit import kernel
from samebits.devices.cpu.sync import PAD, claim, fetch_add, load_acquire

if TYPE_CHECKING:
    from samebits.devices.cpu.workers import Workers

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
def is_waiting(level: int, odd: bool, begin: int, end: int) -> bool:
    """Whether a sum over the units begin … end has a node of this level that waits: for its right sibling, or, with an
    odd index, for a left one that lies before `begin`. There is at most one of each kind."""
    if odd:
        index = (begin + (1 << level) - 1) >> level
        return bool(index & 1) and (index + 1) << level <= end
    return bool((end >> level) & 1) and ((end >> level) - 1) << level >= begin


class Push(NamedTuple):
    """Rows of the units first, first + 1, …, folded so many levels, for a sum that began at unit `begin`; or one row
    that is a node of level_given, if that is not negative."""

    rows: Array
    begin: int
    first: int
    folded: int
    level_given: int


@kernel
def fold_slice(nodes: Array, partial: Array, pushed: Push, start: int, end: int) -> None:
    """Push rows into the counter, columns start to end.

    A row joins the nodes that wait for it, smallest first, and what comes out waits one level up. All of it happens in
    `nodes` (2 · levels, slice), which stays in the cache; only what still waits at the end goes back to `partial`. The
    usual short chains are one pass each.
    """
    rows, begin, first = pushed.rows, pushed.begin, pushed.first
    folded, level_given = pushed.folded, pushed.level_given
    levels, width = nodes.shape[0] // 2, end - start
    last = first + (rows.shape[0] if level_given < 0 else 1 << level_given)
    for level in range(levels):
        if is_waiting(level, False, begin, first):
            nodes[level, :width] = partial[level, start:end]
    unit = first
    while unit < last:
        # Sliced first, then counted from 0: an index that might be negative is not vectorised.
        row = rows[unit - first, start:end]
        own = level_of(unit, last, folded) if level_given < 0 else level_given
        level = own
        while (unit >> level) & 1 and ((unit >> level) - 1) << level >= begin:
            level += 1
        node = nodes[level + levels if (unit >> level) & 1 else level, :width]
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
        if is_waiting(level, False, begin, last):
            partial[level, start:end] = nodes[level, :width]
        if is_waiting(level, True, begin, last) and not is_waiting(level, True, begin, first):
            partial[levels + level, start:end] = nodes[levels + level, :width]


@kernel
def root_slice(root: Array, partial: Array, count: int, start: int, end: int) -> None:
    """Fold what waits, smallest level first: each is the left sibling of everything below it."""
    total = root[start:end]
    empty = True
    level = 0
    while count >> level:
        if (count >> level) & 1:
            node = partial[level, start:end]
            if empty:
                for j in range(total.size):
                    total[j] = node[j]
                empty = False
            else:
                for j in range(total.size):
                    total[j] = node[j] + total[j]
        level += 1


@kernel
def fold_worker(worker: int, tickets: Array, scratch: Array, levels: int, partial: Array, pushed: Push) -> None:
    width, nodes = pushed.rows.shape[1], scratch[worker].reshape(2 * levels, -1)
    length = nodes.shape[1]
    while True:
        start = claim(tickets) * length
        if start >= width:
            break
        fold_slice(nodes, partial, pushed, start, min(start + length, width))


@kernel
def root_worker(worker: int, tickets: Array, root: Array, partial: Array, count: int) -> None:
    width = root.shape[0]
    while True:
        start = claim(tickets) * SLICE
        if start >= width:
            break
        root_slice(root, partial, count, start, min(start + SLICE, width))


def waiting_rows(most_units: int) -> int:
    return 2 * most_units.bit_length()


def row_of(level: int, place: int, levels: int) -> int:
    """Where a node waits in `partial`: for a right sibling, or, with an odd place, for a left one."""
    return level + levels * (place & 1)


class Node(NamedTuple):
    """Node (level, place) of the tree: the sum over units place · 2^level … (place + 1) · 2^level."""

    level: int
    place: int
    row: Array

    @property
    def units(self) -> tuple[int, int]:
        return self.place << self.level, (self.place + 1) << self.level


class TreeSum:
    """Sums rows by the fixed tree. Allocated once, used every step. What it does is posted, not done."""

    def __init__(
        self, workers: Workers, width: int, most_units: int, dtype: DTypeLike, partial: Array | None = None
    ) -> None:
        """`partial`: memory of `waiting_rows` rows to keep nodes in, for others to look at."""
        self._workers, self._levels = workers, most_units.bit_length()
        self.partial = aligned((self._levels, width), dtype) if partial is None else partial
        self.root = aligned(width, dtype)
        self._slice = SLICE if width < 64 * WIDE_SLICE else WIDE_SLICE
        self.begin = self.end = 0  # the units summed so far

    def start(self, first: int = 0) -> None:
        """Empty; the next row is that of unit `first`."""
        self.begin = self.end = first
        if first and len(self.partial) == self._levels:  # one for each level whose left sibling may be elsewhere
            self.partial = aligned((2 * self._levels, self.root.size), self.root.dtype)

    def push(self, rows: Array, units: int, level: int = 0) -> None:
        """Fold in the next units' rows, in order: a row a unit, folded up to `level` in place (fold_up)."""
        if len(rows) != units:
            raise ValueError(f"{len(rows)} rows of {units} units; here every unit has a row")
        self._fold(rows, units, level, -1)

    def whole(self, rows: Array, units: int, level: int = 0) -> Array:
        """The root of these rows alone."""
        self.start()
        self.push(rows, units, level)
        return self.finish()

    def take(self, node: Node) -> None:
        """Fold in a node that somebody else has summed: the one that begins where this sum ends."""
        if node.units[0] != self.end:
            raise ValueError(f"the node begins at unit {node.units[0]}; this sum ends at {self.end}")
        self._fold(node.row.reshape(1, -1), 1 << node.level, 0, node.level)

    def _fold(self, rows: Array, units: int, folded: int, level: int) -> None:
        if self.end + units >= 1 << self._levels:
            raise ValueError(f"{self.end + units} units; this sum was made for fewer")
        workers, size = self._workers, 2 * self._levels * self._slice
        workers.post(
            fold_worker, workers.tickets(), workers.scratch("merge").per_worker("nodes", size, rows.dtype),
            self._levels, self.partial, Push(rows, self.begin, self.end, folded, level),
            alone=rows.size >> folded < LITTLE,
        )  # fmt: skip
        self.end += units

    def nodes(self) -> list[Node]:
        """What waits, from left to right: as few nodes of the tree as make up the units summed. Good after a join."""
        return [
            Node(level, place, self.partial[row_of(level, place, self._levels)])
            for level, place in tree_nodes(self.begin, self.end)
        ]

    def finish(self) -> Array:
        """The root, there once the workers have joined, and good until the next push; and an empty sum."""
        count = self.end
        if self.begin:
            raise ValueError(f"this sum begins at unit {self.begin}; only one that begins at 0 has a root")
        self.start()
        if count.bit_count() == 1:  # a single node waits: it is the root
            return self.partial[count.bit_length() - 1]
        workers = self._workers
        little = self.root.size < LITTLE
        workers.post(root_worker, workers.tickets(), self.root, self.partial, count, alone=little)
        return self.root
