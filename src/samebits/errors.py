"""The errors a user can cause or meet. The command line prints them and exits with 2; no traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from samebits.printing import printable


class SamebitsError(Exception):
    """A problem said in one message: the value, the rule, the remedy. One line, whatever the value was."""

    exit_code = 2  # of the command line
    everywhere = False  # all processes of a group raise it alike

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class RunLostError(SamebitsError):
    """What happened to a run while it was training, and was nobody's input."""

    exit_code = 1


class DeviceError(SamebitsError):
    """A device that cannot be used, or no longer."""


class DeviceMemoryError(DeviceError):
    """A device whose memory is too small."""


class GroupLostError(SamebitsError):
    """The other processes of a group are gone, or out of reach."""

    exit_code = 1


def nearest(word: str, known: Iterable[str]) -> str:
    """The part of an error message that helps with a misspelt name."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.55)
    if close:
        return f"did you mean {' or '.join(close)}"
    return f"known: {', '.join(names)}"
