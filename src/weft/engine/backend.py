"""Where vectors live and who does arithmetic on them. A GPU backend will be a second record of the same functions."""

from __future__ import annotations

from typing import NamedTuple

from weft.engine.arrays import aligned
from weft.engine.merge import TreeSum
from weft.engine.optim import AdamW
from weft.engine.workers import Workers


class Backend(NamedTuple):
    name: str
    empty: type | object  # (shape, dtype) → array
    workers: type[Workers]
    tree_sum: type[TreeSum]
    optimiser: type[AdamW]


CPU = Backend("cpu", aligned, Workers, TreeSum, AdamW)
