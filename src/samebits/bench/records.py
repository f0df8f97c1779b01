"""JSON records: what was measured, with which command, on which machine, at which commit."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from samebits.engine.runfolder import made_with
from samebits.errors import SamebitsError
from samebits.families import discover

RESULTS = Path("benchmarks/results")
BESIDE = ("networkx",)  # peers that train nothing
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


def write_record(name: str, content: Record, command: str | None = None, folder: Path = RESULTS) -> Path:
    """A new file; records are never overwritten. `command` measures this alone, where the one given does more."""
    stamp = time.strftime("%Y-%m-%d", time.gmtime())
    command = command or shlex.join(["samebits", *sys.argv[1:]])
    record = {"name": name, "date": stamp, "command": command, "machine": machine(), **content}
    number = 1
    while (path := folder / f"{stamp}-{name}-{number}.json").exists():
        number += 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise SamebitsError(
            f"cannot write the record {path} ({error.strerror}); run where benchmarks/results is writable"
        ) from None
    return path


def read_record(path: Path) -> Record:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise SamebitsError(f"{path} is not a record ({error}); put it back from the repository") from None


def bench_records(paths: Iterable[Path]) -> list[Record]:
    """Those that `samebits bench` wrote, oldest first: by date, then by the number that ends a file's name, if any."""
    found = []
    for path in paths:
        record = read_record(path)
        last = path.stem.rsplit("-", 1)[-1]
        if str(record.get("name")).startswith("bench-"):
            found.append((record["date"], int(last) if last.isdigit() else 0, path.name, record))
    return [record for *_, record in sorted(found, key=lambda item: item[:3])]
