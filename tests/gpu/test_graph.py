"""Graph networks on a device: weights, losses and evaluations have the bits of the CPU."""

import pytest

from samebits.config import override
from samebits.engine.trainer import resolve
from samebits.engine.workers import Workers
from samebits.families import find_preset, find_task
from tests.gpu.test_automata import trained

CASES = [
    ("boolean", {"batch_size": 61, "sinkhorn": 0.5}),
    ("boolean", {"activation": "relu", "width": 20}),
    ("peano", {}),
    ("arithmetic", {}),
    ("algebra", {}),
    ("derivative", {}),
]


@pytest.mark.parametrize(("task", "more"), CASES)
def test_training_has_the_bits_of_the_cpu(gpu, task, more):
    family, _ = find_task(task)
    config = resolve(family, override(find_preset(task, "small"), more))
    with Workers(2) as workers:
        wanted = trained(family, config, workers)
    assert trained(family, config, gpu) == wanted
