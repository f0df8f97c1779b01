"""Trainings of all shapes on a CPU that plays an NVIDIA GPU (stand_in), held to the CPU's bits: make fuzz-gpu

A number decides all: the config, the GPU's sizes and the orders it chooses. One that ends badly is printed with the
command that repeats it."""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.devices.gpu import products
from samebits.devices.gpu.cuda import Cuda
from samebits.devices.gpu.opened import OpenedGpu
from samebits.families import find_preset, find_task
from samebits.training.params import weights_hash
from samebits.training.trainer import Trainer, resolve
from tests.gpu.conftest import STAND_IN

Training = tuple[str, dict[str, Any]]


def gpt(draw: random.Random) -> Training:
    heads = draw.choice([1, 1, 2, 3, 4, 5])
    of_head = draw.choice([1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 33, 40, 64, 70])
    return "gpt", {
        "data": "generated", "heads": heads, "width": heads * (of_head if heads * of_head >= 8 else 8),
        "context": draw.choice([2, 3, 7, 16, 31, 32, 33, 63, 64, 65, 100, 130, 257]),
        "layers": draw.choice([1, 1, 2, 3]), "batch_size": draw.choice([1, 2, 3, 5, 8]),
        "unit_samples": draw.choice([1, 2, 3]), "micro_batches": draw.choice([1, 1, 2]), "eval_samples": 3,
        "dropout": draw.choice([0.0, 0.1]), "final_norm": draw.random() < 0.7,
    }  # fmt: skip


def automaton(draw: random.Random) -> Training:
    lanes, task = draw.choice([32, 64, 96, 128]), draw.choice(["checkerboard", "checkerboard-async", "life"])
    if task == "life":
        return task, {"lanes": lanes, "batch_size": draw.choice([1, 7, 33])}
    channels, kernels = draw.choice([1, 2, 3, 5, 8]), draw.choice([1, 2, 3, 5, 11])
    layers, gates = [], channels * (1 + 2 * kernels)
    while gates > 2 * channels or not layers:  # a layer reaches all of the one before
        least = -(-gates // 2)
        gates = max(channels, draw.randint(least, max(least, min(gates, 300))))
        layers.append(gates)
    return task, {
        "lanes": lanes, "channels": channels, "kernels": kernels, "update": (*layers, channels),
        "height": draw.randint(3, 12), "width": draw.randint(3, 12), "boundary": draw.choice(["zeros", "periodic"]),
        "batch_size": draw.choice([1, 2, 5]), "ca_steps": draw.choice([1, 2, 3]),
    }  # fmt: skip


def graph(draw: random.Random) -> Training:
    task = draw.choice(["boolean", "peano", "arithmetic", "algebra", "derivative", "rewrite"])
    return task, {
        "width": draw.choice([4, 8, 20, 33, 64]), "batch_size": draw.choice([1, 3, 17, 61]),
        "sinkhorn": draw.choice([0.0, 0.5]), "activation": draw.choice(["relu", "bend"]),
    }  # fmt: skip


def trained(training: Training, device: Any) -> tuple[str, list[Any]]:
    """Three steps, one of which nobody looks at, and an evaluation."""
    task, settings = training
    family, _ = find_task(task)
    config = resolve(family, override(find_preset(task, "small"), settings))
    trainer = Trainer(family, config, device)
    rows = [trainer.step()]
    trainer.advance()
    rows += [trainer.step(), trainer.evaluate(family.evaluation(config, trainer.data, False))]
    return weights_hash(device.download(trainer.params)), rows


@contextmanager
def drawn_gpu(draw: random.Random, workers: Workers) -> Iterator[OpenedGpu]:
    import cupy

    choice, size = cupy.cuda.CHOICE, draw.choice([None, products.LARGE, products.SQUARE])
    with (
        patch.object(choice, "threads", draw.randrange(3)),
        patch.object(choice, "eager", draw.random() < 0.5),
        patch.object(choice, "room", draw.choice([48 << 10, 99 << 10, 227 << 10])),
        patch.object(choice, "busy", draw.choice([6, 40, 132])),
        patch.object(products, "ENOUGH_OF_UNITS", draw.choice([0, products.ENOUGH_OF_UNITS])),
        patch.object(products, "size_for", (lambda *shapes: size) if size else products.size_for),
    ):
        yield OpenedGpu(Cuda(), workers)


def check(number: int) -> Training:
    """Raises where the bits differ; the training that was drawn."""
    draw = random.Random(number)
    training = draw.choice([gpt, gpt, automaton, automaton, graph])(draw)
    with Workers(1) as workers:
        wanted = trained(training, workers)
        with drawn_gpu(draw, workers) as device:
            assert trained(training, device) == wanted, f"{number}: {training}"
    return training


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.search", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first training")
    parser.add_argument("--once", action="store_true", help="that one alone")
    asked = parser.parse_args()
    sys.path.insert(0, str(STAND_IN))
    end, number, bad = time.monotonic() + 60 * asked.minutes, asked.first, 0
    while number == asked.first or (not asked.once and time.monotonic() < end):
        try:
            check(number)
        except Exception:
            bad += 1
            print(f"python -m tests.gpu.search --once --first {number}", traceback.format_exc(), sep="\n", flush=True)
        number += 1
    print(f"{number - asked.first} trainings, {bad} of them bad")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
