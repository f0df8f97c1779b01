"""While kernels are compiled: at a terminal a line that moves and says what, how many and for how long; elsewhere one
short line, once."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any

from numba.core import event
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from samebits.cli.terminal import say
from samebits.compiler.cache_folder import refused
from samebits.compiler.compile_workers import Progress
from samebits.compiler.kernel_cache import KEPT_IN

shown: list[Any] = []  # bars and tables on the terminal: they make way, for two would write over each other


def how_often() -> str:
    unused = "".join(f" ({reason})" for reason in refused)
    if KEPT_IN is None:
        return (
            f"every time, for no folder can be written where they would be kept (set SAMEBITS_CACHE_DIR to one){unused}"
        )
    return f"once on this machine{unused}"


class CompilingNotice(event.Listener):  # type: ignore[misc]  # numba has no types
    """Says once, on standard error, why nothing happens for a while: the first use on a machine compiles.

    It listens to Numba for what we compile ourselves, and to aside.py for what helpers do.
    """

    SECONDS = 1.0  # of compiling, before it is worth a word

    def __init__(self, moving: bool = False) -> None:
        self.depth, self.seconds, self.began, self.said = 0, 0.0, 0.0, False
        self.moving, self.spinner, self.busy = moving, Spinner("dots"), False
        self.live = Live(self.spinner, console=Console(stderr=True), transient=True)

    def on_start(self, compiling: event.Event) -> None:
        if self.depth == 0:
            self.began = time.perf_counter()
        self.depth += 1
        self._mention(self.seconds + time.perf_counter() - self.began)

    def on_end(self, compiling: event.Event) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.perf_counter() - self.began
        self._note_end()

    def _note_end(self) -> None:
        """Compiling is over; or somebody stops it, and then it stays true that we were at it."""
        self.busy = sys.exc_info()[0] is not None

    def __call__(self, progress: Progress | None) -> None:
        if progress is None:
            self._note_end()
        else:
            self.busy = True
        if not self.moving:
            if progress is not None:
                self._mention(self.seconds + progress.seconds)
            return
        with suppress(OSError, ValueError):  # the terminal may be gone
            if progress is None:
                self._give_way()
            else:
                self._move(progress)

    def _mention(self, seconds: float) -> None:
        if not self.said and seconds > self.SECONDS:
            self.said = True
            say(f"compiling kernels, {how_often()}: up to a minute")

    def _move(self, progress: Progress) -> None:
        if not self.live.is_started:
            for bar in shown:
                bar.stop()
            self.live.start()
        self.spinner.update(text=Text(told(progress), no_wrap=True, overflow="ellipsis"))

    def _give_way(self) -> None:
        if self.live.is_started:
            self.live.stop()
            for bar in shown:
                bar.start()


def told(progress: Progress) -> str:
    """compiling gradient, fold: 3 of 12, 4 s (once on this machine)"""
    names = ", ".join(name.removesuffix("_worker").replace("_", " ") for name in progress.names) or "kernels"
    return f"compiling {names}: {progress.done} of {progress.total}, {progress.seconds:.0f} s ({how_often()})"


def notice(rank: int) -> CompilingNotice:
    """For this process: of several, one moves."""
    return CompilingNotice(moving=rank == 0 and sys.stderr.isatty())
