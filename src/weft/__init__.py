"""weft trains small, unusual models on every core, and gives the same bits whatever the number of workers."""

import importlib
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft import distance
    from weft.api import Run, load, resume, train

__all__ = ["Run", "WeftError", "distance", "load", "resume", "train"]


def __getattr__(name: str) -> Any:
    """Imported when first used: the compiler behind them takes a second to load."""
    if name == "distance":
        return importlib.import_module("weft.distance")
    if name in __all__:
        return getattr(importlib.import_module("weft.api"), name)
    raise AttributeError(f"module 'weft' has no attribute {name!r}")
