"""One step of a small training on the first device that OpenCL has: a line that says whether its bits are the CPU's.

python -m tests.gpu.one_step TASK; for tools that look at a whole process (test_races.py)."""

from __future__ import annotations

import sys

from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.devices.gpu import opencl
from samebits.devices.gpu.opened import OpenedGpu
from samebits.families import find_preset, find_task
from samebits.training.params import weights_hash
from samebits.training.trainer import Trainer, resolve

TINY = {
    "life": {"batch_size": 1},
    "checkerboard": {"batch_size": 1, "ca_steps": 2, "height": 4, "width": 5},
    "checkerboard-async": {"batch_size": 1, "ca_steps": 2, "height": 4, "width": 5},
    "boolean": {"batch_size": 2, "width": 8, "sinkhorn": 0.5},
    "gpt": {"data": "generated", "context": 9, "width": 8, "heads": 2, "layers": 1, "batch_size": 2},
}


def main(task: str) -> int:
    opencl.OPTIONS = (*opencl.OPTIONS, "-cl-opt-disable")  # optimised code has words that Oclgrind does not know
    family, _ = find_task(task)
    config = resolve(family, override(find_preset(task, "small"), TINY[task]))
    found = []
    with Workers(1) as workers:
        for device in (workers, OpenedGpu(opencl.OpenCL(opencl.devices()[0]), workers)):
            trainer = Trainer(family, config, device)
            trainer.step()
            found.append(weights_hash(device.download(trainer.params)))
    print("the same bits" if found[0] == found[1] else "DIFFERENT bits", *found)
    return int(found[0] != found[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
