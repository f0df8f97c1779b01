"""A few training steps on several processes: what `samebits verify --processes` and `profile --processes` start.

python -m samebits.verify.ranks REQUEST, on every process; rank 0 writes what it found where the request says.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from samebits import api, files
from samebits.bench.profile import profile
from samebits.devices.choose import device_for
from samebits.errors import SamebitsError
from samebits.groups.launcher import run_group
from samebits.groups.orphans import end_with_launcher
from samebits.groups.torchrun import joined, links_for
from samebits.training.trainer import resolve
from samebits.verify.bits import trained_hashes


@dataclass
class Request:
    """What to do, on all processes alike."""

    what: str  # hashes or profile
    task: str
    preset: str | None
    settings: dict[str, Any]
    workers: int
    steps: int
    device: str = "cpu"
    inexact: bool = False
    answer: str = ""  # the file that rank 0 writes


def ask(processes: int, request: Request) -> Any:
    """The answer of a group of so many processes on this machine."""
    with tempfile.TemporaryDirectory(prefix="samebits-ranks-") as folder:
        request.answer = str(Path(folder) / "answer.json")
        code = run_group(processes, ["-m", "samebits.verify.ranks", json.dumps(asdict(request))])
        if code or not Path(request.answer).exists():
            raise SamebitsError(f"the group of {processes} processes ended with code {code}; what they said is above")
        return json.loads(Path(request.answer).read_text(encoding="utf-8"))


def answer(request: Request) -> None:
    family, _, config = api.configure(request.task, request.preset, request.settings)
    found: Any
    with joined() as links:
        if request.what == "hashes":
            with device_for(request.device, request.workers, request.inexact) as device:
                together = links_for(device, links)
                found = trained_hashes(family, resolve(family, config), device, request.steps, together)
        else:
            found = profile(family, config, request.workers, request.steps, links).record()
        if links is None or links.rank == 0:
            files.write(Path(request.answer), json.dumps(found).encode())


if __name__ == "__main__":
    end_with_launcher()
    answer(Request(**json.loads(sys.argv[1])))
