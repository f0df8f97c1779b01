"""From a node's probabilities, head by head, to the loss and its gradient."""

from __future__ import annotations

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.elementary import log
from samebits.compiler.jit import kernel
from samebits.families.graph.store import Store

LEAST = 1e-37  # a probability below may have been flushed to 0; its logarithm must stay a number


@kernel
def cross_entropy(
    probabilities: Array, heads: tuple[int, int, int, int], store: Store, chosen: Array, first: int, last: int
) -> float:
    """Σ −log p of the wanted classes; the probabilities become the gradient, p − 1 where wanted."""
    loss = 0.0
    one = probabilities.dtype.type(1)
    i = 0
    for g in chosen[first:last]:
        for node in range(store.nodes[g], store.nodes[g + 1]):
            begin = 0
            for head in range(len(heads)):
                if heads[head] > 0:
                    place = begin + store.targets[node, head]
                    p = np.float64(probabilities[i, place])
                    loss -= log(LEAST if p < LEAST else p)
                    probabilities[i, place] -= one
                begin += heads[head]
            i += 1
    return loss
