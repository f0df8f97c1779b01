"""What is measured on a GPU, without one: PoCL computes for ours, the CPU for the peers, and no clock is believed."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from samebits.bench import devices, gpu_contest, gpu_tables, on_gpu, runner, tables
from samebits.bench.devices import compare_devices
from samebits.bench.gpu_profile import by_kernel, gpu_profile
from samebits.bench.peers import OnGpu
from samebits.bench.runner import Spec
from samebits.devices.gpu.clock import CudaClock
from samebits.devices.gpu.opencl import OpenCL
from samebits.devices.gpu.opencl import devices as opencl_devices
from samebits.errors import SamebitsError
from samebits.families import discover, find_preset, find_task
from samebits.training.parts import Bench
from tests.helpers import samebits_here, snapshot

FAMILY, TASK = find_task("life")
CONFIG = find_preset("life", "small")
STEPS = 5
# Whole steps in a CUDA graph have inputs that keep their places, and graphs are filled up: that much runs on a CPU too.
WAYS = [
    (task, options)
    for task in ("gpt", "checkerboard-async", "checkerboard", "boolean")
    for options in ({}, {"graph": True})
]


@pytest.mark.parametrize(("task", "options"), WAYS, ids=[f"{task}-{'graph' if how else ''}" for task, how in WAYS])
def test_a_peer_on_a_device_trains_the_same_model(task, options, monkeypatch):
    monkeypatch.setattr(runner, "cuda_name", lambda asked: "cpu")
    family, found = find_task(task)
    same = found.presets.get("timing") or next(check for check in found.checks if not getattr(check, "dropout", 0))
    config = same.model_dump(mode="json")
    with runner.samebits_running(Spec(family.name, config, 1)) as running:
        ours = [running.step(i, running.prepare(i)) for i in range(STEPS)]
        weights = running.weights().copy()
    peer = family.bench.gpu_peers[0]
    spec = Spec(family.name, config, 1, module=peer.module, options=options, device="gpu")
    with runner.peer_running(spec) as running:
        theirs = []
        for number in range(STEPS):
            assert running.step(number, running.prepare(number)) is None  # it looks at nothing
            theirs.append(running.on_gpu.loss())
        also = running.weights()
    assert theirs == pytest.approx(ours, rel=peer.tolerance)
    assert ours[0] != ours[-1]
    assert np.median(np.abs(also - weights)) < 0.1 * config["lr"]


def test_filled_up_graphs_have_one_shape_and_the_same_loss():
    torch = pytest.importorskip("torch")
    from samebits.families.graph.peer_torch import IGNORED, filled

    x, edges, y = torch.arange(3), torch.tensor([[0, 1], [1, 2]]), torch.ones(3, 4, dtype=torch.int64)
    more_x, more_edges, more_y = filled([x, edges, y], 5, 4)
    assert (more_x.shape, more_edges.shape, more_y.shape) == ((6,), (2, 4), (6, 4))
    assert more_edges[:, 2:].tolist() == [[5, 5], [5, 5]]  # among nodes that count for nothing
    assert (more_y[3:] == IGNORED).all()


def test_every_family_has_peers_that_capture_the_whole_step():
    for family in discover().values():
        names = [peer.name for peer in family.bench.gpu_peers if peer.options.get("graph")]
        assert names
        assert all("compiled" in name and "CUDA graph" in name for name in names)
        floats = [peer for peer in family.bench.gpu_peers if "arithmetic" not in peer.options]
        assert all(peer.tolerance == 1e-4 for peer in floats)


def test_queued_steps_are_timed_in_blocks(monkeypatch):
    """1, 2, 4 … steps and one wait; batches are made before the clock starts."""
    now, log = [0.0], []
    monkeypatch.setattr(runner.time, "perf_counter", lambda: now[0])

    def prepare(number):
        now[0] += 100  # would be seen
        return number

    def wait():
        now[0] += 0.001 * log.count("step")
        log[:] = [*[entry for entry in log if entry != "step"], "wait"]

    running = runner.Running(
        prepare, lambda number, ready: log.append("step"), lambda: None, OnGpu(lambda: 0.0, wait, lambda: 0.0)
    )
    times = runner.take_turn(running, 0, 60, 0.0, 1e9)
    assert log == ["wait"] * 6
    assert len(times) == 1 + 2 + 4 + 8 + 16 + 32  # a block of 32 milliseconds is long enough
    assert times == pytest.approx([1.0] * 63)


def test_the_contest_on_a_device(tmp_path):
    """Ours on PoCL: a table, the bits of the CPU, and a record that names the device."""
    done = samebits_here("bench", "life", "--preset", "small", "--device", "opencl", "--steps", 5, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "after 6 steps the bits of the CPU" in done.stdout
    assert "GPU MB" in done.stdout
    (path,) = (tmp_path / "benchmarks/results").iterdir()
    record = json.loads(path.read_text())
    assert record["name"] == "bench-life-small-batch20-gpu"
    assert record["gpu"]["name"] in done.stdout
    assert record["gpu"]["through"] == "OpenCL"
    assert record["gpu"]["driver"]
    (row,) = record["rows"]
    assert row["gpu_megabytes"] > 0
    assert len(row["losses"]) == gpu_contest.FIRST_STEPS


def test_other_bits_are_not_timed():
    with pytest.raises(SamebitsError, match="gives other bits than the CPU; a timing would be meaningless"):
        gpu_contest.gpu_contest(FAMILY, CONFIG, "opencl", 1, lambda: {"weights": "another"})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["life", "--device", "opencl", "--peers"], "device is opencl; the peers run on NVIDIA's GPUs alone"),
        (["life", "--device", "opencl", "--workers", 2], "without --workers, --copies and --processes"),
        (["packed", "--device", "opencl"], "is for the training step of a task"),
        (["life", "--device", "opencl:99"], "device is opencl:99; this machine has"),
        (["life", "--device", "toaster"], "device is 'toaster'; it must be cpu, gpu, cuda or opencl"),
        (["life", "--tasks", "life"], "belong to samebits bench devices"),
        (["devices", "--batch-sizes", "0,1"], "batch-sizes is '0,1'; it must be numbers from 1 to 65,536"),
        (["devices", "--tasks", "lif"], "did you mean life"),
        (["devices", "--peers"], "takes --tasks, --workers, --device, --batch-sizes and --no-record only"),
    ],
)
def test_bad_calls_are_refused_and_write_nothing(words, message, tmp_path):
    done = samebits_here("bench", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert snapshot(tmp_path) == {}


def test_peers_need_a_pytorch_that_sees_the_gpu(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(SamebitsError, match=r"device is cuda:1; PyTorch \S+ sees 0 GPUs.*or leave --peers out"):
        on_gpu.require_cuda_peers("cuda:1")
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(SamebitsError, match="need PyTorch"):
        on_gpu.require_cuda_peers("gpu")
    assert [on_gpu.cuda_name(name) for name in ("gpu", "cuda", "cuda:2")] == ["cuda:0", "cuda:0", "cuda:2"]


def test_the_bound_is_arithmetic_or_memory():
    """67 TFLOP/s and 4.3 TB/s: a step of 67 GFLOP takes a millisecond; a weight moves 24 bytes."""
    counted = replace(FAMILY, bench=Bench(flops=lambda config: 67e9), layout=lambda config: [("all", (43, 1000))])
    bound = on_gpu.bound_on("NVIDIA H200", counted, CONFIG)
    assert bound == pytest.approx((1.0, 43_000 * 24 / 4.3e9))
    assert bound.most == bound.arithmetic
    assert on_gpu.bound_on("a toaster", counted, CONFIG) is None
    assert on_gpu.bound_on("NVIDIA H200", replace(FAMILY, bench=Bench()), CONFIG) is None


def test_a_profile_names_every_kernel():
    found = gpu_profile(FAMILY, CONFIG, "opencl", 2)
    names = [row.kernel for row in found.kernels]
    assert {"adamw", "clip", "norms"} <= {*names}
    assert [row.ms for row in found.kernels] == sorted((row.ms for row in found.kernels), reverse=True)
    assert all(row.ms > 0 and row.launches >= 1 for row in found.kernels)
    assert found.bound is None
    assert found.megabytes > 0
    assert json.loads(json.dumps(found.record()))["kernels"][0]["kernel"] == names[0]


def test_kernels_are_added_up_by_name():
    rows = by_kernel([("a", 1.0), ("b", 5.0), ("a", 3.0), ("b", 5.0)], 2)
    assert [(row.kernel, row.launches, row.ms) for row in rows] == [("b", 1.0, 5.0), ("a", 1.0, 2.0)]


def test_the_cuda_clock_reads_between_launches():
    """With a stand-in for CuPy whose time goes by with every launch."""
    log, now = [], [0]

    class Event:
        def record(self, stream):
            self.at = now[0]

    runtime = SimpleNamespace(memsetAsync=lambda *words: log.append("fill"))
    cuda = SimpleNamespace(
        alloc=lambda size: SimpleNamespace(ptr=0), runtime=runtime, Event=Event,
        get_elapsed_time=lambda a, b: b.at - a.at,
    )  # fmt: skip
    clock = CudaClock(SimpleNamespace(cuda=cuda), SimpleNamespace(ptr=0, synchronize=lambda: log.append("wait")))

    def taking(ms):
        def launch():
            now[0] += ms
            log.append(ms)

        return launch

    clock.run([("a", taking(2)), ("b", taking(5))])
    assert clock.take() == [("a", 2.0), ("b", 5.0)]
    assert clock.take() == []
    assert log[-3:] == [2, 5, "wait"]
    assert {*log[:-3]} == {"fill"}


def test_memory_that_is_given_back_does_not_count():
    backend = OpenCL(opencl_devices()[0])
    kept = backend.allocate(1000)
    backend.allocate(5000)
    assert backend.held() == 1000
    del kept
    assert backend.held() == 0


def test_devices_are_compared_at_the_presets_batch_and_from_below(gpu, monkeypatch):
    loads, times = [], {(20, None): 9.0, (20, 1): 8.0, (2, None): 5.0, (2, 1): 4.0, (4, None): 6.0, (4, 1): 7.0}
    family = replace(FAMILY, load=lambda config: loads.append(config.batch_size) or FAMILY.load(config))
    before = devices.time_steps

    def time_steps(family, config, device):
        done, weights = before(family, config, device)
        assert done
        return [times[config.batch_size, getattr(device, "count", None)]], weights

    monkeypatch.setattr(devices, "time_steps", time_steps)
    monkeypatch.setattr(devices, "SECONDS", 0.0)
    found = compare_devices(family, CONFIG, [1], gpu, [4, 2], lambda text: None)
    assert loads == [20]  # not once a batch
    assert [(row["batch_size"], row["threads"], row["median"]) for row in found["rows"]] == [
        (20, None, 9.0), (20, 1, 8.0), (2, None, 5.0), (2, 1, 4.0), (4, None, 6.0), (4, 1, 7.0),
    ]  # fmt: skip
    assert found["pays_from"] == 4
    monkeypatch.setattr(devices, "time_steps", lambda family, config, device: ([1.0], device.kind))
    with pytest.raises(SamebitsError, match="the devices give different bits"):
        compare_devices(family, CONFIG, [1], gpu, [2], lambda text: None)


MACHINE = {"cpu": "a CPU(R)", "cores": 16, "commit": "abc"}
GPU = {"name": "NVIDIA H200", "through": "Cuda", "driver": "570.1"}


def contest_record(date="2026-01-01", peers=True, median=0.5):
    rows = [{"system": "samebits", "threads": 1, "median": median, "gpu_megabytes": 40.0, "of_bound": 0.25}]
    if peers:
        more = {"gpu_megabytes": 1200.0, "of_bound": 0.125, "times_slower": 2.0}
        rows += [{"system": "PyTorch", "threads": 1, "median": 2 * median, **more}]
    rows += [{"system": "JAX", "threads": 1, "absent": "not here"}]
    return {
        "name": "bench-gpt-full-batch32-gpu", "family": "gpt", "task": "gpt", "preset": "full", "date": date,
        "config": {"batch_size": 32}, "command": "samebits bench gpt", "machine": MACHINE, "gpu": GPU, "rows": rows,
    }  # fmt: skip


def devices_record(task="gpt", pays_from=None, date="2026-01-01"):
    rows = [
        {"system": "samebits", "batch_size": 32, "threads": None, "median": 0.5},
        {"system": "samebits", "batch_size": 32, "threads": 2, "median": 50.0},
        {"system": "samebits", "batch_size": 32, "threads": 16, "median": 10.0},
        {"system": "samebits", "batch_size": 1, "threads": 16, "median": 0.1},
    ]
    return {
        "name": f"bench-devices-{task}", "measurement": "devices", "family": "x", "task": task, "preset": "full",
        "date": date, "config": {"batch_size": 32}, "command": "samebits bench devices", "machine": MACHINE,
        "gpu": GPU, "rows": rows, "pays_from": pays_from, "largest": 256,
    }  # fmt: skip


def test_tables_of_gpus():
    records = [contest_record(), contest_record("2026-01-02", peers=False), devices_record(), devices_record("life", 4)]
    text = gpu_tables.gpu_table(gpu_tables.beside_gpu_peers(records))
    assert text.startswith("**NVIDIA H200** (driver 570.1), in a machine of 16 cores, a CPU:\n\n| one training step |")
    assert "| gpt full, batch 32 | **samebits** | **0.5 ms** |  | 25 % | 40 MB | `samebits bench gpt` | abc |" in text
    assert "|  | PyTorch | 1 ms | 2× as fast | 12 % | 1,200 MB |  |  |" in text
    assert "JAX" not in text
    text = gpu_tables.devices_table(gpu_tables.on_devices(records))
    assert "| one training step | 2 cores | 16 cores | GPU | the GPU is | pays from batch |" in text
    line = "50 ms | 10 ms | 0.5 ms | 20× as fast"
    assert f"| gpt full, batch 32 | {line} | not up to 256 | `samebits bench devices` | abc |" in text
    assert f"| life full, batch 32 | {line} | 4 | `samebits bench devices` | abc |" in text
    # They are in no other table, and the newest with peers is kept beside the newest.
    assert tables.beside_peers(records) == tables.over_workers(records) == []
    older = [contest_record("2025-01-01"), devices_record(date="2025-01-01")]
    assert tables.superseded([*records, *older]) == [4, 5]
    marked = "<!-- records:gpu -->\n<!-- /records --><!-- records:devices -->\n<!-- /records -->"
    assert tables.rewritten(marked, records).count("**NVIDIA H200**") == 2
