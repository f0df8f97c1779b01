"""Parameters: one flat vector and a table of names. Merging, clipping, the optimiser and checkpoints see one array."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.checks import refuse
from samebits.training.contract import Layout


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


def check_model(kind: type, layout: Callable[[Any], Layout], config: Any, weights: Any, constants: Any) -> None:
    """Refuse fields of which no model can be made. What the constants hold is for the family to know."""
    remedy = "samebits.load makes models"
    if not isinstance(config, kind):
        raise refuse("config", config, f"a {kind.__name__}", remedy)
    if not isinstance(constants, Mapping):
        raise refuse("constants", constants, "arrays by name", remedy)
    size = sum(int(np.prod(shape)) for _, shape in layout(config))
    fits = isinstance(weights, np.ndarray) and weights.shape == (size,) and weights.dtype in (np.float32, np.float64)
    if not fits:
        raise refuse("weights", weights, f"{size} numbers in a flat array of float32 or float64", remedy)


def tensor_at(layout: Layout, index: int) -> str:
    """The name of the tensor that holds element `index` of the flat vector."""
    return next(name for name, offset, end, _ in spans(layout) if offset <= index < end)


def weights_hash(flat: Array) -> str:
    """SHA-256 of the little-endian flat vector: what the promise compares."""
    return hashlib.sha256(flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes()).hexdigest()
