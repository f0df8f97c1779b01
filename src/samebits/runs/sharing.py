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
from samebits.training.schedule import Plateau
from samebits.training.state import Checkpoint, TrainState


def share_checkpoint(links: Links | None, read: Callable[[], Checkpoint | None]) -> Checkpoint | None:
    """What rank 0 reads, on all of them: one folder is enough."""
    if links is None:
        return read()
    found: Checkpoint | None = None
    content = np.zeros(0, np.uint8)

    def describe() -> dict[str, Any] | None:
        nonlocal found, content
        found = read()
        if found is None:
            return None
        content = np.frombuffer(bytearray(packed(found)), np.uint8)
        return {"state": asdict(found.state), "config_hash": found.config_hash, "bytes": content.size}

    told = by_first(links, describe)
    if told is None:
        return None
    if found is None:
        content = np.zeros(told["bytes"], np.uint8)
    links.broadcast(content)
    if found is not None:
        return found
    arrays = parse_arrays(content.tobytes())
    params, first, second = (arrays.pop(name) for name in VECTORS)
    state = TrainState(**{**told["state"], "plateau": Plateau(**told["state"]["plateau"])})
    return Checkpoint(state, params, first, second, arrays, told["config_hash"])


VECTORS = ("samebits.params", "samebits.first", "samebits.second")


def packed(found: Checkpoint) -> bytes:
    vectors = dict(zip(VECTORS, (found.params, found.first, found.second), strict=True))
    return pack_arrays({name: np.ascontiguousarray(value) for name, value in {**vectors, **found.constants}.items()})
