"""Every program compiles for NVIDIA's chips, from those of ten years ago on."""

import pytest

from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.devices.gpu import probe
from samebits.devices.gpu.cuda import OPTIONS
from samebits.devices.gpu.dialect import for_cuda, read
from samebits.devices.gpu.opened import OpenedGpu
from samebits.families import find_preset, find_task
from samebits.training.trainer import Trainer, resolve
from tests.gpu.nvrtc import compiled

pytestmark = pytest.mark.cuda
CHIPS = ("sm_60", "sm_75", "sm_80", "sm_90", "sm_120")
FAST, MOST_SPILT = "sm_90", 32  # bytes of a thread: more would cost time where we have measured
TRAININGS = [
    ("checkerboard", "full", {"ca_steps": 2}),
    ("checkerboard", "full", {"ca_steps": 2, "batch_size": 64}),  # groups with more cells
    ("gpt", "l", {"data": "generated"}),
    ("boolean", "timing", {"sinkhorn": 0.5}),
]


class Listener:
    """A back end that does nothing but remember what it was to compile."""

    threads, across, room, busy, name = 512, True, 227 << 10, 132, "nothing"

    def __init__(self):
        self.programs = {}

    def compile(self, text, defines):
        source = for_cuda(text, defines)
        self.programs[source.text] = tuple(source.kernels)
        return {name: (name, known) for name, known in source.kernels.items()}

    def allocate(self, size):
        return object()

    def bundle(self, launches):
        return launches

    def nothing(self, *given, **more):
        return None

    prepare = write = read = zero = run = finish = nothing


@pytest.fixture(scope="module")
def programs():
    """Texts, and the kernels in each."""
    listener = Listener()
    with Workers(1) as workers:
        for task, preset, more in TRAININGS:
            family, _ = find_task(task)
            trainer = Trainer(
                family, resolve(family, override(find_preset(task, preset), more)), OpenedGpu(listener, workers)
            )
            trainer.advance()
    listener.compile(read(*probe.FILE), {})
    return listener.programs


@pytest.mark.parametrize("chip", CHIPS)
def test_every_program_compiles(programs, chip):
    for text, kernels in programs.items():
        found = compiled(text, chip, OPTIONS)
        assert found.good, f"{kernels}: {found.log}"
        assert set(found.spills) >= set(kernels)
        if chip == FAST:
            assert max(found.spills.values()) <= MOST_SPILT, found.spills
