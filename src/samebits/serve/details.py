"""What the page of one run shows besides its curve: config, checkpoints, pictures, what to type next, and its model."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

from samebits import api, files
from samebits.errors import SamebitsError
from samebits.families import discover
from samebits.runs import checkpoint as checkpoints
from samebits.runs.runfolder import CONFIG
from samebits.serve.runs import Summary, pictures
from samebits.training.contract import next_commands, parameter_count

MOST_SHOWN = 1 << 16  # bytes of a config.toml


def details(summary: Summary, path: Path) -> dict[str, Any]:
    """A run's page; of a damaged run, what can still be read of it."""
    found: dict[str, Any] = {"run": summary.as_json(), "pictures": list(pictures(path)), "commands": commands(summary)}
    with suppress(SamebitsError, OSError), files.open_file(path / CONFIG, path) as file:
        found["config_file"] = file.read(MOST_SHOWN).decode("utf-8", "replace")
    if summary.problem:
        return found
    run = api.open_run(path)
    page, steps = run.family.page, checkpoints.steps_saved(run.checkpoints)
    found |= {
        "config": {key: value for key, value in run.values.items() if value is not None},
        "parameters": parameter_count(run.family, run.config),
        "checkpoints": steps,
        "sizes": [[name, list(shape)] for name, shape in run.family.layout(run.config)][:200],
        "can": page.part if steps else "",
        "details": dict(page.details(run.config)),
    }
    return found


def commands(summary: Summary) -> list[str]:
    """What to type next, in the folder that samebits serve was started in."""
    folder = shlex.quote(summary.path)
    if summary.problem:
        return []
    found = []
    if not summary.live and summary.step < summary.steps:
        found.append(f"samebits resume {folder}")
    elif not summary.live:
        found.append(f"samebits resume {folder} --steps {2 * summary.steps}")
    if not summary.hash:
        return found
    family = discover()[summary.family]
    if family.report:
        found.append(f"samebits eval {folder}")
    return found + next_commands(family, folder)
