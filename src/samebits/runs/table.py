"""metrics.csv and timing.csv: tables that grow a row at a time. A checkpoint knows the length and the hash of the
first, so that rows that were lost or changed are noticed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from samebits import files
from samebits.errors import SamebitsError
from samebits.training.state import TrainState

CHUNK = 1 << 22  # bytes read at once


class Table:
    """A CSV file whose rows are flushed one by one; cut back to a known length when a run goes on from there.

    It is cut with the first new row: a run that has no step left to do keeps the row of its last one. Without a known
    length all of the file stays, unread, and the hash of `sync` is of the new rows alone.
    """

    def __init__(self, path: Path, columns: Sequence[str], length: int | None = None) -> None:
        self.columns = tuple(columns)
        self._file: BinaryIO = files.open_append(path, path.parent)
        self._hash, self._length = hashlib.sha256(), self._file.seek(0, os.SEEK_END)
        if length is not None:
            self._file.seek(0)
            self._hash, self._length = _hash_of(self._file, length)
        if self._length == 0:
            self._write(",".join(self.columns))

    def append(self, row: Mapping[str, Any]) -> None:
        self._write(",".join(_cell(row.get(name)) for name in self.columns))

    def _write(self, line: str) -> None:
        content = f"{line}\n".encode()
        self._file.truncate(self._length)
        self._file.write(content)
        self._file.flush()
        self._hash.update(content)
        self._length += len(content)

    def sync(self) -> tuple[int, str]:
        """Make sure that the rows are on disk; their length in bytes, and their SHA-256."""
        os.fsync(self._file.fileno())
        return self._length, self._hash.hexdigest()

    def close(self) -> None:
        self._file.close()


def _cell(value: Any) -> str:
    return "" if value is None else repr(float(value)) if isinstance(value, float) else str(value)


def _hash_of(file: BinaryIO, length: int) -> tuple[Any, int]:
    """SHA-256 of the first `length` bytes, or of as many as there are, and how many those are; read in parts."""
    found, done = hashlib.sha256(), 0
    while part := file.read(min(CHUNK, length - done)):
        found.update(part)
        done += len(part)
    return found, done


def check_metrics(path: Path, state: TrainState, begin_anew: bool) -> None:
    """Refuse a metrics.csv that is not the one this state was saved with; or keep it beside, for a new one to begin."""
    problem = _difference(path, state)
    if not problem:
        return
    beside = next(
        name for number in range(1, 10**6) if not (name := path.with_stem(f"{path.stem}-changed-{number}")).exists()
    )
    if not begin_anew:
        raise SamebitsError(
            f"{path} {problem}; put the file back, resume from an earlier --checkpoint, or go on with --new-metrics: "
            f"it is then kept as {beside.name}, and a new one begins"
        )
    if path.exists():
        files.rename(path, beside.name)
    state.metrics_bytes, state.metrics_sha256 = 0, None


def _difference(path: Path, state: TrainState) -> str:
    size = path.stat().st_size if path.exists() else 0
    if size < state.metrics_bytes:
        return f"is shorter than its checkpoint says ({size} of {state.metrics_bytes} bytes); rows were lost"
    if state.metrics_sha256 is None or state.metrics_bytes == 0:
        return ""
    with files.open_file(path) as file:
        found = _hash_of(file, state.metrics_bytes)[0].hexdigest()
    if found == state.metrics_sha256:
        return ""
    return f"was changed since step {state.step} was saved: its first {state.metrics_bytes} bytes have another SHA-256"
