"""Rules of one bit a cell: Life and its kin, B…/S…, or any table of the 512 neighbourhoods.

A table has a 0 or 1 for every 3×3 neighbourhood: number n is the one whose cells, row by row, are the bits of n, the
most significant first (data.life_patterns).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from samebits import checks
from samebits.arithmetic.arrays import Array
from samebits.errors import SamebitsError

LIFE = "B3/S23"
PICTURES = ("checkerboard", "grow")  # rules that are about the last state, not about every step
NEIGHBOURHOODS = 512
LARGEST_FILE = 1 << 16
CENTRE = 4
SAID = "life, checkerboard, grow, a rule such as B36/S23, 512 digits 0 and 1, one a neighbourhood, or a file"


def read_rule(given: Any) -> str:
    """The rule as a config keeps it: a name, B…/S… in order, or 512 digits."""
    if callable(given):
        patches = (np.arange(NEIGHBOURHOODS)[:, None] >> np.arange(8, -1, -1) & 1).reshape(-1, 3, 3)
        given = [given(patch) for patch in patches]
    if not isinstance(given, str) and (hasattr(given, "__array__") or isinstance(given, list | tuple)):
        table = checks.array("rule", given, "biuf", SAID).reshape(-1)
        if table.size != NEIGHBOURHOODS or not ((table == 0) | (table == 1)).all():
            raise ValueError(f"rule has {table.size} entries; a table has 512, all of them 0 or 1; fix it")
        return "".join("1" if cell else "0" for cell in table)
    if not isinstance(given, str):
        raise ValueError(f"rule is {given!r}; it must be {SAID}; choose one")
    if given in ("life", *PICTURES):
        return given
    found = _parsed(given)
    if found is None and len(given) < NEIGHBOURHOODS:
        found = _parsed(_read(given))
    if found is None:
        raise ValueError(f"rule is {given!r}; it must be {SAID}; choose one")
    return found


def checked_rule(given: Any) -> str:
    """A rule as a config keeps it; raises where it is anything else."""
    found = None
    if isinstance(given, str):
        found = given if given in ("life", *PICTURES) else _parsed(given)
    if found is None:
        raise ValueError(
            f"rule is {given!r}; a config keeps life, checkerboard, grow, B…/S… or 512 digits; give files, "
            "tables and functions to samebits.train"
        )
    return found


def _read(given: str) -> str:
    path = checks.path("rule", given)
    try:
        small = path.is_file() and path.stat().st_size <= LARGEST_FILE
        return path.read_text(encoding="ascii") if small else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _parsed(text: str) -> str | None:
    plain = re.sub(r"[\s,]+", "", text)
    if len(plain) == NEIGHBOURHOODS and set(plain) <= {"0", "1"}:
        return plain
    found = re.fullmatch(r"B([0-8]*)/S([0-8]*)", plain, re.IGNORECASE)
    return "B{}/S{}".format(*("".join(sorted(set(part))) for part in found.groups())) if found else None


def table_of(rule: str) -> Array:
    """(512,) uint8: what becomes of the cell in the middle of every neighbourhood."""
    if len(rule) == NEIGHBOURHOODS:
        return np.array(list(rule), np.uint8)
    found = re.fullmatch(r"B([0-8]*)/S([0-8]*)", LIFE if rule == "life" else rule)
    if not found:
        raise SamebitsError(f"rule is {rule}; it has no table of neighbourhoods; give one such as {LIFE}")
    born, stays = (np.isin(np.arange(9), [int(digit) for digit in part]) for part in found.groups())
    cells = np.arange(NEIGHBOURHOODS)[:, None] >> np.arange(8, -1, -1) & 1
    alive = cells[:, CENTRE] == 1
    around = cells.sum(axis=1) - alive
    return np.where(alive, stays[around], born[around]).astype(np.uint8)


def rollout(rule: str, grids: Array, steps: int) -> Array:
    """Periodic grids (B, H, W, 1) of 0 and 1 after `steps` steps of the rule."""
    table = table_of(rule).astype(grids.dtype)
    shifts = [(y, x) for y in (1, 0, -1) for x in (1, 0, -1)]  # row-major: the upper left neighbour first
    for _ in range(steps):
        bits = grids.astype(np.int64)
        number = np.zeros_like(bits)
        for shift in shifts:
            number = number << 1 | np.roll(bits, shift, axis=(1, 2))
        grids = table[number]
    return grids
