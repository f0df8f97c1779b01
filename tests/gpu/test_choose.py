"""Which device computes, and what it can promise."""

import numpy as np
import pytest

from samebits.engine.workers import Workers
from samebits.errors import SamebitsError
from samebits.gpu import choose, opened
from samebits.gpu.probe import promises


def test_pocl_keeps_every_promise(gpu):
    assert all(promises(gpu).values()), promises(gpu)


def test_a_device_that_cannot_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(opened, "promises", lambda device: {"fma": True, "division": False})
    with (
        pytest.raises(SamebitsError, match="cannot keep the promise: division is not as on the CPU"),
        choose.device_for("opencl", 1),
    ):
        pass
    with choose.device_for("opencl", 1, inexact=True) as device:
        assert device.download(device.upload(np.arange(3.0)))[2] == 2


def test_the_cpu_is_workers():
    with choose.device_for("cpu", 3) as device:
        assert isinstance(device, Workers)
        assert device.count == 3


@pytest.mark.parametrize("bad", ["", "gpu:1", "cpu:0", "cuda:", "opencl:-1", "opencl:9999", "metal", 3, None])
def test_names_that_are_none(bad):
    with pytest.raises(SamebitsError, match=r"device is .*it must be cpu, gpu, cuda or opencl"):
        choose.device_for(bad, 1)


def test_a_number_that_does_not_exist():
    with (
        pytest.raises(SamebitsError, match="device is opencl:99; this machine has "),
        choose.device_for("opencl:99", 1),
    ):
        pass


def test_cuda_without_cupy_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(SamebitsError, match=r"pip install 'samebits\[cuda\]'"), choose.device_for("cuda", 1):
        pass
