"""Where vectors live and who does arithmetic on them. A GPU backend will be a second record of the same functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from samebits.engine.arrays import Array, aligned
from samebits.engine.merge import TreeSum
from samebits.engine.optim import AdamW


class Backend(NamedTuple):
    name: str
    empty: Callable[[Any, Any], Array]  # (shape, dtype) → a vector the rest can work on
    tree_sum: type[TreeSum]
    optimiser: type[AdamW]


CPU = Backend("cpu", aligned, TreeSum, AdamW)
