"""Train small, unusual models on every core or a GPU, and get the same bits on any, with any number of workers."""

import importlib
from typing import TYPE_CHECKING, Any

from samebits.errors import SamebitsError

if TYPE_CHECKING:
    from samebits import distance
    from samebits.api import Run, load, open_device, resume, train
    from samebits.families.gpt.model import GptModel
    from samebits.families.graph.model import GraphModel
    from samebits.families.logic_ca.model import LogicModel
    from samebits.sweeps import SweepResult, sweep

    __version__: str

__all__ = [
    "GptModel",
    "GraphModel",
    "LogicModel",
    "Run",
    "SamebitsError",
    "SweepResult",
    "__version__",
    "distance",
    "load",
    "open_device",
    "resume",
    "sweep",
    "train",
]
_SWEEPS = ("SweepResult", "sweep")


def __getattr__(name: str) -> Any:
    """Imported when first used: the compiler behind them takes a second to load."""
    if name == "__version__":
        return _version()
    if name == "distance":
        return importlib.import_module("samebits.distance")
    if name in __all__ and name.endswith("Model"):
        return _model(name)
    if name in _SWEEPS:
        return getattr(importlib.import_module("samebits.sweeps"), name)
    if name in __all__:
        return getattr(importlib.import_module("samebits.api"), name)
    raise AttributeError(f"module 'samebits' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is public, for tab completion: also what has not been imported yet, and none of our own modules."""
    return sorted(__all__)


def _model(name: str) -> Any:
    """What one of our families makes its models of."""
    families = importlib.import_module("samebits.families").built_in().values()
    return next(family.model for family in families if getattr(family.model, "__name__", "") == name)


def _version() -> str:
    """That of pyproject.toml, as it was when samebits was installed."""
    from importlib import metadata

    try:
        return metadata.version("samebits")
    except metadata.PackageNotFoundError:  # a checkout that was not installed
        return "0+unknown"
