"""--processes N: torchrun on this machine, for people who do not know torchrun."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from samebits.checks import whole
from samebits.errors import SamebitsError
from samebits.groups.launcher import run_group
from samebits.groups.torchrun import launched

MOST = 1024

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
