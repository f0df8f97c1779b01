"""What devices/gpu/cuda.py does with streams, graphs and memory, on a CPU that plays the GPU."""

import numpy as np
import pytest

from samebits.devices import choose
from samebits.devices.gpu import dialect
from samebits.errors import DeviceError

pytestmark = pytest.mark.cuda
TEXT = """
KERNEL void add(GLOBAL float* x, GLOBAL const float* y, int count) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i < count) x[i] = x[i] + y[i];
}
KERNEL void beyond(GLOBAL float* x, GLOBAL const float* y, int count) { x[count] = y[0]; }
KERNEL void apart(GLOBAL float* x, GLOBAL const float* y, int count) {
  if (LANE < 5) BARRIER;
  x[LANE] = ACROSS(y[LANE], 1);
}
KERNEL void unseen(GLOBAL float* x, GLOBAL const float* y, int count, ROOM room) {
  SEND_FOUR(room + LANE, y + 4 * LANE);
  END_OF_LOT;
  ((GLOBAL float4*)x)[LANE] = room[LANE];
}
"""
SIZE = 64
NAMED = ("a text of this test's",)


@pytest.fixture(params=[False, True], ids=["late", "soon"])
def device(cupy, request, monkeypatch):
    """Its second stream is late, or soon."""
    monkeypatch.setattr(cupy.cuda.CHOICE, "eager", request.param)
    with choose.device_for("cuda", 1) as found:
        yield found


@pytest.fixture
def kernels(device, monkeypatch):
    monkeypatch.setattr(dialect, "read", lambda *files: TEXT)
    return device.program(NAMED)


def add_all(device, program, *arrays):
    kernel = device.program(NAMED)["add"]
    for x, y, beside in program:
        device.post(kernel, 2, 32, arrays[x], arrays[y], SIZE, aside=beside)


def numbers(device, value):
    return device.upload(np.full(SIZE, value, np.float32))


def test_gpu_is_cuda_where_both_are_there(device):
    assert choose.every_gpu()[0] == ("cuda", 0)
    with choose.device_for("gpu", 1) as found:
        assert found.name == device.name == "a CPU that plays an NVIDIA GPU"


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_results_are_those_of_the_order(device, kernels, again, seed):
    """Sums of arrays into arrays, some of them aside: whoever needs another's result has it."""
    draw = np.random.default_rng(seed)
    program = tuple((*draw.choice(4, 2, replace=False).tolist(), bool(draw.integers(2))) for _ in range(7))
    arrays = [numbers(device, value) for value in range(4)]
    wanted = [0.0, 1.0, 2.0, 3.0]
    for _ in range(3):
        device.replay(add_all, program, *arrays) if again else add_all(device, program, *arrays)
        for x, y, _ in program:
            wanted[x] += wanted[y]
    assert [device.download(one)[5] for one in arrays] == wanted


def test_memory_that_waits_to_be_read_is_written_to_later(device, kernels):
    x, y = numbers(device, 1), numbers(device, 2)
    device.post(kernels["add"], 2, 32, x, y, SIZE)
    y[:] = np.full(SIZE, 10, np.float32)
    device.post(kernels["add"], 2, 32, x, y, SIZE, aside=True)
    device.clear(y)
    device.post(kernels["add"], 2, 32, x, y, SIZE)
    assert (device.download(x) == 13).all()


def test_a_graph_that_was_dropped_is_made_again(device, kernels, monkeypatch):
    monkeypatch.setattr("samebits.devices.gpu.cuda.GRAPHS", 1)
    x, y = numbers(device, 0), numbers(device, 1)
    for times in (1, 2, 1, 2):
        device.replay(add_all, ((0, 1, False),) * times, x, y)
        device.join()
    assert (device.download(x) == 6).all()
    assert len(device.backend._graphs) == 1


@pytest.mark.parametrize(
    ("name", "threads", "told"),
    [
        ("beyond", 1, "a kernel wrote outside its memory"),
        ("apart", 32, "0 of 32 threads are done"),
        ("unseen", 16, "sent 1 fours"),
    ],
)
def test_mistakes_of_kernels_are_seen(cupy, name, threads, told, monkeypatch):
    def run():
        with choose.device_for("cuda", 1) as device:
            monkeypatch.setattr(dialect, "read", lambda *files: TEXT)
            x, y = numbers(device, 1), numbers(device, 2)
            device.post(device.program(NAMED)[name], 1, threads, x, y, SIZE, shared=256)
            device.download(x)

    with pytest.raises(DeviceError, match=told):
        run()
