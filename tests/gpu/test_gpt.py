"""The GPT on a device: weights, losses and evaluations have the bits of the CPU."""

import pytest

from samebits.config import override
from samebits.engine.trainer import resolve
from samebits.engine.workers import Workers
from samebits.families import find_preset, find_task
from tests.gpu.test_automata import trained

GENERATED = {"data": "generated"}
CASES = [
    {},  # with dropout
    {"context": 11, "width": 10, "batch_size": 3},  # sizes that fill no tile, and a unit with one sample
    {"final_norm": False, "dropout": 0.0, "heads": 1, "unit_samples": 1},
    {"context": 40, "width": 136, "heads": 2, "layers": 1, "batch_size": 2},  # a product of more than 512 terms
]


@pytest.mark.parametrize("more", CASES, ids=range(len(CASES)))
def test_training_has_the_bits_of_the_cpu(gpu, more):
    family, _ = find_task("gpt")
    config = resolve(family, override(find_preset("gpt", "small"), {**GENERATED, **more}))
    with Workers(2) as workers:
        wanted = trained(family, config, workers)
    assert trained(family, config, gpu) == wanted
