"""weft tasks"""

from __future__ import annotations

from weft.cli.common import console, print_table
from weft.engine.family import parameter_count
from weft.families import discover


def tasks() -> None:
    """What can be trained, with sizes and what to expect."""
    for family in discover().values():
        rows = [
            (name if i == 0 else "", preset, f"{parameter_count(family, config):,}", config.steps, config.batch_size,
             (task.summary, task.expect)[i] if i < 2 else "")
            for name, task in family.tasks.items()
            for i, (preset, config) in enumerate(sorted(task.presets.items()))
        ]  # fmt: skip
        print_table(
            ("task", "preset", "parameters", "steps", "batch", "what it does; what to expect of full"),
            rows,
            family.name,
        )
    console().print("Train one with: weft train TASK    first look: weft train TASK --preset small", highlight=False)
