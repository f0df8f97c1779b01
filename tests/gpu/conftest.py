"""A device that behaves like a GPU: PoCL, which pip installs. The kernels are the real ones, barriers and all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samebits.engine.workers import Workers
from samebits.gpu.opencl import OpenCL, devices
from samebits.gpu.opened import OpenedGpu


@pytest.fixture(scope="session")
def gpu() -> Iterator[OpenedGpu]:
    with Workers(1) as workers:
        yield OpenedGpu(OpenCL(devices()[0]), workers)
