"""Options and printing that several verbs share."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column, Table

from samebits.cli.terminal import say
from samebits.cli.waiting import shown as shown_now
from samebits.config import TrainConfig, parse_setting
from samebits.devices.cpu.pool import worker_count
from samebits.devices.interface import Device
from samebits.errors import SamebitsError
from samebits.groups.torchrun import rank_and_size
from samebits.printing import printable
from samebits.training.contract import Family

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
PresetOption = Annotated[
    str | None, typer.Option("--preset", help="small, full (default) or another: samebits tasks TASK")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="any config key (samebits keys TASK); repeatable")
]
CheckpointOption = Annotated[str, typer.Option("--checkpoint", help="last, best or a step number")]
BatchOption = Annotated[int | None, typer.Option("--batch-size", help="samples a step")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="inputs and masks are drawn from it")]

SECONDS_BETWEEN_LINES = 1.0
MARKS = 100  # moments remembered of the steps seen, or a little more


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


class ProgressView:
    """Training progress on standard error: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, total: int, work: tuple[str, float] | None = None) -> None:
        self.silent = rank_and_size()[0] > 0  # of several processes one shows it
        self.work = work  # what a step works through, and how many of them
        self.total, self.start, self.last_line = total, 0, 0.0
        self.marks: deque[tuple[int, float]] = deque()  # (step, when) of the second half of the steps seen
        self.evaluated: dict[str, Any] = {}  # the newest …
        self.evaluated_at = 0  # … and its step
        self.bar: Progress | None = None
        self.line = ""  # what stays when the bar goes
        if sys.stderr.isatty() and not self.silent:
            # On a narrow terminal the note is cut, never the bar, the steps or the time left.
            rest = TextColumn("{task.fields[note]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
            left = TextColumn("{task.fields[left]}", style="progress.remaining")
            columns = (BarColumn(bar_width=10), MofNCompleteColumn(), left, rest)
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True, expand=True)
            self.task = self.bar.add_task("training", total=total, note="starting", left="")

    def __enter__(self) -> ProgressView:
        if self.bar:
            with suppress(OSError, ValueError):
                self.bar.start()
            shown_now.append(self.bar)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar:
            shown_now.remove(self.bar)
            with suppress(OSError, ValueError):
                self.bar.stop()
            if self.line:
                say(self.line)

    def __call__(self, step: int, row: Mapping[str, Any]) -> None:
        now = time.perf_counter()
        if self.silent:
            return
        if self.start == 0:
            self.start = step  # the first step compiles
        pace = self._pace(step, now)
        found = {name: value for name, value in row.items() if name.startswith("eval_") and value is not None}
        if found:
            self.evaluated, self.evaluated_at = self.evaluated | found, step
        parts, left = [], ""
        if pace is not None:
            parts += self._speed(1e3 * pace)
            left = shown_seconds(pace * (self.total - step))
        # What a narrow terminal cuts is the end.
        shown = {**self.evaluated, **{name: value for name, value in row.items() if value is not None}}
        newest = list(self.evaluated)[-1:] if self.evaluated_at < step else []
        last = {name: shown.pop(name) for name in ("lr", "grad_norm") if name in shown}
        for name, value in (shown | last).items():
            if name != "step" and value is not None:
                parts.append(f"{name} {value:.5g}" + (f" (step {self.evaluated_at})" if name in newest else ""))
        note = "  ".join(parts)
        if row:
            self.line = f"step {step}/{self.total}  {note}"
        if self.bar:
            with suppress(OSError, ValueError):  # the terminal may be gone
                self.bar.update(self.task, completed=step, left=left)
                if row:
                    self.bar.update(self.task, note=note)
        elif row and (step in (self.start, self.total) or now - self.last_line >= SECONDS_BETWEEN_LINES):
            self.last_line = now
            say(f"{self.line}  {left} left" if left else self.line)

    def _pace(self, step: int, now: float) -> float | None:
        """Seconds a step, evaluations included, over the second half of the steps seen: the first may be odd ones."""
        if not self.marks or (step - self.marks[-1][0]) * MARKS >= step - self.start:
            self.marks.append((step, now))
        while len(self.marks) > 1 and self.marks[1][0] - self.start <= (step - self.start) / 2:
            self.marks.popleft()
        since, when = self.marks[0]
        return (now - when) / (step - since) if step > since else None

    def _speed(self, pace: float) -> list[str]:
        """Milliseconds a step, and what they come to."""
        done = [f"{1e3 * self.work[1] / pace:,.0f} {self.work[0]}/s"] if self.work and pace > 0 else []
        return [f"{pace:.1f} ms/step", *done]


def shown_seconds(seconds: float) -> str:
    """12 s, 3 min 05 s or 2 h 07 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def work_of(family: Family, config: TrainConfig) -> tuple[str, float] | None:
    """What a step of this config works through, where the family says."""
    work = family.bench.work
    return (work[0], work[1](config)) if work else None
