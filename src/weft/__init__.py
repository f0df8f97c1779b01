"""weft trains small, unusual models on every core, and gives the same bits whatever the number of workers."""

import importlib
from types import ModuleType

from weft.api import Run, load, resume, train
from weft.errors import WeftError

__all__ = ["Run", "WeftError", "distance", "load", "resume", "train"]


def __getattr__(name: str) -> ModuleType:
    """weft.distance is imported when it is first used: training does not need it."""
    if name == "distance":
        return importlib.import_module("weft.distance")
    raise AttributeError(f"module 'weft' has no attribute {name!r}")
