"""Which device computes, and what it can promise."""

import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from samebits.devices import choose
from samebits.devices.cpu.workers import Workers
from samebits.devices.gpu import opened
from samebits.devices.gpu.probe import promises
from samebits.devices.gpu.problems import explained
from samebits.errors import SamebitsError


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
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(SamebitsError, match=r"pip install 'samebits\[cuda\]'"), choose.device_for("cuda", 1):
        pass


def test_why_there_is_no_cuda_device(monkeypatch):
    runtime = SimpleNamespace(getDeviceCount=Mock(side_effect=RuntimeError("the driver is older than CUDA 12")))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    assert choose.every_gpu()[0][0] == "opencl"
    with pytest.raises(SamebitsError, match=r"0 cuda devices \('the driver is older than CUDA 12'\)"):
        choose.backend_of("cuda", None)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("cuda.pathfinder", 'Failure finding "libnvrtc.so.12": No such file'),  # CuPy from 14 on
        ("builtins", "CuPy failed to load libnvrtc.so.12: OSError: cannot open shared object file"),
        ("builtins", "CuPy failed to load nvrtc64_120_0.dll: FileNotFoundError"),
    ],
)
def test_a_compiler_that_is_missing_has_a_remedy(module, told):
    error = type("DynamicLibNotFoundError", (RuntimeError,), {"__module__": module})(told)
    assert "does not find NVRTC" in str(explained(error, "a GPU"))
    assert "pip install 'samebits[cuda]' brings it" in str(explained(error, "a GPU"))


def test_other_errors_are_nobodys():
    assert explained(RuntimeError("no such thing"), "a GPU") is None
