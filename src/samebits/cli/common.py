"""Options and printing that several verbs share."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from numba.core import event
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from samebits.cli.terminal import say
from samebits.config import TrainConfig, parse_setting
from samebits.engine.cache_folder import refused
from samebits.engine.cluster import rank_and_size
from samebits.engine.device import Device
from samebits.engine.family import Family
from samebits.engine.kernel_cache import KEPT_IN
from samebits.engine.pool import worker_count
from samebits.errors import SamebitsError
from samebits.printing import printable

TaskName = Annotated[str, typer.Argument(help="what to train; see: samebits tasks", metavar="TASK")]
RunPath = Annotated[Path, typer.Argument(help="a run folder that samebits train made", metavar="DIR")]
WorkerOption = Annotated[str, typer.Option("--workers", help="auto (every core) or a number; never changes the result")]
DeviceOption = Annotated[
    str,
    typer.Option("--device", metavar="cpu|gpu|cuda|opencl[:N]", help="what computes; never changes the result"),
]
InexactOption = Annotated[
    bool,
    typer.Option("--inexact", help="use a device that cannot keep the promise of equal bits; what it trains says so"),
]
PresetOption = Annotated[str | None, typer.Option("--preset", help="small or full (default); see: samebits tasks")]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="any config key; repeatable")]
CheckpointOption = Annotated[str, typer.Option("--checkpoint", help="last, best or a step number")]
BatchOption = Annotated[int | None, typer.Option("--batch-size", help="samples a step")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="inputs and masks are drawn from it")]

SECONDS_BETWEEN_LINES = 1.0


def settings_of(pairs: Iterable[str] | None, **named: Any) -> dict[str, Any]:
    """--set pairs and the short options, as config keys; options win."""
    settings = dict(parse_setting(pair) for pair in pairs or ())
    return settings | {key: value for key, value in named.items() if value is not None}


def computed_by(device: Device) -> str:
    """A line for what a device computed that cannot keep the promise; empty for all others."""
    return f"inexact: {device.name} computed this; {', '.join(device.lacks)} not as on the CPU" if device.lacks else ""


def worker_counts(text: str) -> list[int]:
    """A list such as 1,2,3,5."""
    counts = [worker_count(part) for part in text.split(",")]
    if len(set(counts)) != len(counts):
        raise SamebitsError(f"workers is {text!r}; it names a count twice; list each once")
    return counts


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """A table on standard output; numbers to the right."""
    table = Table(title=title and printable(title), title_justify="left", title_style="bold")
    ready = [[printable(str(cell)) for cell in row] for row in rows]
    for index, name in enumerate(columns):
        numeric = bool(ready) and all(_is_number(row[index]) for row in ready)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in ready:
        table.add_row(*row)
    console().print(table)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace(" %", "").replace("×", "").replace("-", "").strip().isdigit()


def console() -> Console:
    """Wide enough that nothing is cut when the output is a file. A user's label may look like markup, and is none."""
    return Console(width=None if sys.stdout.isatty() else 120, markup=False, emoji=False)


def how_often() -> str:
    unused = "".join(f" ({reason})" for reason in refused)
    if KEPT_IN is None:
        return (
            f"every time, for no folder can be written where they would be kept (set SAMEBITS_CACHE_DIR to one){unused}"
        )
    return f"once on this machine{unused}"


class CompilingNotice(event.Listener):  # type: ignore[misc]  # numba has no types
    """Says once, on standard error, why nothing happens for a while: the first use on a machine compiles."""

    SECONDS = 1.0  # of compiling, before it is worth a word

    def __init__(self) -> None:
        self.depth, self.seconds, self.began, self.said = 0, 0.0, 0.0, False

    def on_start(self, compiling: event.Event) -> None:
        if self.depth == 0:
            self.began = time.perf_counter()
        self.depth += 1
        if not self.said and self.seconds + time.perf_counter() - self.began > self.SECONDS:
            self.said = True
            say(f"compiling kernels, {how_often()}: up to a minute")

    def on_end(self, compiling: event.Event) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.perf_counter() - self.began


class ProgressView:
    """Training progress on standard error: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, total: int, work: tuple[str, float] | None = None) -> None:
        self.silent = rank_and_size()[0] > 0  # of several processes one shows it
        self.work = work  # what a step works through, and how many of them
        self.total, self.start, self.began, self.last_line = total, 0, time.perf_counter(), 0.0
        self.bar: Progress | None = None
        self.line = ""  # what stays when the bar goes
        if sys.stderr.isatty() and not self.silent:
            # On a narrow terminal the note is cut, never the bar, the steps or the time left.
            rest = TextColumn("{task.fields[note]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
            columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn(), rest)
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True, expand=True)
            self.task = self.bar.add_task("training", total=total, note="starting")

    def __enter__(self) -> ProgressView:
        if self.bar:
            with suppress(OSError, ValueError):
                self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar:
            with suppress(OSError, ValueError):
                self.bar.stop()
            if self.line:
                say(self.line)

    def __call__(self, step: int, row: Mapping[str, Any]) -> None:
        now = time.perf_counter()
        if self.silent:
            return
        if self.start == 0:
            self.start, self.began = step, now  # the first step compiles
        parts = [f"{name} {value:.5g}" for name, value in row.items() if name != "step" and value is not None]
        if step > self.start:
            pace = (now - self.began) / (step - self.start) * 1e3
            parts += self._speed(pace)
            if not self.bar:  # which has a column for it
                parts.append(f"{pace * (self.total - step) / 1e3:.0f} s left")
        note = "  ".join(parts)
        if row:
            self.line = f"step {step}/{self.total}  {note}"
        if self.bar:
            with suppress(OSError, ValueError):  # the terminal may be gone
                self.bar.update(self.task, completed=step)
                if row:
                    self.bar.update(self.task, note=note)
        elif row and (step in (self.start, self.total) or now - self.last_line >= SECONDS_BETWEEN_LINES):
            self.last_line = now
            say(self.line)

    def _speed(self, pace: float) -> list[str]:
        """Milliseconds a step, and what they come to."""
        done = [f"{1e3 * self.work[1] / pace:,.0f} {self.work[0]}/s"] if self.work and pace > 0 else []
        return [f"{pace:.1f} ms/step", *done]


def work_of(family: Family, config: TrainConfig) -> tuple[str, float] | None:
    """What a step of this config works through, where the family says."""
    work = family.bench.work
    return (work[0], work[1](config)) if work else None
