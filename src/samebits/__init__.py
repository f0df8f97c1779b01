"""samebits trains small, unusual models on every core, and gives the same bits whatever the number of workers."""

import importlib
from typing import TYPE_CHECKING, Any

from samebits.errors import SamebitsError

if TYPE_CHECKING:
    from samebits import distance
    from samebits.api import Run, load, resume, train

__all__ = ["Run", "SamebitsError", "distance", "load", "resume", "train"]


def __getattr__(name: str) -> Any:
    """Imported when first used: the compiler behind them takes a second to load."""
    if name == "distance":
        return importlib.import_module("samebits.distance")
    if name in __all__:
        return getattr(importlib.import_module("samebits.api"), name)
    raise AttributeError(f"module 'samebits' has no attribute {name!r}")
