"""The engine's own kernels: the tree and the optimiser have the bits of the CPU."""

from collections import namedtuple

import numpy as np
import pytest

from samebits.config import override
from samebits.devices.cpu.optimizer import AdamW
from samebits.devices.cpu.tree import Node, TreeSum
from samebits.devices.cpu.workers import Workers
from samebits.devices.gpu import products
from samebits.devices.gpu.dialect import for_opencl, kernels_of, packed, parameters, read
from samebits.families import find_preset


@pytest.fixture(scope="module")
def workers():
    with Workers(2) as found:
        yield found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("units", "width", "cuts"), [(1, 5, [1]), (7, 100, [3, 4]), (33, 300, [33]), (33, 257, [10, 20, 3])]
)
def test_the_root_is_that_of_the_cpu(gpu, workers, dtype, units, width, cuts):
    rows = np.random.default_rng(0).normal(size=(units, width)).astype(dtype)
    ours, theirs = gpu.tree_sum(width, units, dtype), TreeSum(workers, width, units, dtype)
    for _ in range(2):  # buffers are used again
        for total in (ours, theirs):
            total.start()
        first = 0
        for count in cuts:
            part = rows[first : first + count]
            theirs.push(part.copy(), len(part))
            workers.join()
            ours.push(gpu.upload(part), len(part))
            first += count
        wanted = theirs.finish()
        workers.join()
        assert gpu.download(ours.finish()).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("units", [1, 2, 3, 5, 6, 7, 8, 9, 15, 16, 24, 31, 33, 45])
def test_all_rows_at_once_have_the_same_root(gpu, workers, units):
    rows = np.random.default_rng(2).normal(size=(units, 70)).astype(np.float32)
    wanted = TreeSum(workers, 70, units, np.float32).whole(rows.copy(), units)
    workers.join()
    assert (
        gpu.download(gpu.tree_sum(70, units, np.float32).whole(gpu.upload(rows), units)).tobytes() == wanted.tobytes()
    )


def test_nodes_can_be_handed_over(gpu, workers):
    rows = np.random.default_rng(1).normal(size=(13, 40)).astype(np.float32)
    left, right, whole = (gpu.tree_sum(40, 13, np.float32) for _ in range(3))
    left.start()
    left.push(gpu.upload(rows[:6]), 6)
    right.start(6)
    right.push(gpu.upload(rows[6:]), len(rows) - 6)
    whole.start()
    for node in [*left.nodes(), *right.nodes()]:
        whole.take(Node(node.level, node.place, gpu.upload(gpu.download(node.row))))
    alone = TreeSum(workers, 40, 13, np.float32)
    alone.start()
    alone.push(rows, len(rows))
    wanted = alone.finish()
    workers.join()
    assert gpu.download(whole.finish()).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("size", [5, 1024, 5000])
@pytest.mark.parametrize(
    "clips", [{}, {"clip_element": 0.5}, {"clip_norm": 1.0}, {"clip_element": 0.01, "clip_norm": 0.3}]
)
def test_a_step_of_the_optimiser_is_that_of_the_cpu(gpu, workers, size, clips):
    config = override(
        find_preset("life", "small"), {"weight_decay": 0.01, "clip_element": 0.0, "clip_norm": 0.0, **clips}
    )
    draw = np.random.default_rng(2)
    start = draw.normal(size=size).astype(np.float32)
    params = start.copy()
    cpu, ours = AdamW(workers, params), gpu.optimiser(gpu.upload(start))
    for step in range(3):  # numbers around the smallest there are, too
        gradient = (draw.normal(size=size) * 10.0 ** draw.integers(-45, 3, size)).astype(np.float32)
        ours.step(config, gpu.upload(gradient), 7.0, step, 0.01)
        cpu.step(config, gradient, 7.0, step, 0.01)
        workers.join()
        for mine, wanted in ((ours.params, params), (ours.first, cpu.first), (ours.second, cpu.second)):
            assert gpu.download(mine).tobytes() == wanted.tobytes()
        assert ours.outcome() == cpu.outcome()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_stop_all_updates(gpu, bad):
    config, ours = find_preset("life", "small"), gpu.optimiser(gpu.upload(np.ones(40, np.float32)))
    gradient = np.ones(40, np.float32)
    gradient[7] = bad
    ours.step(config, gpu.upload(gradient), 1.0, 4, 0.01)
    assert not ours.outcome().finite
    ours.step(config, gpu.upload(np.ones(40, np.float32)), 1.0, 5, 0.01)
    assert not ours.outcome().finite
    assert (gpu.download(ours.params) == 1).all()


