"""Another run's weights to begin with, verified: for families whose config has `init_from` (Family.start).

They are read when a run begins; its optimiser starts from zero. From its first checkpoint on, a run needs only itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.checks import path as checked_path
from samebits.config import read_tables
from samebits.errors import SamebitsError
from samebits.runs import checkpoint as checkpoints
from samebits.runs.record import MOMENTS, read_arrays, read_record, take_weights
from samebits.runs.runfolder import CONFIG
from samebits.training.contract import Constants, Layout
from samebits.training.params import spans


class Source(NamedTuple):
    path: Path  # of the checkpoint
    family: str
    values: dict[str, Any]  # its run's config
    arrays: dict[str, Array]  # parameters and constants by name


def read_source(init_from: str, family: str) -> Source:
    """The last checkpoint of a run folder, or the checkpoint folder that is named; of the same family."""
    folder = checked_path("init_from", init_from)
    chosen = None
    if folder.parent.name == "checkpoints":
        chosen, folder = folder, folder.parent.parent
    if not (folder / CONFIG).is_file():
        raise SamebitsError(
            f"init_from {init_from} is not a run folder (it has no {CONFIG}); "
            "name a folder that samebits train made, or a checkpoint in one"
        )
    tables = read_tables(folder / CONFIG, folder)
    found = str(tables.get("run", {}).get("family"))
    if found != family:
        raise SamebitsError(
            f"init_from {init_from} is a {found} run; this is a {family} task; name a run of the same kind"
        )
    try:
        path = chosen or checkpoints.choose(folder / "checkpoints", "last")
        arrays = read_arrays(path, read_record(path))
    except SamebitsError as error:
        raise SamebitsError(
            f"init_from {init_from}: {error}; or name a good checkpoint: {folder}/checkpoints/step-N"
        ) from None
    weights = {name: value for name, value in arrays.items() if name not in MOMENTS}
    return Source(path, found, dict(tables.get("config", {})), weights)


def begin_with(source: Source, layout: Layout, constants: Constants, params: Array) -> None:
    """Fill params with the source's; an error names the first thing that is not the same in both."""
    names = {name for name, _ in layout} | set(constants)
    for name in sorted(names ^ set(source.arrays)):
        who = (
            "init_from has, and this config has not" if name in source.arrays else "this config has, and not init_from"
        )
        raise SamebitsError(f"init_from {source.path}: {name} is something {who}; train with the sizes of that run")
    for name, start, end, shape in spans(layout):
        try:
            params[start:end] = take_weights(dict(source.arrays), name, shape).ravel()
        except SamebitsError as error:
            raise SamebitsError(f"init_from {source.path}: {error}; train with the sizes of that run") from None
    for name, value in constants.items():
        if not np.array_equal(source.arrays[name], value):
            raise SamebitsError(f"init_from {source.path}: its {name} is not this config's; train with that run's")
