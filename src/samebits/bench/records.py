"""Records: what was measured, with which command, on which machine, at which commit.

One file a machine, one record a line, oldest first. Lines are added and never changed; those that newer ones supersede
move, as they are, to the archive's file of the same name.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from io import FileIO
from pathlib import Path
from typing import Any

from samebits.errors import SamebitsError
from samebits.families import discover
from samebits.runs.runfolder import made_with

RESULTS = Path("benchmarks/results")
ARCHIVE = Path("benchmarks/archive")
BESIDE = ("networkx",)  # peers that train nothing
SAYS_NOTHING = ("cpu", "processor")  # in a CPU's name
NEEDED = ("name", "date", "machine")
Record = dict[str, Any]


def machine() -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "physical_cores": physical_cores(),
        "load_average": list(os.getloadavg()),
        **made_with(),
        **peer_versions(),
    }


def peer_versions() -> dict[str, str]:
    """Of the packages behind the peers, where they are installed."""
    names = {
        *BESIDE,
        *(package for family in discover().values() for peer in family.bench.peers for package in peer.needs),
    }
    found = {}
    for name in sorted(names):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def physical_cores() -> int | None:
    """Distinct cores behind the logical CPUs; None where the machine does not tell, as on ARM."""
    try:
        blocks = Path("/proc/cpuinfo").read_text().strip().split("\n\n")
    except OSError:
        return None
    found = set()
    for block in blocks:
        fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in block.splitlines())}
        if "core id" in fields:
            found.add((fields.get("physical id"), fields["core id"]))
    return len(found) or None


def new_record(name: str, content: Record, command: str | None = None) -> Record:
    """`command` measures this alone, where the one given does more."""
    stamp = time.strftime("%Y-%m-%d", time.gmtime())
    command = command or shlex.join(["samebits", *sys.argv[1:]])
    return {"name": name, "date": stamp, "command": command, "machine": machine(), **content}


def file_name(record: Record) -> str:
    """2-cores-intel-xeon-2.80ghz.jsonl, for two cores of an "Intel(R) Xeon(R) Processor @ 2.80GHz"."""
    cores, cpu = record["machine"]["cores"], record["machine"]["cpu"].lower()
    words = re.findall(r"[a-z0-9]+(?:\.[a-z0-9]+)*", re.sub(r"\((?:r|tm)\)", " ", cpu))
    return "-".join([f"{cores}-cores", *(word for word in words if word not in SAYS_NOTHING)]) + ".jsonl"


def write_record(record: Record, folder: Path = RESULTS) -> Path:
    """Add a line to the machine's file: all of it or, where the disk is full, nothing."""
    path = folder / file_name(record)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _held(path) as file:
            _append(file, json.dumps(record).encode() + b"\n")
    except OSError as error:
        raise SamebitsError(
            f"cannot write the record {path} ({error.strerror}); run where benchmarks/results is writable"
        ) from None
    return path


@contextmanager
def _held(path: Path) -> Iterator[FileIO]:
    """The file, opened for appending, and nobody else's for now."""
    while True:
        with path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # While we waited, records may have moved to the archive, and another file taken this one's place.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                yield file
                return


def _append(file: FileIO, lines: bytes) -> None:
    """One call, so that whoever reads meanwhile sees whole lines."""
    end = file.seek(0, os.SEEK_END)
    if end:
        file.seek(end - 1)
        if file.read(1) != b"\n":  # somebody cut the last line short: let it spoil that line alone
            lines = b"\n" + lines
    if file.write(lines) != len(lines):
        file.truncate(end)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(file.fileno())


def set_aside(path: Path, superseded: Callable[[Sequence[Record]], Collection[int]], folder: Path = ARCHIVE) -> bool:
    """Move the lines that `superseded` numbers to the archive; whether there were any.

    A crash in between leaves a line in both files, never in neither, and the next call repairs that.
    """
    there = folder / path.name
    beside = path.with_suffix(".new")
    try:
        with _held(path):
            lines = _lines(path)
            old = set(superseded([_parsed(path, number, line) for number, line in enumerate(lines, start=1)]))
            if not old:
                return False
            folder.mkdir(parents=True, exist_ok=True)
            with _held(there) as file:
                known = set(_lines(there))
                _append(file, b"".join(lines[i] + b"\n" for i in sorted(old) if lines[i] not in known))
            with beside.open("wb") as file_beside:
                file_beside.writelines(line + b"\n" for i, line in enumerate(lines) if i not in old)
                file_beside.flush()
                os.fsync(file_beside.fileno())
            beside.replace(path)
    except OSError as error:
        raise SamebitsError(
            f"cannot move records from {path} to {there} ({error.strerror}); run where both are writable"
        ) from None
    return True


def read_records(path: Path) -> list[Record]:
    """In the order of their lines."""
    try:
        lines = _lines(path)
    except OSError as error:
        raise SamebitsError(
            f"cannot read the records in {path} ({error.strerror}); put it back from the repository"
        ) from None
    return [_parsed(path, number, line) for number, line in enumerate(lines, start=1)]


def _lines(path: Path) -> list[bytes]:
    found = path.read_bytes().split(b"\n")
    return found if found[-1] else found[:-1]


def _parsed(path: Path, number: int, line: bytes) -> Record:
    try:
        record = json.loads(line)
        if not isinstance(record, dict) or not record.keys() >= {*NEEDED}:
            raise ValueError(f"it must be an object with {', '.join(NEEDED)}")
    except ValueError as error:
        raise SamebitsError(
            f"line {number} of {path} is not a record ({error}); put it back from the repository"
        ) from None
    return record


def bench_records(paths: Iterable[Path]) -> list[Record]:
    """Those that `samebits bench` wrote, oldest first."""
    found = [record for path in paths for record in read_records(path) if record["name"].startswith("bench-")]
    return sorted(found, key=lambda record: record["date"])  # a day's records stay in the order of their lines
