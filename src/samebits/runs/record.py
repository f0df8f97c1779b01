"""What a checkpoint folder says, read as a stranger's: strictly parsed, held to the run's config, then believed.

A hash shows that a file is what was written, not who wrote it: whoever alters a file can write its hash anew. So the
sizes, types and values of everything are checked here, before a kernel sees them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors.numpy import load as parse_arrays

from samebits import files
from samebits.arithmetic.arrays import Array
from samebits.checks import MOST
from samebits.config import problems
from samebits.errors import SamebitsError
from samebits.training.contract import Constants, Layout
from samebits.training.params import weights_hash
from samebits.training.state import Checkpoint, Count, Sha256, TrainState

ARRAYS, STATE = "arrays.safetensors", "state.json"
MUTABLE = "state."  # in front of the names of mutable state
MOMENTS = ("optimiser.first", "optimiser.second")
STATE_BYTES = 1 << 20  # far beyond what a state.json takes
WEIGHT = np.dtype(np.float32)


class Record(BaseModel):
    """state.json."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    state: TrainState
    config_hash: Sha256
    weights_sha256: Sha256
    arrays_sha256: Sha256
    arrays_bytes: Count
    record_sha256: Sha256


class Expected(NamedTuple):
    """What the checkpoints of a run must be like."""

    config_hash: str
    layout: Layout
    check_constants: Callable[[Constants], None]  # raises where they are not of this config
    mutable: Constants  # the family's mutable state: arrays of the types and shapes that it must have


def folder_name(step: int) -> str:
    return f"step-{step}"


def step_of(name: str) -> int | None:
    """The step that a folder of this name would have; None where it is no checkpoint's name."""
    number = name.removeprefix("step-")
    if not (number.isascii() and number.isdecimal()) or len(number) > len(str(MOST)):
        return None
    return int(number) if folder_name(int(number)) == name else None


def record_hash(content: dict[str, Any]) -> str:
    """Of all of a record but its own hash."""
    kept = {key: value for key, value in content.items() if key != "record_sha256"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def read_record(path: Path) -> Record:
    """The state.json of a checkpoint folder."""
    content = _read(path, STATE, STATE_BYTES)
    try:
        found = Record.model_validate_json(content)
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            raise SamebitsError(f"checkpoint {path} was cut short or altered: {STATE} is not readable") from None
        told = "; ".join(f"{key} is {value}; it must be {rule}" for key, value, rule in problems(error))
        raise SamebitsError(
            f"checkpoint {path} was altered, or written by another version of samebits: {STATE}: {told}"
        ) from None
    if found.record_sha256 != record_hash(json.loads(content)):
        raise SamebitsError(f"checkpoint {path} was altered: {STATE} does not match its own SHA-256")
    if found.state.step != step_of(path.name):
        raise SamebitsError(
            f"checkpoint {path} was renamed or copied: its {STATE} is of step {found.state.step}; "
            f"give it its name back, {folder_name(found.state.step)}, or delete it"
        )
    if (found.state.best_step or 0) > found.state.step:
        raise SamebitsError(
            f"checkpoint {path} was altered: its best step is {found.state.best_step}; that must not be after its own"
        )
    return found


def read_arrays(path: Path, record: Record) -> dict[str, Array]:
    """The arrays of a checkpoint folder by name, byte for byte what was written."""
    packed = _read(path, ARRAYS, record.arrays_bytes)
    if len(packed) < record.arrays_bytes:
        raise SamebitsError(
            f"checkpoint {path} is cut short: {ARRAYS} has {len(packed)} of {record.arrays_bytes} bytes"
        )
    if hashlib.sha256(packed).hexdigest() != record.arrays_sha256:
        raise SamebitsError(f"checkpoint {path} was altered: {ARRAYS} does not match its SHA-256")
    try:
        return parse_arrays(packed)
    except Exception as error:  # a parser of somebody else's, and a file of anybody's
        raise SamebitsError(f"checkpoint {path} was altered: {ARRAYS} cannot be read ({error})") from None


def read(path: Path, expected: Expected) -> Checkpoint:
    """A checkpoint folder, checked; the error says what is wrong with it."""
    record = read_record(path)
    if record.config_hash != expected.config_hash:
        raise SamebitsError(f"checkpoint {path} is of another config than this run's config.toml")
    arrays = read_arrays(path, record)
    try:
        params = np.concatenate([take_weights(arrays, name, shape).ravel() for name, shape in expected.layout])
        first, second = (take_weights(arrays, name, params.shape) for name in MOMENTS)
        mutable = {
            name: take_array(arrays, MUTABLE + name, array.shape, array.dtype)
            for name, array in expected.mutable.items()
        }
        expected.check_constants(arrays)
    except SamebitsError as error:
        raise SamebitsError(f"checkpoint {path} was altered, or is of another version of samebits: {error}") from None
    if weights_hash(params) != record.weights_sha256:
        raise SamebitsError(f"checkpoint {path} was altered: its weights do not match their SHA-256")
    return Checkpoint(record.state, params, first, second, arrays, record.config_hash, mutable)


def take_weights(arrays: dict[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """One array of weights, taken out of the others; of this shape, float32 and finite."""
    return take_array(arrays, name, shape, WEIGHT)


def take_array(arrays: dict[str, Array], name: str, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """One array, taken out of the others; of this shape and type, and finite."""
    array = arrays.pop(name, None)
    if array is None:
        raise SamebitsError(f"{name} is missing")
    if array.dtype != dtype or array.shape != tuple(shape):
        raise SamebitsError(f"{name} is {array.dtype} {array.shape}; it must be {dtype} {tuple(shape)}")
    if not np.isfinite(array).all():
        raise SamebitsError(f"{name} has values that are not finite")
    return array


def check_same(found: Constants, wanted: Constants) -> None:
    """Constants that follow from the config are those, exactly."""
    for name in sorted(set(found) ^ set(wanted)):
        raise SamebitsError(f"{name} is {'missing' if name in wanted else 'no array of this config'}")
    for name, value in wanted.items():
        if found[name].dtype != value.dtype or not np.array_equal(found[name], value):
            raise SamebitsError(f"{name} is not what this config's is")


def _read(path: Path, name: str, most: int) -> bytes:
    """At most so many bytes of a plain file; one more where it is longer."""
    try:
        with files.open_file(path / name, path.parent.parent) as source:
            return source.read(most + 1)
    except SamebitsError as error:
        raise SamebitsError(f"checkpoint {path} is incomplete: {error}") from None
    except OSError as error:
        raise SamebitsError(f"checkpoint {path} is incomplete: cannot read {name} ({error.strerror})") from None
