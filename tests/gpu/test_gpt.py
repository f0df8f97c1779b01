"""The GPT on a device: weights, losses and evaluations have the bits of the CPU."""

import pytest

from samebits.devices.gpu import products
from tests.gpu.training import check_bits

GENERATED = {"data": "generated"}
CASES = [
    {},  # with dropout
    {"context": 11, "width": 10, "batch_size": 3},  # sizes that fill no tile, and a unit with one sample
    {"final_norm": False, "dropout": 0.0, "heads": 1, "unit_samples": 1},
    {"context": 40, "width": 136, "heads": 2, "layers": 1, "batch_size": 2},  # a product of more than 512 terms
]


@pytest.mark.parametrize("more", CASES, ids=range(len(CASES)))
def test_training_has_the_bits_of_the_cpu(gpu, more):
    check_bits(gpu, "gpt", {**GENERATED, **more})


@pytest.mark.parametrize(
    ("size", "more"),
    [
        (products.LARGE, {"width": 48, "heads": 3, "layers": 1}),
        (products.LARGE, {"width": 10, "layers": 1}),  # nothing is even
        (products.SQUARE, {"width": 10, "layers": 1}),
    ],
    ids=["large", "large, odd", "square, odd"],
)
def test_larger_tiles_have_them_too(gpu, monkeypatch, size, more):
    monkeypatch.setattr(products, "size_for", lambda *shape: size)
    check_bits(gpu, "gpt", {**GENERATED, "dropout": 0.0, "batch_size": 2, "context": 19, **more})
