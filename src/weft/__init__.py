"""weft trains small, unusual models on every core, and gives the same bits whatever the number of workers."""

from weft.api import Run, load, resume, train
from weft.errors import WeftError

__all__ = ["Run", "WeftError", "load", "resume", "train"]
