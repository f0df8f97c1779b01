"""Devices that behave like GPUs: PoCL, which pip installs, and a CPU that plays an NVIDIA one (stand_in).

The kernels are the real ones, barriers and all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from samebits.devices.cpu.modes import ARM_FLUSH, FLUSHING, X86_FLUSH, flushing, set_mode
from samebits.devices.cpu.workers import Workers
from samebits.devices.gpu.cuda import Cuda
from samebits.devices.gpu.opencl import OpenCL, devices
from samebits.devices.gpu.opened import OpenedGpu

STAND_IN = Path(__file__).parent / "stand_in"
ORDERS = {"forwards": (0, False), "backwards": (1, True), "drawn": (2, False)}  # of threads; a second stream soon
USUAL = FLUSHING & ~(X86_FLUSH | ARM_FLUSH)


@pytest.fixture(scope="session")
def stand_in() -> Iterator[Any]:
    """Its CuPy, for a whole session: what is imported stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(STAND_IN))
        import cupy

        assert str(STAND_IN) in str(cupy.__file__)
        yield cupy


@pytest.fixture
def cupy(stand_in: Any) -> Iterator[Any]:
    yield stand_in
    stand_in.cuda.forget()


@contextmanager
def usual_arithmetic() -> Iterator[None]:
    """Denormal numbers are kept, though there are workers: other tests of the session may need them."""
    before = set_mode(USUAL)
    yield
    set_mode(before)


@pytest.fixture(scope="session", params=["opencl", *(pytest.param(one, marks=pytest.mark.cuda) for one in ORDERS)])
def opened(request: pytest.FixtureRequest) -> Iterator[OpenedGpu]:
    with Workers(1) as workers, usual_arithmetic():
        if request.param == "opencl":
            yield OpenedGpu(OpenCL(devices()[0]), workers)
            return
        choice = request.getfixturevalue("stand_in").cuda.CHOICE
        choice.threads, choice.eager = ORDERS[request.param]
        yield OpenedGpu(Cuda(), workers)


@pytest.fixture
def gpu(opened: OpenedGpu) -> Iterator[OpenedGpu]:
    with flushing():
        yield opened
