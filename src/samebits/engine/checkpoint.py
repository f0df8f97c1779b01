"""Checkpoints: written beside, fsynced, renamed; checked byte for byte before they are believed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as pack_arrays

from samebits.engine.arrays import Array
from samebits.engine.family import Constants, Layout
from samebits.engine.optim import Plateau
from samebits.engine.params import views, weights_hash
from samebits.errors import SamebitsError

ARRAYS, STATE = "arrays.safetensors", "state.json"
MOMENTS = ("optimiser.first", "optimiser.second")


@dataclass
class TrainState:
    """Everything a run knows besides its vectors."""

    step: int = 0  # optimiser steps done
    plateau: Plateau = field(default_factory=Plateau)
    best_value: float | None = None
    best_step: int | None = None
    stale_evaluations: int = 0  # since the best, for early stopping
    stopped_early: bool = False
    metrics_bytes: int = 0  # length of metrics.csv at this point


@dataclass
class Checkpoint:
    state: TrainState
    params: Array
    first: Array
    second: Array
    constants: Constants
    config_hash: str


def folder_name(step: int) -> str:
    return f"step-{step}"


def steps_saved(checkpoints: Path) -> list[int]:
    """The steps that have a finished checkpoint folder, oldest first."""
    names = [entry.name for entry in checkpoints.glob("step-*") if entry.is_dir()]
    return sorted(int(name[5:]) for name in names if name[5:].isdecimal())


def save(checkpoints: Path, checkpoint: Checkpoint, layout: Layout) -> Path:
    """Write one checkpoint so that a kill at any moment leaves either the whole of it or none of it."""
    target = checkpoints / folder_name(checkpoint.state.step)
    partial = checkpoints / f".{target.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    arrays = {**views(layout, checkpoint.params), **checkpoint.constants}
    arrays |= dict(zip(MOMENTS, (checkpoint.first, checkpoint.second), strict=True))
    packed = pack_arrays({name: np.ascontiguousarray(value) for name, value in arrays.items()})
    record: dict[str, Any] = {
        "state": asdict(checkpoint.state),
        "config_hash": checkpoint.config_hash,
        "weights_sha256": weights_hash(checkpoint.params),
        "arrays_sha256": hashlib.sha256(packed).hexdigest(),
        "arrays_bytes": len(packed),
    }
    record["record_sha256"] = _record_hash(record)
    try:
        _write(partial / ARRAYS, packed)
        _write(partial / STATE, json.dumps(record, indent=1).encode())
        _sync_folder(partial)
        replaced = checkpoints / f".{target.name}.replaced"
        if target.exists():
            target.rename(replaced)
        partial.rename(target)
        _sync_folder(checkpoints)
        shutil.rmtree(replaced, ignore_errors=True)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return target


def read_arrays(path: Path, expected_hash: str | None = None) -> tuple[dict[str, Any], dict[str, Array]]:
    """The record and the arrays of a checkpoint, byte for byte what was written."""
    record = _read_record(path)
    if expected_hash is not None and record["config_hash"] != expected_hash:
        raise SamebitsError(f"checkpoint {path} is of another config than this run's config.toml")
    packed = _read(path / ARRAYS)
    if len(packed) < record["arrays_bytes"]:
        raise SamebitsError(
            f"checkpoint {path} is cut short: {ARRAYS} has {len(packed)} of {record['arrays_bytes']} bytes"
        )
    if hashlib.sha256(packed).hexdigest() != record["arrays_sha256"]:
        raise SamebitsError(f"checkpoint {path} was altered: {ARRAYS} does not match its SHA-256")
    return record, parse_arrays(packed)


def load(path: Path, layout: Layout, expected_hash: str | None = None) -> Checkpoint:
    """Read and verify one checkpoint; the error says what is wrong with it."""
    record, arrays = read_arrays(path, expected_hash)
    try:
        first, second = (arrays.pop(name) for name in MOMENTS)
        params = np.concatenate([arrays.pop(name).ravel() for name, _ in layout])
        state = dict(record["state"])
        state["plateau"] = Plateau(**state["plateau"])
        resumed = TrainState(**state)
    except (KeyError, TypeError) as error:
        raise SamebitsError(f"checkpoint {path} was written by another version of samebits: {error}") from None
    if weights_hash(params) != record["weights_sha256"]:
        raise SamebitsError(f"checkpoint {path} was altered: its weights do not match their SHA-256")
    return Checkpoint(resumed, params, first, second, arrays, record["config_hash"])


def choose(checkpoints: Path, which: str) -> Path:
    """The folder for `last`, `best`, or a step number."""
    steps = steps_saved(checkpoints)
    if not steps:
        raise SamebitsError(
            f"there is no checkpoint in {checkpoints}; train first, or let the run reach its first checkpoint"
        )
    if which == "last":
        return checkpoints / folder_name(steps[-1])
    if which == "best":
        best = _read_record(checkpoints / folder_name(steps[-1]))["state"]["best_step"]
        if best is None:
            raise SamebitsError(
                f"{checkpoints} has no best checkpoint yet: no evaluation was made; use --checkpoint last"
            )
        which = str(best)
    number = which.removeprefix("step-")
    if not number.isdecimal() or int(number) not in steps:
        raise SamebitsError(
            f"there is no checkpoint {which!r}; it must be last, best or one of {', '.join(map(str, steps))}"
        )
    return checkpoints / folder_name(int(number))


def previous_good(bad: Path, layout: Layout, expected_hash: str | None) -> int | None:
    """The newest earlier step whose checkpoint verifies."""
    number = int(bad.name.removeprefix("step-"))
    for step in reversed([step for step in steps_saved(bad.parent) if step < number]):
        with contextlib.suppress(SamebitsError):
            load(bad.parent / folder_name(step), layout, expected_hash)
            return step
    return None


def load_or_explain(path: Path, layout: Layout, expected_hash: str | None) -> Checkpoint:
    """Load, and when that fails say what would work."""
    try:
        return load(path, layout, expected_hash)
    except SamebitsError as error:
        step = previous_good(path, layout, expected_hash)
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
    for hidden in checkpoints.glob(".step-*.set-aside"):  # the run has passed them again
        if int(hidden.name.removeprefix(".step-").removesuffix(".set-aside")) <= steps[-1]:
            shutil.rmtree(hidden, ignore_errors=True)


def set_aside(checkpoints: Path, after: int) -> None:
    """Hide checkpoints later than `after`: the run goes on from there, and will write them anew."""
    for step in steps_saved(checkpoints):
        if step > after:
            hidden = checkpoints / f".{folder_name(step)}.set-aside"
            shutil.rmtree(hidden, ignore_errors=True)
            (checkpoints / folder_name(step)).rename(hidden)


def clean(checkpoints: Path) -> None:
    """Remove what a killed process left half written."""
    for pattern in (".step-*.partial", ".step-*.deleted"):
        for leftover in checkpoints.glob(pattern):
            shutil.rmtree(leftover, ignore_errors=True)
    for replaced in checkpoints.glob(".step-*.replaced"):
        target = checkpoints / replaced.name[1:].removesuffix(".replaced")
        if target.exists():
            shutil.rmtree(replaced, ignore_errors=True)
        else:  # killed between the two renames
            replaced.rename(target)


def _delete(path: Path) -> None:
    hidden = path.with_name(f".{path.name}.deleted")
    path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(_read(path / STATE))
        claimed = record.pop("record_sha256")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise SamebitsError(f"checkpoint {path} was cut short or altered: {STATE} is not readable") from None
    if claimed != _record_hash(record):
        raise SamebitsError(f"checkpoint {path} was altered: {STATE} does not match its own SHA-256")
    return record


def _record_hash(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SamebitsError(
            f"checkpoint {path.parent} is incomplete: cannot read {path.name} ({error.strerror})"
        ) from None


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
