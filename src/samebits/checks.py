"""Checks of what somebody passes in: the error names the argument, the value and the rule."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.errors import SamebitsError
from samebits.printing import shown

MOST = 2**53  # beyond any count that a run can reach; every whole number up to it is exact in every file format
NO_REALS = (bool, np.timedelta64)  # though Python and NumPy count them among the numbers


def index_of(value: Any) -> int | None:
    """The whole number that a value is, whatever type of them; None where it is none, as True and False are."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def whole(name: str, value: Any, least: int = 0, most: int = MOST, remedy: str = "") -> int:
    """A whole number within bounds."""
    found = index_of(value)
    if found is None or not least <= found <= most:
        raise SamebitsError(_told(name, value, f"a whole number from {least} to {_limit(most)}", remedy))
    return found


def real(name: str, value: Any, rule: str, remedy: str = "") -> float:
    """A finite number; what else the rule says is for the caller to check (`refuse`). True and False are none."""
    plain = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    try:
        found = float(plain) if isinstance(plain, Real | Decimal) and not isinstance(plain, NO_REALS) else None
    except (TypeError, ValueError, OverflowError):  # such as Decimal("sNaN") and 10**400
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
    if not isinstance(value, bool | np.bool_):
        raise SamebitsError(_told(name, value, "True or False", ""))
    return bool(value)


def row(name: str, value: Any, rule: str, remedy: str = "", letters: bool = False) -> list[Any]:
    """The items of a list, a tuple, an array or the like, in their order; of a text where its letters may be meant."""
    unordered = isinstance(value, Mapping | Set | bytes | bytearray | memoryview)
    try:
        if not unordered and (letters or not isinstance(value, str)):
            return list(value)
    except TypeError:
        pass
    raise SamebitsError(_told(name, value, rule, remedy))


def array(name: str, value: Any, kinds: str, rule: str, remedy: str = "") -> Array:
    """What NumPy makes of it, if it is empty or its type is of these kinds ("biuf": bits, whole numbers, floats).

    Texts of digits, which NumPy would convert, are refused.
    """
    found = None
    if isinstance(value, Real | Sequence) or hasattr(value, "__array__"):  # NumPy looks into more, such as graphs
        with suppress(Exception):  # rows of unequal length, and what a stranger's object does
            found = np.asarray(value)
    if found is None or (found.size and found.dtype.kind not in kinds):
        raise SamebitsError(_told(name, value, rule, remedy))
    return found


def path(name: str, value: Any) -> Path:
    """A path as somebody typed it, ~ included. One that cannot be written down in config.toml is refused."""
    if not isinstance(value, str | os.PathLike) or value == "":
        raise SamebitsError(_told(name, value, "a path", "give it as a text or a pathlib.Path"))
    try:
        found = Path(text(name, os.fspath(value), "rename it")).expanduser()
        found.exists()
    except RuntimeError:
        raise SamebitsError(_told(name, value, "a path whose ~ is a user of this machine", "spell it out")) from None
    except OSError as error:
        rule = f"a path that can be looked up ({error.strerror})"
        raise SamebitsError(_told(name, value, rule, "name another")) from None
    return found


def parse_grid(text: str) -> tuple[int, int]:
    """Height and width of a text such as 64x64."""
    found = re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text.strip().lower())
    if not found:
        raise SamebitsError(f"grid is {shown(text)}; it must be HEIGHTxWIDTH; for example --grid 64x64")
    return int(found[1]), int(found[2])


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
