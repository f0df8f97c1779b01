"""One contestant in a process of its own: python -m samebits.bench.runner SPEC.

It trains its first steps, answers with their losses and the weights' hash, then waits: for every order on standard
input it times some steps and answers on standard output, a line of JSON each way. So contestants compile once, keep
their own memory, and take turns while the others sleep.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.bench import bounds
from samebits.bench.on_gpu import cuda_name, describe, ours_on_gpu
from samebits.bench.peers import OnGpu, Problem
from samebits.bench.profile import peak_megabytes
from samebits.config import build
from samebits.devices.choose import device_for
from samebits.errors import GroupLostError
from samebits.families import discover
from samebits.groups.exchange import Links
from samebits.groups.torchrun import joined, launched
from samebits.training.ahead import compile_ahead
from samebits.training.params import views, weights_hash
from samebits.training.schedule import Plateau, learning_rate
from samebits.training.trainer import Trainer, resolve

BLOCK_SECONDS = 0.03


class Spec(NamedTuple):
    """What to run: samebits itself, a peer's module, or the bound. It travels as JSON."""

    family: str
    config: dict[str, Any]
    threads: int
    first_steps: int = 3  # trained before anything is timed: they are compared, and they warm up
    module: str | None = None  # a peer
    options: Mapping[str, Any] = MappingProxyType({})
    bound: bool = False
    deterministic: bool = False  # ask the peer for deterministic algorithms
    processes: int = 1  # `threads` of each
    device: str = "cpu"  # as --device names it


class Running(NamedTuple):
    prepare: Callable[[int], Any]  # not timed
    step: Callable[[int, Any], Any]  # (number, what prepare gave) → the loss
    weights: Callable[[], Array]
    on_gpu: OnGpu | None = None  # then a step is only queued, and the clock runs over several of them
    described: dict[str, str] = {}  # noqa: RUF012 - of the device; never changed


@contextmanager
def samebits_running(spec: Spec, links: Links | None = None) -> Iterator[Running]:
    family = discover()[spec.family]
    with device_for(spec.device, spec.threads) as device:
        config = resolve(family, build(family.config, spec.config))
        compile_ahead(family, config, device)
        trainer = Trainer(family, config, device, links=links)
        # Ours draws its batch inside the timing; the peers are handed theirs.
        loss, gpu = family.metrics.loss, device.waits_to_be_seen

        def step(number: int, ready: None) -> Any:
            trainer.advance()
            return trainer.metrics()[loss] if not gpu or number < spec.first_steps else None

        more = (ours_on_gpu(trainer), describe(device)) if gpu else ()
        yield Running(lambda number: None, step, lambda: device.download(trainer.params), *more)


@contextmanager
def peer_running(spec: Spec, links: Links | None = None) -> Iterator[Running]:
    family = discover()[spec.family]
    config = resolve(family, build(family.config, spec.config))
    data, params = family.load(config), family.init(config, np.float32)
    problem = Problem(
        config,
        views(family.layout(config), params),
        family.constants(config),
        lambda number: learning_rate(config, number, Plateau()),
    )
    assert spec.module is not None
    peer = importlib.import_module(spec.module)
    if spec.device == "cpu":
        stepper = peer.build(problem, **spec.options)
    else:
        stepper = peer.build_on(problem, cuda_name(spec.device), **spec.options)
    prepare = lambda number: stepper.ready(family.batch(config, data, number))  # noqa: E731
    yield Running(prepare, stepper.step, stepper.weights, stepper.on_gpu)


@contextmanager
def bound_running(spec: Spec, links: Links | None = None) -> Iterator[Running]:
    """The same work without the model: nothing to train, so no weights and no loss."""
    family = discover()[spec.family]
    work = bounds.work(family, resolve(family, build(family.config, spec.config)))
    yield Running(lambda number: None, lambda number, ready: work(), lambda: np.zeros(0, np.float32))


