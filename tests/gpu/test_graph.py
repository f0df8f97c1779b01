"""Graph networks on a device: weights, losses and evaluations have the bits of the CPU."""

import pytest

from tests.gpu.training import check_bits

CASES = [
    ("boolean", {"batch_size": 61, "sinkhorn": 0.5}),
    ("boolean", {"activation": "relu", "width": 20}),
    ("peano", {}),
    ("arithmetic", {}),
    ("algebra", {}),
    ("derivative", {}),
    ("algebra", {"batch_size": 1}),  # its first graph has no edges
    ("boolean", {"batch_size": 1, "seed": 1, "sinkhorn": 0.5}),  # likewise
]


@pytest.mark.parametrize(("task", "more"), CASES)
def test_training_has_the_bits_of_the_cpu(gpu, task, more):
    check_bits(gpu, task, more)
