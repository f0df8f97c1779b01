"""samebits tasks"""

from __future__ import annotations

from typing import Annotated

import typer

from samebits.cli.common import console, print_table
from samebits.cli.terminal import echo
from samebits.families import discover, find_task
from samebits.training.contract import Family, Task, parameter_count

SMALL = "tiny and short: shows that all works here, learns little"
NARROW = 80  # columns that a line has to fit


def tasks(
    name: Annotated[str | None, typer.Argument(help="a task: its presets, with their sizes", metavar="[TASK]")] = None,
) -> None:
    """What can be trained, a line a task; or one task's presets, with sizes and what to expect."""
    if name is not None:
        show_presets(name, *find_task(name))
        return
    found = {task: about.summary for family in discover().values() for task, about in family.tasks.items()}
    width = max(map(len, found))
    for task, summary in found.items():
        echo(cut(f"{task:{width}}  {summary}"))
    echo("")
    echo("samebits tasks TASK   its presets      samebits keys TASK   what can be set")
    echo("samebits train TASK   train it         add --preset small   to try it out")


def cut(line: str) -> str:
    return line if len(line) <= NARROW else line[: NARROW - 1] + "…"


def show_presets(name: str, family: Family, task: Task) -> None:
    rows = []
    for preset, config in task.presets.items():
        words = {"small": SMALL, **task.about, "full": f"the default; {task.expect}"}
        size = f"{parameter_count(family, family.prepare(config)):,}"
        rows.append((preset, size, f"{config.steps:,}", config.batch_size, words.get(preset, "")))
    print_table(("preset", "parameters", "steps", "batch", "what to expect"), rows, f"{name}: {task.summary}")
    console().print(f"Train it with: samebits train {name} --preset PRESET", highlight=False)
