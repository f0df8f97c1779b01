"""Families are found, not listed: a folder here with a family.py that defines FAMILY is one, and so is what a package
of somebody else's names as an entry point in the group samebits.families."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from samebits.compiler.kernel_cache import FAMILIES
from samebits.config import TrainConfig
from samebits.errors import SamebitsError, nearest
from samebits.printing import shown
from samebits.training.contract import Family, Task


@cache
def built_in() -> dict[str, Family]:
    """Our own families by name."""
    folders = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    found: list[Family] = [importlib.import_module(f"{__name__}.{name}.family").FAMILY for name in folders]
    return {family.name: family for family in found}


@cache
def discover() -> dict[str, Family]:
    """Every family by name, ours first."""
    found = dict(built_in())
    for entry in sorted(entry_points(group=FAMILIES), key=lambda entry: entry.name):
        family = _load(entry)
        taken = {task for other in found.values() for task in other.tasks} & set(family.tasks)
        if family.name in found or taken:
            what = f"the tasks {', '.join(sorted(taken))}" if taken else f"the name {family.name}"
            raise SamebitsError(
                f"the family {entry.value} has {what} of another one; rename it or uninstall its package"
            )
        found[family.name] = family
    return found


def _load(entry: EntryPoint) -> Family:
    """What a package of somebody else's brings: it may be broken, or made for another version."""
    try:
        family = entry.load()
    except Exception as error:
        raise SamebitsError(
            f"the family {entry.value} cannot be loaded ({type(error).__name__}: {error}); "
            "update its package or uninstall it"
        ) from error
    if not isinstance(family, Family):
        raise SamebitsError(
            f"the entry point {entry.value} is a {type(family).__name__}; it must be a "
            "samebits.training.contract.Family; update its package or uninstall it"
        )
    return family


def find_task(name: str) -> tuple[Family, Task]:
    """The family that has this task."""
    for family in discover().values():
        if name in family.tasks:
            return family, family.tasks[name]
    known = [task for family in discover().values() for task in family.tasks]
    raise SamebitsError(f"there is no task {shown(name)}; {nearest(name, known)}; samebits tasks lists them")


def find_preset(task: str, preset: str) -> TrainConfig:
    """The config of a task's preset."""
    _, found = find_task(task)
    if preset not in found.presets:
        raise SamebitsError(f"task {task} has no preset {shown(preset)}; {nearest(preset, found.presets)}")
    return found.presets[preset]
