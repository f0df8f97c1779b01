"""samebits tasks"""

from __future__ import annotations

from samebits.cli.common import console, print_table
from samebits.engine.family import parameter_count
from samebits.families import discover

ABOUT = {
    "small": "tiny and short: shows that all works here, learns little",
    "published": "the recipe exactly as published",
    "robust": "learns from 6 of 10 wirings, not only from the default one",
    "randy": "what full is, under randyGPT's name for it",
    **dict.fromkeys(("xs", "s", "ds", "m", "l", "deep", "xl"), "another of randyGPT's sizes"),
    "timing": "random graphs of one size, to time against peers",
}


def tasks() -> None:
    """What can be trained, with sizes and what to expect."""
    for family in discover().values():
        rows = []
        for name, task in family.tasks.items():
            for preset, config in task.presets.items():
                about = ABOUT.get(preset, "") if preset != "full" else f"{task.summary}; {task.expect}"
                size = f"{parameter_count(family, family.prepare(config)):,}"
                rows.append((name, preset, size, f"{config.steps:,}", config.batch_size, about))
        print_table(
            ("task", "preset", "parameters", "steps", "batch", "what it does, and what to expect"), rows, family.name
        )
    console().print("Train one with: samebits train TASK    try it out with: --preset small", highlight=False)
