"""A metrics.csv of any length as a curve of a few thousand points: read by offset, thinned as it grows.

Rows are gathered in buckets of equal length, of which the least and the largest number of every column stay, so that no
peak is lost; when there are too many buckets, neighbours become one. Memory and answers do not grow with the file.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from samebits import files
from samebits.arithmetic.arrays import Array
from samebits.metrics import parse_header, parse_rows, whole_lines

BUCKETS = 1024  # at most, and even: two points each
MOST_ROWS = 200  # new rows that are told one by one; with more, the whole curve is told anew


class Thinned:
    """Columns of numbers, the first being the step."""

    def __init__(self, columns: int) -> None:
        self.size = 1  # rows of a bucket
        self.kept = np.empty((0, 4, columns))  # of every bucket: step of the least, the least, step of the largest, it
        self.rest = np.empty((0, columns))  # rows that fill no bucket yet

    def add(self, rows: Array) -> None:
        rows = np.concatenate([self.rest, rows])
        while len(rows) >= self.size:
            if len(self.kept) == BUCKETS:
                self._halve()
                continue
            whole = min(len(rows) // self.size, BUCKETS - len(self.kept))
            taken, rows = rows[: whole * self.size], rows[whole * self.size :]
            self.kept = np.concatenate([self.kept, extremes(taken.reshape(whole, self.size, -1))])
        self.rest = rows

    def _halve(self) -> None:
        pairs = self.kept.reshape(len(self.kept) // 2, 2, 4, -1)
        low, high = pairs[:, :, 1], pairs[:, :, 3]
        least = np.argmin(np.where(np.isnan(low), math.inf, low), axis=1)[:, None, None]
        most = np.argmax(np.where(np.isnan(high), -math.inf, high), axis=1)[:, None, None]
        below = np.take_along_axis(pairs[:, :, :2], least, axis=1)[:, 0]
        above = np.take_along_axis(pairs[:, :, 2:], most, axis=1)[:, 0]
        self.kept, self.size = np.concatenate([below, above], axis=1), 2 * self.size

    def points(self, column: int) -> tuple[list[float], list[float]]:
        """Steps and values of what is left of a column, in order."""
        kept = self.kept[:, :, column]
        if len(self.rest):
            kept = np.concatenate([kept, extremes(self.rest[None])[:, :, column]])
        kept = kept[~np.isnan(kept[:, 1])]
        steps, values = kept[:, [0, 2]], kept[:, [1, 3]]
        order = np.argsort(steps, axis=1, kind="stable")
        steps, values = np.take_along_axis(steps, order, 1), np.take_along_axis(values, order, 1)
        once = np.stack([np.ones(len(steps), bool), steps[:, 0] != steps[:, 1]], axis=1)
        return steps[once].tolist(), values[once].tolist()


def extremes(rows: Array) -> Array:
    """(n, size, columns) → (n, 4, columns): step of the least, the least, step of the largest, the largest; or NaN."""
    steps, seen = rows[:, :, 0], ~np.isnan(rows)
    low = np.argmin(np.where(seen, rows, math.inf), axis=1)
    high = np.argmax(np.where(seen, rows, -math.inf), axis=1)
    values = [np.take_along_axis(rows, at[:, None], axis=1)[:, 0] for at in (low, high)]
    places = [np.take_along_axis(steps, at, axis=1) for at in (low, high)]
    return np.stack([places[0], values[0], places[1], values[1]], axis=1)


class Curve:
    """One metrics.csv as far as it was read. `update` is for one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()

    def _forget(self) -> None:
        self.names: list[str] = []
        self.read, self.rows, self.file = 0, 0, (0, 0)
        self.thinned = Thinned(1)

    def update(self) -> tuple[bool, Array]:
        """Read on. Whether all of it must be told anew, and else the new rows. A file that was cut or replaced, as a
        resumed run's is, is read from its beginning."""
        try:
            source = files.open_file(self.path, self.path.parent)
        except FileNotFoundError:
            again = bool(self.read)
            self._forget()
            return again, np.empty((0, 0))
        again, fresh, count = False, [], 0
        with source:
            found = os.fstat(source.fileno())
            if (found.st_dev, found.st_ino) != self.file or found.st_size < self.read:
                again = bool(self.read)
                self._forget()
                self.file = found.st_dev, found.st_ino
            source.seek(self.read)
            for lines in whole_lines(source):
                rows = self._take(lines)
                self.read += len(lines)
                count += len(rows)
                if count <= MOST_ROWS:
                    fresh.append(rows)
        self.rows += count
        return again or count > MOST_ROWS, np.concatenate(fresh) if fresh else np.empty((0, len(self.names)))

    def _take(self, lines: bytes) -> Array:
        if not self.names:
            cut = lines.find(b"\n") + 1
            self.names, lines = parse_header(lines[:cut]), lines[cut:]
            self.thinned = Thinned(len(self.names))
        rows = parse_rows(lines, len(self.names))
        self.thinned.add(rows)
        return rows

    def told(self) -> dict[str, Any]:
        """All of it: points by column."""
        columns = {}
        for index, name in enumerate(self.names[1:], 1):
            steps, values = self.thinned.points(index)
            if steps:
                columns[name] = {"steps": steps, "values": [plain(value) for value in values]}
        return {"rows": self.rows, "columns": columns}

    def told_rows(self, rows: Array) -> dict[str, Any]:
        """Some rows, as points by column."""
        columns = {}
        for index, name in enumerate(self.names[1:], 1):
            seen = ~np.isnan(rows[:, index])
            if seen.any():
                values = [plain(value) for value in rows[seen, index].tolist()]
                columns[name] = {"steps": rows[seen, 0].tolist(), "values": values}
        return {"rows": self.rows, "columns": columns}


def plain(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None
