"""Doing one thing with samebits, in this process, and judging how it ended."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer.main

from samebits.cli import main
from samebits.errors import SamebitsError
from tests.fuzz.kinds import BrokenRuleError, Outcome

PROGRESS = re.compile(
    r"minimising for |step \d+/\d+ |compiling kernels|\d[\d,]* tokens, |$"
)  # beside a message on standard error
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
PACKAGE = "/src/samebits/"
PARSER = re.compile(r"Usage: |─ Error ─")  # typer's own form, with what was typed as it was typed
SHOWN = 2000  # characters of output in a report


built_command = cache(typer.main.get_command)  # building the command line anew takes longer than most inputs do


def command(place: Path, *words: object) -> Outcome:
    """One command line through samebits.cli.main. Standard output takes UTF-8 only, as that of a real process."""
    argv = ["samebits", *map(str, words)]
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    code: Any = 0
    with (
        contextlib.chdir(place),
        patch.object(sys, "argv", argv),
        patch.object(typer.main, "get_command", built_command),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    texts = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)]  # type: ignore[attr-defined]
    told = f"$ {shlex.join(argv)[:SHOWN]}\nexit {code}\n{texts[0][:SHOWN]}{texts[1][:SHOWN]}"
    return judged(argv, code, texts[0], texts[1], told)


def judged(argv: list[str], code: Any, out: str, err: str, told: str) -> Outcome:
    """Success, or exit 2 with one message; exit 1 where bits differ."""
    verb = next((word for word in argv[1:] if not word.startswith("-")), "")[:12]
    if code not in (0, None):
        check_refusal(verb, code, out, err, told)
    if not PARSER.search(err):
        check_text(err.replace("\r\n", "\n"), f"stderr of {verb}", told)
    if verb != "sample":  # which writes what its text taught it
        check_text(out, f"stdout of {verb}", told)
    return Outcome(0, 1, told) if code else Outcome(1, 0, told)


def check_refusal(verb: str, code: Any, out: str, err: str, told: str) -> None:
    if "Traceback" in err:
        raise BrokenRuleError("a traceback on standard error", verb, told)
    if code == 1 and verb in ("verify", "doctor") and "DIFFERENT" in out:
        return
    if code != 2:
        raise BrokenRuleError(f"exit {code}", verb, told)
    if PARSER.search(err + out):
        return
    lines = [line for line in re.split(r"\r?\n", err) if not PROGRESS.match(line)]
    if len(lines) != 1 or not lines[0].startswith("samebits: "):
        raise BrokenRuleError("not one line of message", f"{verb}: {masked(err)}", told)


def check_text(text: str, where: str, told: str) -> None:
    """Nothing that moves a cursor. Characters that are merely unprintable here may be a user's own."""
    if found := CONTROL.search(text):
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        raise BrokenRuleError("a control character", f"{where}: {masked(line)}", told)


def masked(text: str) -> str:
    """A message without what differs from input to input."""
    short = re.sub(r"'[^']*'|\"[^\"]*\"|\S*/\S*", "…", text)
    return re.sub(r"\d+", "N", ascii(short))[:40]


def attempt(told: str, names: list[str], function: Callable[[], Any]) -> Outcome:
    """One call from Python: fine, a SamebitsError fit to print, or a TypeError that names an argument."""
    told = told.encode("ascii", "backslashreplace").decode()[:SHOWN]
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            found = function()
    except SamebitsError as error:
        check_message(str(error), frame_of(error), told)
        return Outcome(0, 1, f"{told}\nSamebitsError: {error}")
    except TypeError as error:
        if not any(name in str(error) for name in (*names, "argument")):
            raise
        return Outcome(0, 1, f"{told}\nTypeError: {error}")
    return Outcome(1, 0, f"{told}\n→ {_shown(found)}")


def check_message(message: str, where: str, told: str) -> None:
    if "\n" in message:
        raise BrokenRuleError("not one line of message", where, f"{told}\n{message[:SHOWN]!r}")
    if CONTROL.search(message):
        raise BrokenRuleError("a control character", where, f"{told}\n{message[:SHOWN]!r}")


def frame_of(error: BaseException) -> str:
    """The innermost frame of samebits that an exception went through."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if PACKAGE in frame.filename]
    if not inside:
        return "outside samebits"
    return f"{inside[-1].filename.rpartition(PACKAGE)[2]}:{inside[-1].lineno} in {inside[-1].name}"


def _shown(value: Any) -> str:
    try:
        return repr(value)[:200]
    except Exception as error:
        return f"{type(value).__name__} ({error})"[:200]
