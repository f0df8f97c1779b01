"""--processes N: torchrun on this machine, for people who do not know torchrun."""

from __future__ import annotations

import os
import sys
import uuid
from typing import Annotated, Any, NoReturn

import typer

from samebits.checks import whole
from samebits.cli.terminal import say
from samebits.engine.cluster import launched, package
from samebits.errors import SamebitsError

MOST = 1024
RESTARTS = 3  # after a process was killed

ProcessesOption = Annotated[
    str | None,
    typer.Option("--processes", help="share the work among so many processes on this machine; needs PyTorch"),
]


def process_count(text: str) -> int:
    number = int(text) if text.isdecimal() and len(text) < 10 else text
    return whole("processes", number, 1, MOST, "use --processes 2")


def without_processes(words: list[str]) -> list[str]:
    """The command line that each of the processes gets."""
    found, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word == "--processes":
            skip = True
        elif not word.startswith("--processes="):
            found.append(word)
    return found


def launch(processes: str, words: list[str]) -> NoReturn:
    """Run this command on so many processes, wait for it, and end as it ends."""
    count = process_count(processes)
    if launched():
        raise SamebitsError("--processes is for a command that torchrun has not started; leave it out")
    sys.exit(run_group(count, ["-m", "samebits", *words]))


def run_group(count: int, words: list[str]) -> int:
    """Run Python with these arguments on so many processes; the exit code of the first that fails."""
    package()
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    settings: dict[str, Any] = {
        "min_nodes": 1, "max_nodes": 1, "nproc_per_node": count, "run_id": uuid.uuid4().hex, "rdzv_backend": "c10d",
        "rdzv_endpoint": "localhost:0", "max_restarts": RESTARTS, "monitor_interval": 0.1,
    }  # fmt: skip
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does; we have threads of our own
    try:
        elastic_launch(LaunchConfig(**settings), sys.executable)(*words)
    except ChildFailedError as error:
        codes = [failure.exitcode for failure in error.failures.values()]
        return 2 if 2 in codes else 130 if 130 in codes else 1
    except SignalException:
        say("samebits: interrupted; what was saved is in the run folder")
        return 130
    return 0