def _limit_threads(spec: Spec) -> None:
    """Of the whole process, before the peer is imported: JAX and OpenMP look at the cores and at the environment."""
    os.environ["OMP_NUM_THREADS"] = str(spec.threads)
    if spec.deterministic:  # not timed, and perhaps more threads than cores: let them sleep instead of spin
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    if (spec.module or "").endswith("jax") and spec.device == "cpu" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: spec.threads])
    if (spec.module or "").endswith("torch") or spec.deterministic:
        import torch

        # As samebits does (devices/cpu/modes.py), and before the pool starts, so that its threads inherit the mode.
        torch.set_flush_denormal(True)
        torch.set_num_threads(spec.threads)
        torch.use_deterministic_algorithms(spec.deterministic)


def start_others(spec: Spec) -> None:
    """The other processes of a group; this one becomes rank 0, and holds the conversation."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port = str(found.getsockname()[1])
    os.environ["SAMEBITS_TIMEOUT"] = "36000"  # while others take their turns, or compile
    count = str(spec.processes)
    os.environ |= {"RANK": "0", "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    for rank in range(1, spec.processes):
        command, env = [sys.executable, "-m", "samebits.bench.runner", *sys.argv[1:]], {**os.environ, "RANK": str(rank)}
        subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def serve(spec: Spec) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that prints must not spoil the conversation

    def answer(content: dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    kind = bound_running if spec.bound else peer_running if spec.module else samebits_running
    if spec.module:
        _limit_threads(spec)
    if spec.processes > 1 and not launched():
        start_others(spec)
    start = time.perf_counter()
    with joined() as links, kind(spec, links) as running:
        losses, first = [], 0.0
        for number in range(spec.first_steps):
            loss = running.step(number, running.prepare(number))
            losses.append(running.on_gpu.loss() if running.on_gpu and loss is None else loss)
            first = first or time.perf_counter() - start
        number = spec.first_steps
        if links is not None and links.rank > 0:
            follow(links, running, number)
        hashed = weights_hash(running.weights())
        answer({"losses": losses, "first_seconds": first, "weights": hashed, "device": running.described})
        for line in sys.stdin:
            order = json.loads(line)
            times = take_turn(running, number, **order) if links is None else lead(links, running, number, **order)
            number += len(times)
            on_gpu = running.on_gpu.megabytes() if running.on_gpu else None
            answer({"times": times, "peak_megabytes": peak_megabytes(), "gpu_megabytes": on_gpu})


def lead(links: Links, running: Running, number: int, steps: int, least: float, most: float) -> list[float]:
    """A turn of several processes: all must know beforehand how many steps it has. The first one tells how long."""
    pace = _steps(links, running, number, 1)[0] / 1e3
    count = max(1, min(int(most / pace), max(steps, int(least / pace))))
    return _steps(links, running, number + 1, count)


def _steps(links: Links, running: Running, number: int, count: int) -> list[float]:
    links.broadcast(np.array([number, count], np.int64))
    return take_turn(running, number, count, 0.0, math.inf)


def follow(links: Links, running: Running, number: int) -> NoReturn:
    """Another process of a group: as many steps as rank 0 says, until it is gone."""
    order = np.zeros(2, np.int64)
    try:
        while True:
            links.broadcast(order)
            take_turn(running, int(order[0]), int(order[1]), 0.0, math.inf)
    except GroupLostError:
        os._exit(0)


def take_turn(running: Running, number: int, steps: int, least: float, most: float) -> list[float]:
    """Milliseconds of each step from `number` on: `steps` of them, but for `least` to `most` seconds.

    Steps that a GPU queues are timed in blocks, and each counts as a part of its block: 1, 2, 4 … steps, until the wait
    at the end is little beside them.
    """
    times: list[float] = []
    block, start = 1, time.perf_counter()
    while True:
        first = number + len(times)
        ready = [running.prepare(first + i) for i in range(block)]
        begin = time.perf_counter()
        for i, batch in enumerate(ready):
            running.step(first + i, batch)
        if running.on_gpu:
            running.on_gpu.wait()
        end = time.perf_counter()
        times += [1e3 * (end - begin) / block] * block
        if end - start >= most or (len(times) >= steps and end - start >= least):
            return times
        if running.on_gpu and end - begin < BLOCK_SECONDS:
            block *= 2


if __name__ == "__main__":
    serve(Spec(**json.loads(sys.argv[1])))
