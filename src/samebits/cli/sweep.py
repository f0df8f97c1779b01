"""samebits sweep"""

from __future__ import annotations

import math
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from samebits.cli.common import PresetOption, TaskName, print_table
from samebits.cli.terminal import counted, echo, say
from samebits.cli.waiting import shown as shown_now
from samebits.errors import SamebitsError
from samebits.printing import printable
from samebits.sweeping import (
    FAILED,
    GIVEN_UP,
    WAITING,
    Standing,
    Sweep,
    draw,
    job_count,
    label,
    plan,
    progress,
    ranked,
    run_sweep,
    values_of,
)

SHOWN = 10  # runs of a live table


def sweep(
    task: TaskName,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUES", help="values to try: 0..9, or with commas; or a single one"),
    ] = None,
    seeds: Annotated[str | None, typer.Option("--seeds", help="short for --set seed=…")] = None,
    preset: PresetOption = None,
    steps: Annotated[int | None, typer.Option("--steps", help="optimiser steps of each run")] = None,
    jobs: Annotated[str, typer.Option("--jobs", help="auto (every core) or a number: runs side by side")] = "auto",
    out: Annotated[
        Path | None, typer.Option("--out", help="the sweep's folder; default: named by what it does")
    ] = None,
    stop_when: Annotated[
        str | None, typer.Option("--stop-when", help='end a run where this holds: "eval_hard_loss == 0"')
    ] = None,
    halve: Annotated[
        bool, typer.Option("--halve", help="give up the worse half after 1/8, 1/4 and 1/2 of the steps")
    ] = False,
) -> None:
    """Train a task with every combination of some settings, side by side. The same command again goes on."""
    train_sweep(plan(task, choices_of(setting, seeds, steps), preset, out, stop_when, halve), jobs)


def train_sweep(chosen: Sweep, jobs: str) -> None:
    """Begin a sweep or go on with it, to its end."""
    began = time.perf_counter()
    with SweepView(chosen) as view:
        found, finished = run_sweep(chosen, job_count(jobs), view)
    if not finished:
        echo(f"interrupted; every run is saved; the same command goes on, or: samebits resume {quoted(chosen)}")
        raise typer.Exit(130)
    show(chosen, found)
    echo(f"{counted(len(found), 'run')} in {time.perf_counter() - began:.0f} s")
    if failed := [f"{one.index:03d}" for one in found if one.state == FAILED]:
        say(f"samebits: {counted(len(failed), 'run')} of this sweep failed: {', '.join(failed)}; the reasons are above")
        raise typer.Exit(1)


def choices_of(pairs: list[str] | None, seeds: str | None, steps: int | None) -> dict[str, list[Any]]:
    """--set and the short options, as the values of each key."""
    choices: dict[str, list[Any]] = {}
    for pair in (*(pairs or ()), *([f"seed={seeds}"] if seeds else ())):
        key, sign, values = (part.strip() for part in pair.partition("="))
        if not (sign and key and values):
            raise SamebitsError(f"--set is {pair!r}; it must be key=values; for example --set lr=0.03,0.05")
        if key in choices:
            raise SamebitsError(f"{key} is given twice; give all its values at once, with commas")
        choices[key] = values_of(values)
    if steps is not None:
        choices["steps"] = [steps]
    if not choices:
        raise SamebitsError("there is nothing to vary; give --set key=values or --seeds; for example --seeds 0..4")
    return choices


def show(sweep: Sweep, found: Sequence[Standing]) -> None:
    """The end of a sweep: its table, best first, and where the rest lies."""
    best, varied = ranked(found), sweep.varied
    rows = []
    for one in best:
        result = one.state, one.step, shown(one.value), one.weights[:12]
        rows.append((f"{one.index:03d}", *(one.settings[key] for key in varied), *result))
    print_table(("run", *varied, "state", "step", sweep.judged_by, "weights"), rows, f"sweep of {sweep.task}")
    for one in found:
        if one.state == FAILED:
            echo(f"run {one.index:03d} failed: {one.problem}")
    drawn = draw(sweep, found)
    echo(f"sweep {sweep.path}: sweep.csv{', ' + drawn.name if drawn else ''} and a run folder for each")
    if best[0].step:
        echo(f"next: samebits eval {shlex.quote(str(sweep.folder(best[0].index)))}")


def shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.5g}"


def quoted(sweep: Sweep) -> str:
    return shlex.quote(str(sweep.path))


class SweepView:
    """One live table on a terminal, a line for every run that ends elsewhere; on standard error."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, self.told = sweep, set[tuple[int, int, str]]()
        self.live = Live(console=Console(stderr=True), transient=True) if sys.stderr.isatty() else None

    def __enter__(self) -> SweepView:
        if self.live:
            self.live.start()
            shown_now.append(self.live)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            shown_now.remove(self.live)
            with suppress(OSError, ValueError):
                self.live.stop()

    def __call__(self, found: Sequence[Standing]) -> None:
        if self.live:
            with suppress(OSError, ValueError):
                self.live.update(self._table(found))
            return
        for one in found:
            end = one.index, one.step, one.state
            if one.state not in (WAITING, GIVEN_UP) and end not in self.told:
                self.told.add(end)
                problem = f" {one.problem}" if one.problem else ""
                say(f"run {one.index:03d}  {label(one, list(one.settings))}: {one.state} at step {one.step}"
                    f"  {self.sweep.judged_by} {shown(one.value)}{problem}")  # fmt: skip

    def _table(self, found: Sequence[Standing]) -> Group:
        ended = [one for one in found if one.state != WAITING]
        running = [(one, *progress(self.sweep, one.index)) for one in found if one.state == WAITING]
        table = Table("run", "settings", "state", "step", self.sweep.judged_by)
        best = sorted(ended, key=lambda one: (math.isnan(one.value), one.value, one.index))[:SHOWN]
        for one, step, value in [row for row in running if row[1] > 0][:SHOWN]:
            table.add_row(
                f"{one.index:03d}", printable(label(one, list(one.settings))), "trains", str(step), shown(value)
            )
        for one in best:
            cells = one.state, str(one.step), shown(one.value)
            table.add_row(f"{one.index:03d}", printable(label(one, list(one.settings))), *cells)
        return Group(table, Text(f"{len(ended)} of {len(found)} runs have ended"))
