"""Parameters: one flat vector and a table of names. Merging, clipping, the optimiser and checkpoints see one array."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from samebits.engine.arrays import Array
from samebits.engine.family import Layout


def spans(layout: Layout) -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
    """Each tensor as (name, offset, end, shape), in the order of the flat vector."""
    offset = 0
    for name, shape in layout:
        end = offset + int(np.prod(shape))
        yield name, offset, end, shape
        offset = end


def views(layout: Layout, flat: Array) -> dict[str, Array]:
    """Named views into the flat vector: writing to one writes to the vector."""
    return {name: flat[offset:end].reshape(shape) for name, offset, end, shape in spans(layout)}


def tensor_at(layout: Layout, index: int) -> str:
    """The name of the tensor that holds element `index` of the flat vector."""
    return next(name for name, offset, end, _ in spans(layout) if offset <= index < end)


def weights_hash(flat: Array) -> str:
    """SHA-256 of the little-endian flat vector: what the promise compares."""
    return hashlib.sha256(flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes()).hexdigest()
