"""Step times of machines that are not there, beside the model's: python -m tests.network.measure (or: make network).

Adds a record a task to benchmarks/results; tools/cluster_page.py makes the table and the picture of docs/cluster.md.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from samebits import api
from samebits.bench.profile import profile
from samebits.bench.records import new_record, write_record
from samebits.bench.step_model import Network, Work, predict
from samebits.compiler.cores import available_cores
from samebits.training.trainer import resolve
from samebits.verify.ranks import Request
from tests.helpers import TIMEOUT
from tests.network.machines import Machines, ended

TASKS: dict[str, tuple[str, dict[str, Any], int]] = {  # preset, settings, steps
    "gpt": ("full", {"batch_size": 32}, 20),
    "checkerboard": ("full", {"batch_size": 32}, 10),
    "boolean": ("timing", {"batch_size": 512}, 100),
}
ALIKE = ("optimiser", "data", "other")  # parts of a step that are not shared
COUNTS = (2, 4)
COMMAND = "python -m tests.network.measure"


def work_of(task: str, preset: str, settings: dict[str, Any], steps: int) -> Work:
    """One process: what a step costs a core while all cores are busy, and what of it travels."""
    family, _, config = api.configure(task, preset, settings)
    cores = available_cores()
    alone, together = (profile(family, config, workers, steps) for workers in (1, cores))
    shared = sum(time for part, time in together.parts.items() if part not in ALIKE)
    config = resolve(family, config)
    groups = family.groups(config, family.batch(config, family.load(config), 0)).tolist()
    alike = sum(alone.parts[part] for part in ALIKE)
    return Work(shared * cores / 1e3, alike / 1e3, 4 * family.slot_size(config), groups)


def measured(count: int, task: str, preset: str, settings: dict[str, Any], steps: int) -> tuple[float, int, Network]:
    """Seconds a step and bytes sent, of so many machines; and their link."""
    with Machines(count) as machines, tempfile.TemporaryDirectory(prefix="samebits-network-") as folder:
        link = machines.measured()
        answer = Path(folder) / "answer.json"
        request = Request("profile", task, preset, settings, 1, steps, str(answer))
        words = ["-m", "samebits.verify.ranks", json.dumps(asdict(request))]
        found = ended(machines.torchrun(words, Path.cwd(), "measure", 0), TIMEOUT)
        if any(code for code, _, _ in found):
            raise SystemExit("\n".join(problems for _, _, problems in found))
        told = json.loads(answer.read_text(encoding="utf-8"))
    return told["median"] / 1e3, told["sent"], Network(link.seconds, link.bits, available_cores())


def main() -> None:
    for task, (preset, settings, steps) in TASKS.items():
        work = work_of(task, preset, settings, steps)
        points = []
        for count in COUNTS:
            seconds, sent, network = measured(count, task, preset, settings, steps)
            expected = predict(work, network, count)
            points.append({"machines": count, "seconds": seconds, "sent": sent, "network": asdict(network)})
            print(f"{task} on {count}: {1e3 * seconds:.1f} ms; the model: {1e3 * expected.total:.1f} ms, {expected}")
        content = {"task": task, "preset": preset, "batch_size": settings["batch_size"], "work": asdict(work)}
        print("wrote", write_record(new_record(f"network-{task}", {**content, "points": points}, COMMAND)))


if __name__ == "__main__":
    main()
