"""A GPU as --device opens it: what it cannot promise is known, and the CPU's workers stand by."""

from __future__ import annotations

from typing import Any

import numpy as np

from samebits.devices.cpu.workers import Workers
from samebits.devices.gpu.device import Gpu
from samebits.devices.gpu.probe import promises
from samebits.devices.gpu.problems import explained
from samebits.errors import SamebitsError


def require_single(params: Any) -> None:
    """The kernels are for float32; a model may have been loaded as float64."""
    if params.dtype != np.float32:
        raise SamebitsError(f"the weights are {params.dtype}; a GPU computes in float32; load the run without dtype")


class OpenedGpu(Gpu):
    """The rest of devices/interface.py."""

    shares_memory = False

    def __init__(self, backend: Any, workers: Workers) -> None:
        super().__init__(backend)
        self.workers = workers
        self.promises: dict[str, bool] = {}

    @property
    def name(self) -> str:
        return str(self.backend.name)

    def probe(self) -> None:
        """Find out what it can promise."""
        self.promises = promises(self)

    @property
    def lacks(self) -> tuple[str, ...]:
        return tuple(name for name, kept in self.promises.items() if not kept)

    def forget(self) -> None:
        super().__init__(self.backend)

    def problem(self, error: Exception) -> SamebitsError | None:
        return explained(error, self.name)
