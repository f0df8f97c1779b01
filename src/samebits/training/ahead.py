"""Compilation ahead of time: everything that training posts is compiled before it begins, in several processes."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from samebits.config import TrainConfig
from samebits.devices.cpu.rehearsal import Rehearsal, prepare
from samebits.devices.interface import Device
from samebits.training.contract import Family
from samebits.training.trainer import Trainer


def compile_ahead(family: Family, config: TrainConfig, device: Device, dtype: DTypeLike = np.float32) -> None:
    """Compile what training with this config needs on this device, unless that was done before on this machine.

    Nothing depends on it: a kernel that was not compiled ahead is compiled when it is first posted, by one process.
    """

    def post(recorder: Rehearsal) -> None:
        Trainer(family, config, recorder, dtype).post_everything()

    prepare(family.name, config, np.dtype(dtype), device, post)
