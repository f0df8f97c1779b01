"""Devices that behave like GPUs: PoCL, which pip installs, and a CPU that plays an NVIDIA one (stand_in).

The kernels are the real ones, barriers and all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from samebits.engine.workers import Workers
from samebits.gpu.cuda import Cuda
from samebits.gpu.opencl import OpenCL, devices
from samebits.gpu.opened import OpenedGpu

STAND_IN = Path(__file__).parent / "stand_in"
ORDERS = {
    "forwards": (0, False),
    "backwards": (1, True),
    "drawn": (2, False),
}  # of threads; a second stream soon or late


@pytest.fixture(scope="session")
def cupy() -> Iterator[object]:
    """The one of stand_in, for a whole session: what is imported stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(STAND_IN))
        import cupy

        assert str(STAND_IN) in str(cupy.__file__)
        yield cupy


@pytest.fixture(scope="session", params=["opencl", *(pytest.param(order, marks=pytest.mark.cuda) for order in ORDERS)])
def gpu(request: pytest.FixtureRequest) -> Iterator[OpenedGpu]:
    with Workers(1) as workers:
        if request.param == "opencl":
            yield OpenedGpu(OpenCL(devices()[0]), workers)
            return
        choice = request.getfixturevalue("cupy").cuda.CHOICE
        choice.threads, choice.eager = ORDERS[request.param]
        yield OpenedGpu(Cuda(), workers)
