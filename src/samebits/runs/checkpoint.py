"""Checkpoints of a run folder: written beside, fsynced, renamed; chosen, pruned, set aside. record.py reads them."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as pack_arrays

from samebits import files
from samebits.errors import RunLostError, SamebitsError
from samebits.printing import shown
from samebits.runs.record import (
    ARRAYS,
    MOMENTS,
    MUTABLE,
    STATE,
    Expected,
    folder_name,
    read,
    read_record,
    record_hash,
    step_of,
)
from samebits.training.contract import Layout
from samebits.training.params import views, weights_hash
from samebits.training.state import Checkpoint

SET_ASIDE, DELETED, REPLACED = ".set-aside", ".deleted", ".replaced"


def steps_saved(checkpoints: Path) -> list[int]:
    """The steps that have a finished checkpoint folder, oldest first.

    Raises:
        SamebitsError: where `checkpoints`, or a checkpoint in it, is a link.
    """
    steps = []
    for name, kind in files.listed(checkpoints, checkpoints.parent).items():
        step = step_of(name)
        if step is not None and kind == files.A_LINK:
            raise SamebitsError(
                f"{checkpoints / name} is a symbolic link; no link is followed here; put the folder there"
            )
        if step is not None and kind == files.A_FOLDER:
            steps.append(step)
    return sorted(steps)


def save(checkpoints: Path, checkpoint: Checkpoint, layout: Layout) -> Path:
    """Write one checkpoint so that a kill at any moment leaves either the whole of it or none of it."""
    target = checkpoints / folder_name(checkpoint.state.step)
    partial = checkpoints / f".{target.name}.partial"
    run = checkpoints.parent
    files.remove(partial, run)
    try:
        files.make_folder(partial, run, exist_ok=False)
    except FileNotFoundError:
        raise RunLostError(
            f"{checkpoints} was deleted while the run was training; step {checkpoint.state.step} could not be saved "
            "and training stopped; train anew, and let the folder be"
        ) from None
    arrays = {**views(layout, checkpoint.params), **checkpoint.constants}
    arrays |= dict(zip(MOMENTS, (checkpoint.first, checkpoint.second), strict=True))
    arrays |= {MUTABLE + name: array for name, array in checkpoint.mutable.items()}
    packed = pack_arrays({name: np.ascontiguousarray(value) for name, value in arrays.items()})
    record: dict[str, Any] = {
        "state": asdict(checkpoint.state),
        "config_hash": checkpoint.config_hash,
        "weights_sha256": weights_hash(checkpoint.params),
        "arrays_sha256": hashlib.sha256(packed).hexdigest(),
        "arrays_bytes": len(packed),
    }
    record["record_sha256"] = record_hash(record)
    try:
        files.create(partial / ARRAYS, packed, run)
        files.create(partial / STATE, json.dumps(record, indent=1).encode(), run)
        files.sync_folder(partial, run)
        replaced = checkpoints / f".{target.name}{REPLACED}"
        if target.name in files.listed(checkpoints, run):
            files.remove(replaced, run)
            files.rename(target, replaced.name, run)
        files.rename(partial, target.name, run, sync=True)
        files.remove(replaced, run)
    except BaseException:
        files.remove(partial, run)
        raise
    return target


def choose(checkpoints: Path, which: str) -> Path:
    """The folder for `last`, `best`, or a step number."""
    steps = steps_saved(checkpoints)
    if not steps:
        raise SamebitsError(
            f"there is no checkpoint in {checkpoints}; a run that was ended before its first one begins again with: "
            f"samebits resume {checkpoints.parent}"
        )
    if which == "last":
        return checkpoints / folder_name(steps[-1])
    if which == "best":
        best = read_record(checkpoints / folder_name(steps[-1])).state.best_step
        if best is None:
            raise SamebitsError(
                f"{checkpoints} has no best checkpoint yet: no evaluation was made; use --checkpoint last"
            )
        which = str(best)
    number = step_of(f"step-{which.removeprefix('step-')}")
    if number not in steps:
        raise SamebitsError(
            f"there is no checkpoint {shown(which)}; it must be last, best or one of {', '.join(map(str, steps))}"
        )
    return checkpoints / folder_name(number)


def previous_good(bad: Path, expected: Expected) -> int | None:
    """The newest earlier step whose checkpoint verifies."""
    number = step_of(bad.name)
    for step in reversed([step for step in steps_saved(bad.parent) if number is None or step < number]):
        with contextlib.suppress(SamebitsError):
            read(bad.parent / folder_name(step), expected)
            return step
    return None


def load(path: Path, expected: Expected) -> Checkpoint:
    """Read and verify a checkpoint, and when that fails say what would work."""
    try:
        return read(path, expected)
    except SamebitsError as error:
        step = previous_good(path, expected)
        if step is not None:
            remedy = f"the previous good one is {folder_name(step)}: add --checkpoint {step}"
        elif "another config" in str(error):
            remedy = "restore the file it was made with"
        else:
            remedy = "no earlier checkpoint of this run is good; train anew"
        raise SamebitsError(f"{error}; {remedy}") from None


def prune(checkpoints: Path, keep: int, best: int | None) -> None:
    """Delete all but the last `keep` checkpoints and the best."""
    steps = steps_saved(checkpoints)
    for step in steps[:-keep]:
        if step != best:
            _delete(checkpoints / folder_name(step))
    for name in files.listed(checkpoints, checkpoints.parent):
        passed = step_of(name[1:].removesuffix(SET_ASIDE)) if name.endswith(SET_ASIDE) else None
        if passed is not None and passed <= steps[-1]:  # the run has come there again
            files.remove(checkpoints / name, checkpoints.parent)


def set_aside(checkpoints: Path, after: int) -> None:
    """Hide checkpoints later than `after`: the run goes on from there, and will write them anew."""
    for step in steps_saved(checkpoints):
        if step > after:
            hidden = checkpoints / f".{folder_name(step)}{SET_ASIDE}"
            files.remove(hidden, checkpoints.parent)
            files.rename(checkpoints / folder_name(step), hidden.name, checkpoints.parent)


def clean(checkpoints: Path) -> None:
    """Remove what a killed process left half written."""
    run = checkpoints.parent
    names = [name for name in files.listed(checkpoints, run) if name.startswith(".step-")]
    for name in names:
        target = name[1:].removesuffix(REPLACED)
        if name.endswith((files.PARTIAL, DELETED)) or (
            name.endswith(REPLACED) and target in files.listed(checkpoints, run)
        ):
            files.remove(checkpoints / name, run)
        elif name.endswith(REPLACED):  # killed between the two renames
            files.rename(checkpoints / name, target, run)


def _delete(path: Path) -> None:
    run, hidden = path.parent.parent, path.with_name(f".{path.name}{DELETED}")
    files.remove(hidden, run)
    files.rename(path, hidden.name, run)
    files.remove(hidden, run)
