"""A training step on a few cores, on many and on a GPU, and the batch size from which the GPU is the fastest."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from samebits.bench.cases import OURS, Row
from samebits.bench.contest import Note
from samebits.bench.on_gpu import describe, ours_on_gpu
from samebits.bench.runner import Running, take_turn
from samebits.config import TrainConfig, override
from samebits.devices.cpu.workers import Workers
from samebits.devices.interface import Device
from samebits.errors import SamebitsError
from samebits.training.ahead import compile_ahead
from samebits.training.contract import Family
from samebits.training.params import weights_hash
from samebits.training.trainer import Trainer, resolve

NAME = "devices"  # as `samebits bench` knows it
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WARM_UP = 3  # steps, whose weights are compared
TURNS = 3  # of which the median counts: whatever disturbs one of them does not
SECONDS = 0.1  # of steps that are timed in each


def compare_devices(
    family: Family, config: TrainConfig, counts: Sequence[int], gpu: Device, sizes: Sequence[int], note: Note
) -> dict[str, Any]:
    """Rows at the config's batch size, on the CPU at every count and on the GPU; then sizes from below, on the GPU and
    at the largest count, until the GPU is faster. The data is loaded once, whatever the batch."""
    config, many = resolve(family, config), max(counts)
    data = family.load(config)
    loaded = replace(family, load=lambda config: data)
    rows: list[Row] = []
    hashes = set()

    def timed(batch: int, workers: int | None) -> float:
        known = [row["median"] for row in rows if (row["batch_size"], row["threads"]) == (batch, workers)]
        if known:
            return float(known[0])
        who = f"{workers} worker{'s' if workers > 1 else ''}" if workers else "the GPU"
        note(f"batch {batch}, {who}")
        wanted = override(config, {"batch_size": batch})
        if workers is None:
            times, weights = time_steps(loaded, wanted, gpu)
        else:
            with Workers(workers) as team:
                times, weights = time_steps(loaded, wanted, team)
        if batch == config.batch_size:
            hashes.add(weights)
        rows.append({"system": OURS, "batch_size": batch, "threads": workers, "steps": len(times),
                     "median": statistics.median(times)})  # fmt: skip
        return float(rows[-1]["median"])

    for workers in (None, *counts):
        timed(config.batch_size, workers)
    if len(hashes) != 1:
        raise SamebitsError("the devices give different bits; a timing would be meaningless")
    pays_from = next((batch for batch in sorted(sizes) if timed(batch, None) < timed(batch, many)), None)
    return {"gpu": describe(gpu), "rows": rows, "pays_from": pays_from, "largest": max(sizes)}


def time_steps(family: Family, config: TrainConfig, device: Device) -> tuple[list[float], str]:
    """Milliseconds of the steps of the middle turn, and the hash of the weights before the first of them."""
    compile_ahead(family, config, device)
    trainer = Trainer(family, config, device)
    for _ in range(WARM_UP):
        trainer.advance()
    weights = weights_hash(device.download(trainer.params))
    on_gpu = ours_on_gpu(trainer) if device.waits_to_be_seen else None
    running = Running(lambda number: None, lambda number, ready: trainer.advance(), lambda: trainer.params, on_gpu)
    turns = [take_turn(running, WARM_UP, 1, SECONDS, 4 * SECONDS) for _ in range(TURNS)]
    return sorted(turns, key=statistics.median)[TURNS // 2], weights