def test_arrays_are_cut_like_those_of_numpy(gpu):
    host = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    there = gpu.upload(host)
    np.testing.assert_array_equal(gpu.download(there[1:3]), host[1:3])
    np.testing.assert_array_equal(gpu.download(there[2][1:]), host[2][1:])
    np.testing.assert_array_equal(gpu.download(there.reshape(-1, 2)[5:]), host.reshape(-1, 2)[5:])
    there[1:2] = 7
    np.testing.assert_array_equal(gpu.download(there)[:, 0, 0], [0, 7, 12, 18])
    with pytest.raises(ValueError, match="cannot reshape"):
        there.reshape(5, 5)


def test_there_is_room_for_nothing_too(gpu):
    scratch = gpu.scratch("a test of capacities")
    assert [scratch.capacity("mine", "edges", size) for size in (0, 3, 17, 500, 0)] == [16, 16, 32, 512, 512]


def test_opencl_gets_the_place_of_every_array():
    text = "KERNEL void f(GLOBAL float* x, GLOBAL const int* y, int n, long m) { x[0] = y[n]; }"
    made = for_opencl(text, {"A": 1}).text
    assert "KERNEL void f(GLOBAL float* x, GLOBAL const int* y, int n, long m, long x_start, long y_start) {" in made
    assert "x += x_start; y += y_start;" in made
    assert [(one.name, one.kind, one.is_array) for one in parameters("GLOBAL const int* y, long m")] == [
        ("y", "int32", True),
        ("m", "int64", False),
    ]


def test_a_kernel_takes_records_of_numbers_of_one_size():
    text = "typedef struct {{ int m, n; {} scale; }} Shape;\nKERNEL void f(GLOBAL float* x, Shape shape) {{ }}"
    (_, shape), numbers = kernels_of(text.format("float"))["f"], namedtuple("Shape", "m n scale")
    wanted = np.array([3, -1], "<i4").tobytes() + np.array(0.5, "<f4").tobytes()
    assert packed(shape, numbers(3, -1, 0.5)).tobytes() == wanted
    with pytest.raises(TypeError, match=r"shape is a Shape of \('m', 'n', 'scale'\), not of \('m', 'n'\)"):
        packed(shape, namedtuple("Less", "m n")(3, -1))
    with pytest.raises(OverflowError):
        packed(shape, numbers(2**31, 0, 0.0))
    with pytest.raises(ValueError, match="Shape shape: Shape is no number, and no record of numbers of one size"):
        kernels_of(text.format("double"))


def test_a_text_is_compiled_for_several_tiles(tmp_path):
    path = tmp_path / "f.cl"
    path.write_text("KERNEL void OF_TILE(f)(GLOBAL float* x, int n) { x[n] = MICRO_M; }\n")
    sizes = products.Size("ONE", 1, 2, 3, 4, 5), products.Size("TWO", 6, 7, 8, 9, 10)
    found = read(*(size.part(str(path)) for size in sizes))
    assert list(kernels_of(found)) == ["f_ONE", "f_TWO"]
    assert found.index("#define MICRO_M 1\n") < found.index("#undef MICRO_M\n") < found.index("#define MICRO_M 6\n")
