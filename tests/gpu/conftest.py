"""A device that behaves like a GPU: PoCL, which pip installs. The kernels are the real ones, barriers and all."""

from __future__ import annotations

import pytest

from samebits.gpu.device import Gpu
from samebits.gpu.opencl import OpenCL, devices


@pytest.fixture(scope="session")
def gpu() -> Gpu:
    return Gpu(OpenCL(devices()[0]))
