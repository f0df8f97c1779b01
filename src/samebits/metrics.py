"""metrics.csv, read strictly: the one reader for all commands and for the server.

The first line names the columns, the first of them `step`. A row is a whole step and a number for every other column,
or nothing where that was not measured. What follows the last line end is a row that is being written: it is not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import numpy as np

from samebits import files
from samebits.arithmetic.arrays import Array
from samebits.checks import MOST
from samebits.errors import SamebitsError
from samebits.printing import shown

CHUNK = 1 << 22  # bytes read at once
MOST_LINE = 1 << 14  # bytes
MOST_COLUMNS = 200
DAMAGED = "metrics.csv is not as samebits wrote it"
NUMBER = rb"(?:-?(?:\d{1,25}(?:\.\d{1,25})?(?:e[+-]?\d{1,3})?|inf)|nan)?"


def parse_header(line: bytes) -> list[str]:
    """The names of the columns.

    Raises:
        SamebitsError: where it is no first line of a metrics.csv.
    """
    try:
        names = line.decode("utf-8").removesuffix("\n").split(",")
    except UnicodeDecodeError:
        names = [""]
    if names[0] != "step" or not line.endswith(b"\n"):
        raise SamebitsError(f"{DAMAGED}: its first line does not begin with step")
    if len(names) > MOST_COLUMNS or len(set(names)) < len(names) or not all(name.isprintable() for name in names):
        raise SamebitsError(f"{DAMAGED}: its first line must name each column once, and at most {MOST_COLUMNS}")
    return names


def parse_rows(lines: bytes, columns: int) -> Array:
    """Whole lines as an array of rows; an empty cell is NaN. Fast, since there may be a million of them.

    Raises:
        SamebitsError: where a line is no row of so many columns.
    """
    if not lines:
        return np.empty((0, columns))
    if not _rows(columns).fullmatch(lines):
        raise SamebitsError(f"{DAMAGED}: {_wrong(lines, columns)}")
    filled = lines.replace(b",,", b",nan,").replace(b",,", b",nan,").replace(b",\n", b",nan\n")
    found = np.fromstring(filled.replace(b"\n", b","), sep=",").reshape(-1, columns)
    if found[:, 0].max() > MOST:
        raise SamebitsError(f"{DAMAGED}: a step is {found[:, 0].max():.0f}; it must be at most {MOST}")
    if np.isinf(found).sum() != lines.count(b"inf"):
        raise SamebitsError(f"{DAMAGED}: a number is too large for a float64")
    return found


@lru_cache(maxsize=16)
def _rows(columns: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?:\d{1,16}(?:,%b){%d}\n)*+" % (NUMBER, columns - 1))


def _wrong(lines: bytes, columns: int) -> str:
    """The first line that is no row, for a message."""
    line = next(line for line in lines.splitlines(keepends=True) if not _rows(columns).fullmatch(line))
    return f"a row is {shown(line.decode('utf-8', 'replace'))}; it must be a step and {columns - 1} numbers"


def whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """What is left of a file, in parts that end with a line."""
    rest = b""
    while chunk := file.read(CHUNK):
        content = rest + chunk
        end = content.rfind(b"\n") + 1
        if end:
            yield content[:end]
        rest = content[end:]
        if len(rest) > MOST_LINE:
            raise SamebitsError(f"{DAMAGED}: a line has more than {MOST_LINE} bytes")


def read_columns(path: Path, inside: Path | None = None) -> dict[str, Array]:
    """A metrics.csv by column.

    Args:
        path: the file.
        inside: the folder below which no link is followed.

    Raises:
        SamebitsError: where it is damaged, or no plain file.
    """
    try:
        with files.open_file(path, inside) as file:
            names = parse_header(file.readline(MOST_LINE))
            parts = [parse_rows(lines, len(names)) for lines in whole_lines(file)]
    except SamebitsError as error:
        raise SamebitsError(f"{path}: {error}; put it back, or go on with: samebits resume --new-metrics") from None
    values = np.concatenate([np.empty((0, len(names))), *parts])
    return dict(zip(names, values.T, strict=True))


def last_row(path: Path, inside: Path | None = None) -> dict[str, float]:
    """The numbers of the last whole row, found from the end: a page over many runs cannot read all of their files."""
    with files.open_file(path, inside) as file:
        names = parse_header(file.readline(MOST_LINE))
        first, size = file.tell(), file.seek(0, 2)
        file.seek(max(first, size - 2 * MOST_LINE))
        lines = file.read()
    whole = lines[: lines.rfind(b"\n") + 1]
    if not whole and len(lines) > MOST_LINE:
        raise SamebitsError(f"{DAMAGED}: a line has more than {MOST_LINE} bytes")
    last = whole[whole.rfind(b"\n", 0, -1) + 1 :]
    rows = parse_rows(last, len(names)).tolist()
    return {name: value for row in rows for name, value in zip(names, row, strict=True) if not math.isnan(value)}
