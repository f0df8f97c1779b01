"""X (n, 3) inputs   y (n,) targets   params, slot (4,): three weights and the bias"""

from __future__ import annotations

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.simd import fused
from samebits.compiler.jit import kernel
from samebits.devices.cpu.sync import claim


@kernel
def unit(slot: Array, params: Array, X: Array, y: Array) -> float:
    """Σ (w · x + b − y)², and half its gradient."""
    slot[:] = 0
    loss = 0.0
    for i in range(y.size):
        error = params[3] - y[i]
        for k in range(3):
            error = fused(params[k], X[i, k], error)
        loss += np.float64(error) * np.float64(error)
        for k in range(3):
            slot[k] = fused(error, X[i, k], slot[k])
        slot[3] += error
    return loss


@kernel
def worker(index: int, tickets: Array, slots: Array, losses: Array, params: Array, X: Array, y: Array, n: int) -> None:
    while True:
        u = claim(tickets)
        if u >= slots.shape[0]:
            break
        losses[u, 0] = unit(slots[u], params, X[n * u : n * (u + 1)], y[n * u : n * (u + 1)])


@kernel
def double(index: int, tickets: Array, out: Array, merged: Array) -> None:
    if claim(tickets) == 0:
        for i in range(out.size):
            out[i] = merged[i] + merged[i]
