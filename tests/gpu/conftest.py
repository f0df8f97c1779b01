"""A device that behaves like a GPU: PoCL, which pip installs. The kernels are the real ones, barriers and all."""

from __future__ import annotations

import pytest

from samebits.engine.workers import Workers
from samebits.gpu.opencl import OpenCL, devices
from samebits.gpu.opened import OpenedGpu


@pytest.fixture(scope="session")
def gpu() -> OpenedGpu:
    return OpenedGpu(OpenCL(devices()[0]), Workers(1))
