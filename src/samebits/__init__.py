"""samebits trains small, unusual models on every core, and gives the same bits whatever the number of workers."""

import importlib
from typing import TYPE_CHECKING, Any

from samebits.errors import SamebitsError

if TYPE_CHECKING:
    from samebits import distance
    from samebits.api import Run, load, resume, train

    __version__: str

__all__ = ["Run", "SamebitsError", "__version__", "distance", "load", "resume", "train"]


def __getattr__(name: str) -> Any:
    """Imported when first used: the compiler behind them takes a second to load."""
    if name == "__version__":
        return _version()
    if name == "distance":
        return importlib.import_module("samebits.distance")
    if name in __all__:
        return getattr(importlib.import_module("samebits.api"), name)
    raise AttributeError(f"module 'samebits' has no attribute {name!r}")


def _version() -> str:
    """That of pyproject.toml, as it was when samebits was installed."""
    from importlib import metadata

    try:
        return metadata.version("samebits")
    except metadata.PackageNotFoundError:  # a checkout that was not installed
        return "0+unknown"
