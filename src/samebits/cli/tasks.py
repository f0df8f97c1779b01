"""samebits tasks"""

from __future__ import annotations

from samebits.cli.common import console, print_table
from samebits.engine.family import parameter_count
from samebits.families import discover

SMALL = "tiny and short: shows that all works here, learns little"


def tasks() -> None:
    """What can be trained, with sizes and what to expect."""
    for family in discover().values():
        rows = []
        for name, task in family.tasks.items():
            for preset, config in task.presets.items():
                words = {"small": SMALL, **task.about, "full": f"{task.summary}; {task.expect}"}
                size = f"{parameter_count(family, family.prepare(config)):,}"
                rows.append((name, preset, size, f"{config.steps:,}", config.batch_size, words.get(preset, "")))
        print_table(
            ("task", "preset", "parameters", "steps", "batch", "what it does, and what to expect"), rows, family.name
        )
    console().print("Train one with: samebits train TASK    try it out with: --preset small", highlight=False)
