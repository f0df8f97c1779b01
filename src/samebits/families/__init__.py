"""Families are found, not listed: a folder here with a family.py that defines FAMILY is one."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from samebits.config import TrainConfig
from samebits.engine.family import Family, Task
from samebits.errors import SamebitsError, nearest


@cache
def discover() -> dict[str, Family]:
    """Every family by name."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            family: Family = importlib.import_module(f"{__name__}.{module.name}.family").FAMILY
            found[family.name] = family
    return found


def find_task(name: str) -> tuple[Family, Task]:
    """The family that has this task."""
    for family in discover().values():
        if name in family.tasks:
            return family, family.tasks[name]
    known = [task for family in discover().values() for task in family.tasks]
    raise SamebitsError(f"there is no task {name!r}; {nearest(name, known)}; samebits tasks lists them")


def find_preset(task: str, preset: str) -> TrainConfig:
    """The config of a task's preset."""
    _, found = find_task(task)
    if preset not in found.presets:
        raise SamebitsError(f"task {task} has no preset {preset!r}; {nearest(preset, found.presets)}")
    return found.presets[preset]
