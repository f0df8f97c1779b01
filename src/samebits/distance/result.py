"""What a distance call returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from samebits.arithmetic.arrays import Array
from samebits.distance.problem import Problem


@dataclass(frozen=True)
class EditDistance:
    """lower ≤ true distance ≤ upper, and the edit path that costs upper.

    exact says that they are equal. mapping pairs nodes of a with nodes of b: (x, None) is deleted, (None, y) inserted.
    """

    lower: float
    upper: float
    exact: bool
    mapping: tuple[tuple[Any, Any], ...]
    nodes_searched: int

    @property
    def distance(self) -> float:
        """The exact distance, or the best known when the search was stopped."""
        return self.upper


def mapping_of(
    p: Problem, column: Array, names_a: Sequence[Any], names_b: Sequence[Any]
) -> tuple[tuple[Any, Any], ...]:
    """A permutation of rows to columns, in the user's names; a's nodes in order, then what is inserted."""
    pairs = []
    for row, at in enumerate(column.tolist()):
        if row < p.rows or at < p.columns:
            pair = (row if row < p.rows else -1, at if at < p.columns else -1)
            pairs.append(pair[::-1] if p.swapped else pair)
    pairs.sort(key=lambda pair: (pair[0] < 0, pair))
    return tuple((None if i < 0 else names_a[i], None if j < 0 else names_b[j]) for i, j in pairs)
