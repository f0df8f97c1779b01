"""Checks of what somebody passes in: the error names the argument, the value and the rule."""

from __future__ import annotations

import operator
import os
from pathlib import Path
from typing import Any

from samebits.errors import SamebitsError
from samebits.printing import shown

MOST = 2**53  # beyond any count that a run can reach; every whole number up to it is exact in every file format


def whole(name: str, value: Any, least: int = 0, most: int = MOST, remedy: str = "") -> int:
    """A whole number within bounds, whatever type of them it is; True and False are none."""
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    if found is None or not least <= found <= most:
        raise SamebitsError(_told(name, value, f"a whole number from {least} to {_limit(most)}", remedy))
    return found


def real(name: str, value: Any, rule: str, remedy: str = "") -> float:
    """A finite number; what else the rule says is for the caller to check (`refuse`)."""
    try:
        found = None if isinstance(value, str | bytes | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or not abs(found) < float("inf"):
        raise SamebitsError(_told(name, value, rule, remedy))
    return found


def can_be_written(text: str) -> bool:
    """Whether a file can hold a text, and the system a path of it: no NUL, no halves of characters."""
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def text(name: str, value: Any, remedy: str = "") -> str:
    """A string that can be written down: of whole characters, without NUL."""
    if not isinstance(value, str):
        raise SamebitsError(_told(name, value, "a text", remedy))
    if not can_be_written(value):
        raise SamebitsError(_told(name, value, "a text of whole characters, and none of them NUL", remedy))
    return value


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SamebitsError(_told(name, value, "True or False", ""))
    return value


def path(name: str, value: Any) -> Path:
    """A path as somebody typed it, ~ included. One that cannot be written down in config.toml is refused."""
    if not isinstance(value, str | os.PathLike):
        raise SamebitsError(_told(name, value, "a path", "give it as a text or a pathlib.Path"))
    try:
        return Path(text(name, os.fspath(value), "rename it")).expanduser()
    except RuntimeError:
        raise SamebitsError(_told(name, value, "a path whose ~ is a user of this machine", "spell it out")) from None


def refuse(name: str, value: Any, rule: str, remedy: str = "") -> SamebitsError:
    """The error for a value that breaks a rule, to be raised."""
    return SamebitsError(_told(name, value, rule, remedy))


def _told(name: str, value: Any, rule: str, remedy: str) -> str:
    return f"{name} is {shown(value)}; it must be {rule}" + (f"; {remedy}" if remedy else "")


def _limit(most: int) -> str:
    """Powers of two beyond what one reads as a number are written as such."""
    if most < 2**31 or (most & (most - 1) and (most & (most + 1))):
        return f"{most}"
    power = str(most.bit_length() - (most & (most - 1) == 0)).translate(_RAISED)
    return f"2{power}" if most & (most - 1) == 0 else f"2{power} − 1"


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
