"""--device from end to end: runs that change devices, what is refused, and devices that fail."""

import itertools
import tomllib

import numpy as np
import pyopencl as cl
import pytest

import samebits
from samebits.cli import doctor
from samebits.devices.gpu import opened
from samebits.devices.gpu.opencl import OpenCL
from samebits.errors import DeviceError, DeviceMemoryError, SamebitsError
from samebits.training.computation import Computation
from tests.helpers import samebits_here, snapshot, weights_line

TINY = {"preset": "small", "workers": 1, "batch_size": 2, "log_every": 3, "checkpoint_every": 2, "eval_every": 4}
WORDS = ("--preset", "small", "--batch-size", 1, "--steps", 2, "--workers", 1)


class KilledError(Exception):
    """What a test does to a run in the middle."""


def killed_after(last):
    def observe(step, row):
        if step == last:
            raise KilledError

    return observe


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Seven steps on the CPU."""
    return samebits.train("life", out=tmp_path_factory.mktemp("whole") / "run", steps=7, **TINY)


def imprecise(device):
    return {"fma": True, "division": False}


@pytest.mark.parametrize(("first", "then"), [("cpu", "opencl"), ("opencl", "cpu"), ("opencl", "opencl:0")])
def test_a_killed_run_goes_on_elsewhere_with_the_same_bits(tmp_path, whole, first, then):
    with pytest.raises(KilledError):
        samebits.train("life", out=tmp_path / "run", steps=7, device=first, observe=killed_after(5), **TINY)
    done = samebits.resume(tmp_path / "run", device=then, workers=1)
    assert done.outcome.step == 7
    assert done.weights_hash == whole.weights_hash
    for name in ("metrics.csv", "checkpoints/step-7/arrays.safetensors"):
        assert (done.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_numbers_that_are_not_finite_are_never_saved(tmp_path, monkeypatch):
    """At a step that nobody looks at: none is logged after the first."""
    post, steps = Computation.post_gradient, itertools.count()

    def poisoned(computation, batch, plan):
        sums = post(computation, batch, plan)
        if next(steps) == 2:
            sums.gradient[:] = np.nan
        return sums

    monkeypatch.setattr(Computation, "post_gradient", poisoned)
    rare = {**TINY, "log_every": 100, "eval_every": 0}
    with pytest.raises(SamebitsError, match="step 4 or one before it: a gradient or parameter is not finite"):
        samebits.train("life", out=tmp_path / "run", steps=9, device="opencl", **rare)
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == ["step-2"]


def test_what_a_device_cannot_promise_stays_written_down(tmp_path, monkeypatch):
    monkeypatch.setattr(opened, "promises", imprecise)
    refused = samebits_here("train", "life", *WORDS, "--device", "opencl", cwd=tmp_path)
    assert refused.returncode == 2
    assert "cannot keep the promise: division is not as on the CPU; use --device cpu, or --inexact" in refused.stderr
    assert snapshot(tmp_path) == {}
    words = ("train", "life", *WORDS, "--device", "opencl", "--inexact", "--out", "run")
    done = samebits_here(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "inexact: trained with --inexact (" in done.stdout
    again = samebits_here("resume", "run", "--steps", 3, "--workers", 1, cwd=tmp_path)  # a CPU takes nothing back
    assert "inexact: trained with --inexact (" in again.stdout
    (told,) = tomllib.loads((tmp_path / "run/config.toml").read_text())["made_with"]["inexact"]
    assert told.endswith(": division")
    assert "inexact: trained with --inexact (" in samebits_here("eval", "run", "--workers", 1, cwd=tmp_path).stdout


def test_a_run_of_a_device_that_can_says_nothing(tmp_path):
    done = samebits_here("train", "life", *WORDS, "--device", "opencl", "--inexact", "--out", "run", cwd=tmp_path)
    assert "inexact" not in done.stdout + (tmp_path / "run/config.toml").read_text()
    assert weights_line(done.stdout)


def test_a_batch_that_does_not_fit_names_one_that_does(tmp_path, monkeypatch):
    monkeypatch.setattr(opened, "promises", lambda device: {})  # which takes memory, too
    allocate, sizes = OpenCL.allocate, []
    monkeypatch.setattr(OpenCL, "allocate", lambda backend, size: sizes.append(size) or allocate(backend, size))
    wanted = samebits.train("life", out=tmp_path / "all", steps=2, device="opencl", **{**TINY, "batch_size": 16})

    def small(backend, size):
        if size > max(sizes) // 2:
            raise cl.MemoryError("clCreateBuffer failed: MEM_OBJECT_ALLOCATION_FAILURE")
        return allocate(backend, size)

    monkeypatch.setattr(OpenCL, "allocate", small)
    with pytest.raises(DeviceMemoryError) as caught:
        samebits.train("life", out=tmp_path / "run", steps=2, device="opencl", **{**TINY, "batch_size": 16})
    told = str(caught.value)
    assert "has too little memory for this; batch_size is 16; " in told
    fits = int(told.split("batch_size is 16; ")[1].split()[0])
    assert 1 <= fits < 16
    assert f"micro_batches={16 // fits}" in told
    samebits.train("life", out=tmp_path / "fits", steps=2, device="opencl", **{**TINY, "batch_size": fits})
    parted = samebits.resume(tmp_path / "run", device="opencl", workers=1, micro_batches=16 // fits)
    assert parted.weights_hash == wanted.weights_hash


def test_a_device_that_disappears_leaves_the_last_checkpoint(tmp_path, monkeypatch, whole):
    finish, gone = OpenCL.finish, False

    def broken(backend):
        if gone:
            raise cl.RuntimeError("clFinish failed: DEVICE_NOT_AVAILABLE")
        finish(backend)

    def observe(step, row):
        nonlocal gone
        gone = step == 5

    monkeypatch.setattr(OpenCL, "finish", broken)
    with pytest.raises(
        DeviceError, match=r"stopped working \(.*DEVICE_NOT_AVAILABLE.*step-4, is intact.*samebits resume .*run"
    ):
        samebits.train("life", out=tmp_path / "run", steps=7, device="opencl", observe=observe, **TINY)
    assert samebits.resume(tmp_path / "run", workers=1).weights_hash == whole.weights_hash


def test_a_kernel_that_does_not_compile_leaves_its_log(tmp_path, monkeypatch):
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("samebits.devices.gpu.dialect.read", lambda *files: "KERNEL void probe(int x) { broken }")
    done = samebits_here("train", "life", *WORDS, "--device", "opencl", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    log = tmp_path / "cache/gpu-compiler.log"
    assert "a kernel does not compile for pthread" in done.stderr
    assert str(log) in done.stderr
    assert "error:" in log.read_text()
    assert not (tmp_path / "run").exists()


def test_verify_compares_a_device_with_the_cpu(tmp_path, monkeypatch):
    words = ("verify", "life", "--preset", "small", "--steps", 1, "--workers", "1,2", "--device", "opencl")
    done = samebits_here(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the same bits for 1, 2 workers and pthread" in done.stdout
    assert "bits as published" in done.stdout
    monkeypatch.setattr("samebits.cli.verify.trained_hashes", lambda *given: ("a" * 64, "b" * 64))
    done = samebits_here(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert "DIFFERENT bits among 1, 2 workers and pthread" in done.stdout


def test_doctor_says_what_a_device_promises(monkeypatch, capsys):
    assert doctor.describe_gpus(canaries=False)
    said = capsys.readouterr().out
    assert "--device opencl:0" in said
    assert "as published" in said
    assert said.count("as on the CPU") == 8
    monkeypatch.setattr("samebits.cli.doctor.published", lambda: {"life": "0" * 64})
    assert not doctor.describe_gpus(canaries=False)
    monkeypatch.setattr(opened, "promises", imprecise)
    assert doctor.describe_gpus(canaries=False)  # nobody promised anything
    assert "--device opencl:0 is refused without --inexact: division" in capsys.readouterr().out


def test_without_pyopencl_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyopencl", None)
    done = samebits_here("train", "life", *WORDS, "--device", "opencl", cwd=tmp_path)
    assert (done.returncode, "pip install 'samebits[opencl]'" in done.stderr) == (2, True)
    done = samebits_here("eval", ".", "--device", "gpu", cwd=tmp_path)
    assert done.returncode == 2
    assert snapshot(tmp_path) == {}
