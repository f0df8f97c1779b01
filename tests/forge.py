"""Checkpoints as a stranger could make them: altered, with every hash written anew."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as pack_arrays

from samebits.runs.record import ARRAYS, MOMENTS, MUTABLE, STATE, record_hash


def forge(
    checkpoint: Path,
    change: Callable[[dict[str, Any]], object] = lambda record: None,
    arrays: Callable[[dict[str, np.ndarray]], object] = lambda arrays: None,
) -> None:
    """Change the record of state.json and the arrays in place, and make all hashes fit."""
    record, found = json.loads((checkpoint / STATE).read_bytes()), parse_arrays((checkpoint / ARRAYS).read_bytes())
    order = [
        name for name in found if name not in MOMENTS and not name.startswith(MUTABLE) and found[name].dtype.kind == "f"
    ]
    arrays(found)
    packed = pack_arrays({name: np.ascontiguousarray(value) for name, value in found.items()})
    (checkpoint / ARRAYS).write_bytes(packed)
    weights = [np.ravel(found[name]) for name in order if name in found]
    record |= {
        "arrays_bytes": len(packed),
        "arrays_sha256": hashlib.sha256(packed).hexdigest(),
        "weights_sha256": hashlib.sha256(b"".join(value.tobytes() for value in weights)).hexdigest(),
    }
    change(record)
    reseal(checkpoint, record)


def reseal(checkpoint: Path, record: dict[str, Any]) -> None:
    """Write a record, whatever it says, with a hash that fits."""
    (checkpoint / STATE).write_text(json.dumps({**record, "record_sha256": record_hash(record)}))
