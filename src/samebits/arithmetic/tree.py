"""The fixed tree that every sum over units follows: node (0, i) is unit i, node (l, i) = node (l−1, 2i) + node (l−1,
2i+1), and a missing right child passes the left one on unchanged."""

from __future__ import annotations

from samebits.arithmetic.arrays import Array
from samebits.compiler.jit import kernel


def tree_nodes(first: int, last: int) -> list[tuple[int, int]]:
    """(level, place) of the fewest nodes of the tree that make up these units, from left to right."""
    found = []
    while first < last:
        level = (first & -first).bit_length() - 1 if first else (last - first).bit_length() - 1
        while first + (1 << level) > last:
            level -= 1
        found.append((level, first >> level))
        first += 1 << level
    return found


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
