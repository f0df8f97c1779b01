"""The one way to print: what data says moves no cursor, and a stream that nobody reads stops nothing."""

from __future__ import annotations

import os
import sys

import typer

from samebits.printing import printable

KEPT = "\n\t"  # control characters that a text may have


def echo(text: object = "", nl: bool = True) -> None:
    """A result, on standard output."""
    typer.echo(printable(str(text), KEPT), nl=nl)


def counted(many: int, what: str) -> str:
    """1 run, 2 runs"""
    return f"{many:,} {what}{'' if many == 1 else 's'}"


def say(text: object) -> None:
    """A line on standard error. It may be closed, or on a full disk: training goes on, without a word from then on."""
    try:
        print(printable(str(text), KEPT), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        mute()


def mute() -> None:
    """Say no more on standard error; what could not be written would be tried again at the end, and change its code."""
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (for the rest of the process)
