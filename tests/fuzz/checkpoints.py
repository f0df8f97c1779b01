"""Checkpoints that somebody forged: what they hold is wrong, and every hash of it right (mostly)."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as pack_arrays

from samebits.families import discover
from samebits.runs import record as records
from samebits.runs.runfolder import RunFolder
from samebits.training.params import weights_hash
from tests.fuzz.bases import BASES, Bases
from tests.fuzz.kinds import Outcome, kind
from tests.fuzz.uses import use
from tests.fuzz.values import nested, odd_json, spoil_bytes, spoil_json

LAST = "checkpoints/step-6"
WRONG = (0, -1, 1, 2, 7, 255, 2**31 - 1, -(2**31), 0x110000, 0xD800, 2**53, np.nan, np.inf, -np.inf, 1e38, 1e-40)
TYPES = (
    "float64",
    "float16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "float32",
)


def read_record(run: Path) -> dict[str, Any]:
    return json.loads((run / LAST / records.STATE).read_bytes())


def sign(run: Path, record: Any, honest: bool = False) -> None:
    """Write the record with a hash that fits it, unless the last word is that it shall not."""
    if isinstance(record, dict):
        record.pop("record_sha256", None)
        record["record_sha256"] = "0" * 64 if honest else records.record_hash(record)
    (run / LAST / records.STATE).write_text(json.dumps(record, indent=1))


def sign_arrays(run: Path, packed: bytes, record: dict[str, Any]) -> None:
    record |= {"arrays_sha256": hashlib.sha256(packed).hexdigest(), "arrays_bytes": len(packed)}
    (run / LAST / records.ARRAYS).write_bytes(packed)
    sign(run, record)


def spot(draw: random.Random, place: Path, bases: Bases) -> tuple[str, Path]:
    name = draw.choice(list(BASES))
    return BASES[name].family, bases.copy(name, place)


@kind("state", 3)
def state(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """state.json edited as JSON."""
    family, run = spot(draw, place, bases)
    record: Any = read_record(run)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if isinstance(record, dict) and isinstance(record.get("state"), dict) and draw.random() < 0.7:
            record["state"] = spoil_json(draw, record["state"])
        else:
            record = spoil_json(draw, record)
    sign(run, record, honest=draw.random() < 0.03)
    if draw.random() < 0.03:
        text = (run / LAST / records.STATE).read_text()
        (run / LAST / records.STATE).write_text(text.replace("0", "[" * 5000, 1))
    which = ("--checkpoint", draw.choice(("best", "last", "6", "step-6"))) if draw.random() < 0.3 else ()
    return use(draw, place, family, which)


@kind("tensors", 4)
def tensors(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """arrays.safetensors with other tensors in it."""
    family, run = spot(draw, place, bases)
    packed = (run / LAST / records.ARRAYS).read_bytes()
    arrays = dict(sorted(parse_arrays(packed).items()))  # it has no order of its own
    record = read_record(run)
    for _ in range(draw.choice((1, 1, 1, 2))):
        forge(draw, arrays)
    opened = RunFolder.open(run, discover())
    names = [name for name, _ in opened.family.layout(opened.config)]
    if all(name in arrays for name in names):
        record["weights_sha256"] = weights_hash(np.concatenate([arrays[name].ravel() for name in names]))
    sign_arrays(run, pack_arrays({name: np.ascontiguousarray(value) for name, value in arrays.items()}), record)
    return use(draw, place, family)


def forge(draw: random.Random, arrays: dict[str, Any]) -> None:
    """One tensor another: constants, which decide where kernels read, more often than the many weights."""
    if not arrays:
        return
    constants = [name for name in arrays if "vocabulary" in name or "wire" in name or "optimiser" in name]
    name = draw.choice(constants if constants and draw.random() < 0.6 else list(arrays))
    if name.startswith("vocabulary.") and draw.random() < 0.6:
        arrays[name] = _vocabulary(draw, name, arrays[name])
        return
    action = draw.randrange(8)
    if action == 0:
        arrays[draw.choice(("x", "", "optimiser.first", f"{name}.copy"))] = arrays[name]
    elif action == 1:
        arrays.pop(name)
    elif action == 2:
        arrays[name] = _reshaped(draw, arrays[name])
    elif action == 3:
        with np.errstate(all="ignore"):
            arrays[name] = arrays[name].astype(draw.choice(TYPES))
    else:
        arrays[name] = _values(draw, arrays[name])


def _reshaped(draw: random.Random, array: Any) -> Any:
    flat = array.ravel()
    forms = (
        flat,
        array[None],
        array.T,
        flat[: draw.randrange(flat.size + 1)],
        flat[:0],
        np.tile(flat, 2),
        array[..., :0],
    )
    return draw.choice(forms)


def _values(draw: random.Random, array: Any) -> Any:
    """Some numbers, or all of them, replaced by one that fits the type and nothing else."""
    found, value = array.copy().ravel(), draw.choice(WRONG)
    if found.size == 0:
        return array
    with np.errstate(all="ignore"):
        cast = np.array([value]).astype(found.dtype)[0]
    where = slice(None) if draw.random() < 0.3 else [draw.randrange(found.size) for _ in range(draw.choice((1, 1, 5)))]
    found[where] = cast
    return found.reshape(array.shape)


def _vocabulary(draw: random.Random, name: str, array: Any) -> Any:
    if name.endswith("end"):
        values = (-2, -1, 0, 5, array.size, 10**5, 2**31 - 1)
        return (
            np.array([draw.choice(values)], np.int32)
            if draw.random() < 0.8
            else np.zeros(draw.choice((0, 2)), np.int32)
        )
    if name.endswith("codepoints"):
        extra = np.array([draw.choice((-1, 0, 0xD800, 0xDFFF, 0x110000, 2**31 - 1, 65))], np.int32)
        forms = (array[::-1], array[:1], array[:-1], array[:0], np.concatenate([array, extra]), np.repeat(array, 2))
        return draw.choice((*forms, np.concatenate([extra, array[1:]]), np.concatenate([array[:-1], extra])))
    return np.frombuffer(_pairs(draw, array.tobytes()), np.uint8)


def _pairs(draw: random.Random, source: bytes) -> bytes:
    """A byte-pair tokenizer's JSON with something else in it."""
    if draw.random() < 0.2:
        return spoil_bytes(draw, source)
    try:
        value = json.loads(source)
    except ValueError:  # spoilt before
        return spoil_bytes(draw, source)
    vocabulary = value["model"]["vocab"]
    action = draw.randrange(6)
    if action == 0:
        vocabulary[draw.choice(sorted(vocabulary))] = draw.choice(
            (-1, 2**31, 10**20, len(vocabulary), 0, "x", None, 1.5)
        )
    elif action == 1:
        vocabulary[draw.choice(("\ud800", " ", "€", ""))] = len(vocabulary)
    elif action == 2:
        vocabulary.pop(draw.choice(sorted(vocabulary)))
    elif action == 3:
        value["model"]["vocab"] = odd_json(draw)
    else:
        value = spoil_json(draw, value)
    return json.dumps(value).encode()


@kind("packed", 2)
def packed(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """The bytes of arrays.safetensors, or what its header says, changed."""
    family, run = spot(draw, place, bases)
    path, record = run / LAST / records.ARRAYS, read_record(run)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    if draw.random() < 0.6:
        header = spoil_json(draw, json.loads(content[8 : 8 + length]))
        if draw.random() < 0.05:
            header = nested(150)
        told = json.dumps(header).encode()
        size = len(told) if draw.random() < 0.9 else draw.choice((0, 1, 2**63, len(told) - 1, 10**8))
        content = size.to_bytes(8, "little") + told + content[8 + length :]
    else:
        content = spoil_bytes(draw, content)
    if draw.random() < 0.15:
        path.write_bytes(content)
    else:
        sign_arrays(run, content, record)
    return use(draw, place, family)


@kind("damaged", 1)
def damaged(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """A file of a checkpoint cut, flipped or garbled, without a new hash."""
    family, run = spot(draw, place, bases)
    path = run / LAST / draw.choice((records.ARRAYS, records.STATE))
    path.write_bytes(spoil_bytes(draw, path.read_bytes()))
    return use(draw, place, family)
