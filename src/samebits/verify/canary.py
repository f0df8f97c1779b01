"""Canaries: tiny trainings of every task, and single kernels on fixed inputs, each of them one hash.

A canary depends on the version and on nothing else: not on the machine, not on the number of workers, not on Python's
own library. Work too little to be shared is shared all the same, so that every way of sharing it is in play.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from samebits import files
from samebits.arithmetic import elementary, gemm, rng
from samebits.arithmetic.arrays import Array
from samebits.arithmetic.simd import dot, exp, largest, total, wide_squares
from samebits.arithmetic.softmax import softmax, softmax_backward
from samebits.bits import BITS, FILE, published
from samebits.compiler.jit import kernel
from samebits.config import TrainConfig, build, override
from samebits.devices.cpu.workers import Workers
from samebits.devices.interface import Device
from samebits.distance import Graph, bounds, graph_edit_distance
from samebits.families import built_in, discover
from samebits.training.contract import Family
from samebits.training.schedule import Plateau, learning_rate
from samebits.training.trainer import resolve
from samebits.verify.bits import trained_hashes

STEPS, WORKERS = 3, 2
SIZES = (1, 16, 31, 32, 33, 64, 100, 515)


def numbers(count: int, dtype: type, purpose: int) -> Array:
    """Fixed numbers of many magnitudes and both signs, some around the edge of the range, made of whole ones."""
    words = rng.words((1, count), 7, purpose, 0)[0]
    mantissa = (words >> np.uint64(41)).astype(np.float64) * 2.0**-22 - 1
    exponent = (words & np.uint64(63)).astype(np.int64) - 32
    edge = np.where((words & np.uint64(0xFF00)) == 0, -126.0 if dtype is np.float32 else -1022.0, exponent)
    return np.ldexp(mantissa, edge.astype(np.int64)).astype(dtype)


def digest(*arrays: Array) -> str:
    found = hashlib.sha256()
    for array in arrays:
        # A zero is a zero: its sign is nobody's business.
        clean = np.where(array == 0, np.zeros((), array.dtype), array)
        found.update(clean.astype(clean.dtype.newbyteorder("<"), copy=False).tobytes())
    return found.hexdigest()


@kernel
def reduce_rows(out: Array, x: Array, y: Array) -> None:
    out[0], out[1], out[2], out[3] = total(x), dot(x, y), wide_squares(x), largest(x)


@kernel
def exp_all(out: Array, x: Array) -> None:
    for i in range(x.size):
        out[i] = exp(x[i])


@kernel
def log_all(out: Array, x: Array) -> None:
    for i in range(x.size):
        out[i] = elementary.log(x[i])


@kernel
def turn_all(out: Array, turns: Array) -> None:
    for i in range(turns.size):
        out[i, 0], out[i, 1] = elementary.cos_sin(turns[i])


@kernel
def softmax_both(out: Array, slopes: Array, width: int, count: int) -> None:
    softmax(out, 0, width, count)
    softmax_backward(slopes, out, 0, width)


def sums_canary() -> str:
    found = []
    for dtype in (np.float32, np.float64):
        for size in SIZES:
            out = np.empty(4, np.float64)
            reduce_rows(out, numbers(size, dtype, 1), numbers(size, dtype, 2))
            found.append(out)
    return digest(*found)


def elementary_canary() -> str:
    found = []
    for dtype in (np.float32, np.float64):
        x = -np.minimum(np.abs(numbers(4096, dtype, 3)), dtype(90))
        out = np.empty_like(x)
        exp_all(out, x)
        found.append(out)
    uniform = (rng.words((2, 4096), 7, 4, 0) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
    logs, turns, normal = np.empty(4096), np.empty((4096, 2)), np.empty_like(uniform)
    log_all(logs, uniform[0])
    turn_all(turns, uniform[1])
    elementary.normal(normal, uniform)
    powers = np.array([elementary.power(base, k) for base in (0.9, 0.999, 0.5) for k in range(0, 3000, 37)])
    return digest(*found, logs, turns, normal, powers)


def products_canary() -> str:
    found = []
    for dtype in (np.float32, np.float64):
        for m, k, n in ((1, 5, 3), (7, 64, 50), (33, 515, 65), (70, 1030, 97)):
            a, b = numbers(m * k, dtype, 5).reshape(m, k), numbers(k * n, dtype, 6).reshape(k, n)
            a, b = np.clip(a, -1e3, 1e3), np.clip(b, -1e3, 1e3)
            scratch, out = np.empty(gemm.transposed_size(k, m), dtype), np.empty((m, n), dtype)
            gemm.multiply(out, a, b, scratch, False)
            found.append(out.copy())
            gemm.multiply_transposed(out, np.ascontiguousarray(a.T), b, scratch, True)
            found.append(out.copy())
    return digest(*found)


def softmax_canary() -> str:
    found = []
    for dtype in (np.float32, np.float64):
        for width, count in ((16, 16), (48, 37), (80, 80)):
            row, slopes = (np.clip(numbers(width, dtype, purpose), -50, 50) for purpose in (8, 9))
            softmax_both(row, slopes, width, count)
            found += [row, slopes]
    return digest(*found)


def random_canary() -> str:
    return digest(rng.words((64, 9), 7, 10, 3), rng.integers((1, 500), 37, 7, 11, 2), rng.bits((3, 200), 7, 12, 1))


def schedules_canary() -> str:
    kinds = ("constant", "cosine", "hold-cosine", "plateau")
    rates = []
    for kind in kinds:
        config = build(
            TrainConfig,
            {"lr": 0.05, "schedule": kind, "schedule_steps": 50, "warmup_steps": 5, "eval_every": 10},
        )
        rates += [learning_rate(config, step, Plateau(cuts=step // 9)) for step in range(60)]
    return digest(np.array(rates))


def distances_canary() -> str:
    found = []
    for index in range(6):
        words = rng.words((2, 40), 7, 13, index).astype(np.int64) % 5
        a, b = (Graph("abcde"[: 3 + index % 3], _edges(row, 3 + index % 3)) for row in words)
        exact, near = graph_edit_distance(a, b), bounds(a, b)
        found.append([exact.lower, exact.upper, near.lower, near.upper])
    return digest(np.array(found, np.float64))


def _edges(row: Array, nodes: int) -> list[tuple[int, int]]:
    pairs = [(i, j) for i in range(nodes) for j in range(i + 1, nodes)]
    return [pair for pair, word in zip(pairs, row.tolist(), strict=False) if word < 3]


KERNELS: dict[str, Callable[[], str]] = {
    "sums": sums_canary,
    "elementary functions": elementary_canary,
    "matrix products": products_canary,
    "softmax": softmax_canary,
    "random numbers": random_canary,
    "schedules": schedules_canary,
    "edit distances": distances_canary,
}


def task_canary(family: Family, task: str, device: Device) -> str:
    """Weights and every metric of a tiny training, its every draw in play."""
    found = family.tasks[task]
    settings = {**found.verify, **family.canary}
    config = resolve(family, override(found.presets["small"], settings))
    weights, metrics = trained_hashes(family, config, device, STEPS)
    return hashlib.sha256(f"{weights} {metrics}".encode()).hexdigest()


def names(families: Mapping[str, Family] | None = None) -> list[str]:
    """Of these families, or of all. Kernels first: where one of them differs, trainings do too."""
    chosen = (discover() if families is None else families).values()
    probes = [name for family in chosen for name in family.probes]
    return [*KERNELS, *probes, *(task for family in chosen for task in family.tasks)]


def canary(name: str, device: Device | None = None) -> str:
    """The hash that this machine computes, or for a task this device."""
    if name in KERNELS:
        with Workers(1):
            return KERNELS[name]()
    family = next(family for family in discover().values() if name in family.tasks or name in family.probes)
    if name in family.tasks and device is not None:
        return task_canary(family, name, device)
    with Workers(WORKERS, share_little=True) as workers:
        if name in family.tasks:
            return task_canary(family, name, workers)
        return digest(*family.probes[name](workers))


def check() -> Iterator[tuple[str, str, str | None]]:
    """(name, here, published) of every canary; a family of somebody else's has none published."""
    for name in names():
        yield name, canary(name), published().get(name)


def publish() -> None:
    """Write the canaries of this version: python -m samebits.verify.canary. Only where bits were meant to change."""
    content = {"bits": BITS, "canaries": {name: canary(name) for name in names(built_in())}}
    files.write(FILE, (json.dumps(content, indent=1) + "\n").encode())


if __name__ == "__main__":
    publish()
