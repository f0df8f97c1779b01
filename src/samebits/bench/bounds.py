"""What a step would take if nothing but the unavoidable work were done, on one core.

A family names one of two bounds. `products`: the step's matrix products through BLAS, one thread. `traffic`: the bytes
its kernels read and write, at the bandwidth of this machine's L2 cache, measured by a loop with the same mix (two reads
and a write an element, over half of L2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from samebits.arithmetic.arrays import Array, aligned
from samebits.compiler.jit import kernel
from samebits.config import TrainConfig
from samebits.training.contract import Family

L2_DEFAULT = 1 << 20
STACK_BYTES = 1 << 19  # operands of small products stay in cache, as they do in a kernel that has just made them
Product = tuple[int, int, int, int]  # (m, k, n, count): count products (m × k) · (k × n) a step


def name(family: Family) -> str | None:
    """What bounds this family, for people to read."""
    if family.bench.products:
        return "matrix products alone (BLAS)"
    return "L2 traffic alone" if family.bench.traffic else None


def work(family: Family, config: TrainConfig) -> Callable[[], float]:
    """A function that does the bound's work once; what it returns is of no interest."""
    if family.bench.products:
        return products_work(family.bench.products(config))
    assert family.bench.traffic is not None
    return traffic_work(family.bench.traffic(config))


def products_work(products: Sequence[Product]) -> Callable[[], float]:
    """Every product of a step; equal shapes in stacks, so that Python is not what is timed."""
    draw = np.random.default_rng(0)
    jobs = []
    for m, k, n, count in products:
        depth = max(1, min(count, STACK_BYTES // (4 * (m * k + k * n + m * n))))
        a, b = (draw.standard_normal((depth, *shape), np.float32) for shape in ((m, k), (k, n)))
        jobs.append((a, b, np.empty((depth, m, n), np.float32), count))

    def run() -> float:
        with threadpool_limits(limits=1, user_api="blas"):
            for a, b, out, count in jobs:
                for start in range(0, count, len(a)):
                    some = min(len(a), count - start)
                    np.matmul(a[:some], b[:some], out=out[:some])
        return 0.0

    return run


def traffic_work(size: float) -> Callable[[], float]:
    """`size` bytes through L2."""
    elements = l2_bytes() // 2 // 3 // 4 // 64 * 64
    out, a, b = (aligned(elements, np.float32) for _ in range(3))
    rounds = max(1, round(size / (12 * elements)))

    def run() -> float:
        stream(out, a, b, rounds)
        return 0.0

    return run


@kernel
def stream(out: Array, a: Array, b: Array, rounds: int) -> None:
    for r in range(rounds):
        scale = np.float32(r)  # changes with the round, so that no round can be left out
        for i in range(out.size):
            out[i] = a[i] * scale + b[i]


def l2_bytes() -> int:
    """L2 of one core, as the machine tells; 1 MiB where it does not."""
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text().strip()
    except OSError:
        return L2_DEFAULT
    return int(text.removesuffix("K")) * 1024 if text.endswith("K") else L2_DEFAULT
