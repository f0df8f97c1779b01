"""From a node's logits to probabilities, head by head, and to the loss and its gradient."""

from __future__ import annotations

import numpy as np

from samebits.engine.arrays import Array
from samebits.engine.elementary import log
from samebits.engine.jit import kernel
from samebits.engine.simd import exp
from samebits.families.graph.store import Store

LEAST = 1e-37  # a probability below may have been flushed to 0; its logarithm must stay a number


@kernel
def softmax_heads(logits: Array, heads: tuple[int, int, int, int]) -> None:
    """Logits (n, C) become probabilities, head by head."""
    for i in range(logits.shape[0]):
        begin = 0
        for size in heads:
            row = logits[i, begin : begin + size]
            begin += size
            if size > 0:
                largest = row[0]
                for j in range(1, size):
                    if not row[j] <= largest:  # so that a NaN wins
                        largest = row[j]
                for j in range(size):
                    row[j] -= largest
    flat = logits.reshape(-1)
    for j in range(flat.size):
        flat[j] = exp(flat[j])
    for i in range(logits.shape[0]):
        begin = 0
        for size in heads:
            row = logits[i, begin : begin + size]
            begin += size
            if size > 0:
                total = row[0]
                for j in range(1, size):
                    total += row[j]
                scale = logits.dtype.type(1) / total
                for j in range(size):
                    row[j] *= scale


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
