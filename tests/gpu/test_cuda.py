"""--device cuda from end to end, on a CPU that plays an NVIDIA GPU: a large one, or a small one."""

import os

import pytest

import samebits
from samebits.devices import choose
from samebits.errors import DeviceError, DeviceMemoryError
from tests.gpu import search
from tests.gpu.conftest import STAND_IN
from tests.gpu.test_commands import TINY, WORDS, KilledError, killed_after
from tests.gpu.training import check_bits
from tests.helpers import samebits as samebits_in_a_process
from tests.helpers import samebits_here, weights_line

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("cupy")]
SMALL = {
    "a laptop's": (99 << 10, 20),
    "of 2018": (64 << 10, 40),
    "of 2016": (48 << 10, 6),
}  # bytes of a group; processors


@pytest.mark.parametrize(("room", "busy"), SMALL.values(), ids=SMALL)
@pytest.mark.parametrize(
    ("task", "more"), [("checkerboard", {"ca_steps": 2}), ("letter", {"ca_steps": 2}), ("gpt", {"data": "generated"})]
)
def test_smaller_gpus_have_the_bits_of_the_cpu(cupy, monkeypatch, room, busy, task, more):
    monkeypatch.setattr(cupy.cuda.CHOICE, "room", room)
    monkeypatch.setattr(cupy.cuda.CHOICE, "busy", busy)
    with choose.device_for("cuda", 1) as device:
        check_bits(device, task, more)


@pytest.mark.parametrize("number", range(16))
def test_trainings_of_all_shapes_have_the_bits_of_the_cpu(number):
    search.check(number)


@pytest.mark.parametrize(("first", "then"), [("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "opencl")])
@pytest.mark.parametrize("task", ["life", "gpt"])
def test_a_killed_run_goes_on_elsewhere_with_the_same_bits(tmp_path, task, first, then):
    more = TINY if task == "life" else {**TINY, "data": "generated"}
    whole = samebits.train(task, out=tmp_path / "whole", steps=7, **more)
    with pytest.raises(KilledError):
        samebits.train(task, out=tmp_path / "run", steps=7, device=first, observe=killed_after(5), **more)
    done = samebits.resume(tmp_path / "run", device=then, workers=1)
    for name in ("metrics.csv", "checkpoints/step-7/arrays.safetensors"):
        assert (done.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_verify_and_doctor_in_a_process_of_their_own(tmp_path):
    env = {"PYTHONPATH": os.pathsep.join([str(STAND_IN), os.environ.get("PYTHONPATH", "")])}
    words = ("verify", "life", "--preset", "small", "--steps", 1, "--workers", "1,2", "--device", "gpu")
    done = samebits_in_a_process(*words, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "the same bits for 1, 2 workers and a CPU that plays an NVIDIA GPU" in done.stdout
    done = samebits_in_a_process("doctor", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "--device cuda:0" in done.stdout


def test_profile_has_the_time_of_every_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr("samebits.devices.gpu.clock.FILLER", 1 << 10)
    done = samebits_here("profile", "life", "--preset", "small", "--steps", 2, "--device", "cuda", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "backward_step" in done.stdout


def test_a_batch_that_does_not_fit_names_one_that_does(cupy, tmp_path, monkeypatch):
    alloc, sizes = cupy.cuda.alloc, []
    monkeypatch.setattr(cupy.cuda, "alloc", lambda size: sizes.append(size) or alloc(size))
    wide = {**TINY, "batch_size": 16, "ca_steps": 1}
    samebits.train("checkerboard", out=tmp_path / "all", steps=1, device="cuda", **wide)

    def small(size):
        if size > max(sizes) // 2:
            raise cupy.cuda.OutOfMemoryError("Out of memory allocating 1,234 bytes")
        return alloc(size)

    monkeypatch.setattr(cupy.cuda, "alloc", small)
    with pytest.raises(DeviceMemoryError, match=r"too little memory for this; batch_size is 16; [1-8] "):
        samebits.train("checkerboard", out=tmp_path / "run", steps=1, device="cuda", **wide)


def test_a_device_that_disappears_leaves_the_last_checkpoint(cupy, tmp_path, monkeypatch):
    synchronize, gone = cupy.cuda.Stream.synchronize, False

    def broken(stream):
        if gone:
            raise cupy.cuda.Error("cudaErrorIllegalAddress: an illegal memory access was encountered")
        synchronize(stream)

    def observe(step, row):
        nonlocal gone
        gone = step == 5

    monkeypatch.setattr(cupy.cuda.Stream, "synchronize", broken)
    with pytest.raises(DeviceError, match=r"stopped working \(.*cudaErrorIllegalAddress.*step-4, is intact"):
        samebits.train("life", out=tmp_path / "run", steps=7, device="cuda", observe=observe, **TINY)


def test_a_kernel_that_does_not_compile_leaves_its_log(tmp_path, monkeypatch):
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("samebits.devices.gpu.dialect.read", lambda *files: "KERNEL void probe(int x) { broken }")
    done = samebits_here("train", "life", *WORDS, "--device", "cuda", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert "a kernel does not compile for a CPU that plays an NVIDIA GPU" in done.stderr
    assert "error:" in (tmp_path / "cache/gpu-compiler.log").read_text()
    assert not (tmp_path / "run").exists()


def test_a_run_says_its_hash(tmp_path):
    words = ("train", "life", *WORDS, "--out")
    here, there = (samebits_here(*words, name, "--device", name, cwd=tmp_path) for name in ("cpu", "cuda"))
    assert weights_line(here.stdout) == weights_line(there.stdout)
