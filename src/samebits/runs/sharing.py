"""One checkpoint for a group of processes: rank 0 reads it, and the others receive it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as pack_arrays

from samebits.groups.agreement import by_first
from samebits.groups.exchange import Links
from samebits.runs.record import MUTABLE
from samebits.training.schedule import Plateau
from samebits.training.state import Checkpoint, TrainState


def share_checkpoint(links: Links | None, read: Callable[[], Checkpoint | None]) -> Checkpoint | None:
    """What rank 0 reads, on all of them: one folder is enough."""
    if links is None:
        return read()
    saved: Checkpoint | None = None
    content = np.zeros(0, np.uint8)

    def describe() -> dict[str, Any] | None:
        nonlocal saved, content
        saved = read()
        if saved is None:
            return None
        content = np.frombuffer(bytearray(packed(saved)), np.uint8)
        return {
            "state": asdict(saved.state),
            "config_hash": saved.config_hash,
            "bytes": content.size,
            "mutable": list(saved.mutable),
        }

    described = by_first(links, describe)
    if described is None:
        return None
    if saved is None:
        content = np.zeros(described["bytes"], np.uint8)
    links.broadcast(content)
    if saved is not None:
        return saved
    arrays = parse_arrays(content.tobytes())
    params, first, second = (arrays.pop(name) for name in VECTORS)
    mutable = {name: arrays.pop(MUTABLE + name) for name in described["mutable"]}
    state = TrainState(**{**described["state"], "plateau": Plateau(**described["state"]["plateau"])})
    return Checkpoint(state, params, first, second, arrays, described["config_hash"], mutable)


VECTORS = ("samebits.params", "samebits.first", "samebits.second")


def packed(saved: Checkpoint) -> bytes:
    vectors = dict(zip(VECTORS, (saved.params, saved.first, saved.second), strict=True))
    mutable = {MUTABLE + name: array for name, array in saved.mutable.items()}
    arrays = {**vectors, **saved.constants, **mutable}
    return pack_arrays({name: np.ascontiguousarray(value) for name, value in arrays.items()})
