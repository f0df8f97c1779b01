"""samebits profile"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from samebits import api
from samebits.bench.gpu_profile import GpuProfile, gpu_profile
from samebits.bench.profile import Profile
from samebits.bench.profile import profile as measure
from samebits.bench.records import new_record, write_record
from samebits.cli.common import (
    BatchOption,
    DeviceOption,
    InexactOption,
    PresetOption,
    SetOption,
    TaskName,
    WorkerOption,
    print_table,
    settings_of,
)
from samebits.cli.launch import ProcessesOption, process_count
from samebits.cli.terminal import echo, say
from samebits.devices.cpu.pool import worker_count
from samebits.errors import SamebitsError
from samebits.verify.ranks import Request, ask


def profile(
    task: TaskName,
    preset: PresetOption = None,
    workers: WorkerOption = "auto",
    steps: Annotated[int, typer.Option("--steps", min=1, max=1_000_000, help="steps to time, after a warm-up")] = 50,
    batch_size: BatchOption = None,
    setting: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False,
    record: Annotated[bool, typer.Option("--record", help="keep a record in benchmarks/results")] = False,
    processes: ProcessesOption = None,
    device: DeviceOption = "cpu",
    inexact: InexactOption = False,
) -> None:
    """Where the time of a training step goes, and peak memory."""
    count, settings = worker_count(workers), settings_of(setting, batch_size=batch_size)
    family, chosen, config = api.configure(task, preset, settings)
    found: Profile | GpuProfile
    if device != "cpu":
        if processes is not None or workers != "auto":
            raise SamebitsError(f"device is {device}; --workers and --processes are the CPU's; leave them out")
        found = gpu_profile(family, config, device, steps, inexact)
    elif processes is None:
        found = measure(family, config, count, steps)
    else:
        number = process_count(processes)
        if workers == "auto":
            count = max(1, count // number)
        found = Profile(**ask(number, Request("profile", task, preset, settings, count, steps)))
    if record:
        content = {"task": task, "preset": chosen, "config": config.model_dump(mode="json"), "profile": found.record()}
        say(f"wrote {write_record(new_record(f'profile-{task}', content))}")
    if as_json:
        echo(json.dumps(found.record()))
        return
    if isinstance(found, GpuProfile):
        show_kernels(found, f"{task} {chosen}, batch {config.batch_size}, {found.gpu['name']}")
        return
    total = sum(found.parts.values())
    rows = [(part, f"{ms:.3f}", f"{100 * ms / total:.1f} %") for part, ms in found.parts.items()]
    rows.append(("step", f"{total:.3f}", "100.0 %"))
    group = f"{processes} processes of " if processes else ""
    title = f"{task} {chosen}, batch {config.batch_size}, {group}{count} worker{'s' if count > 1 else ''}"
    print_table(("part", "ms", "share"), rows, title)
    echo(
        f"median {found.median:.2f} ms a step (fastest {found.fastest:.2f}, slowest {found.slowest:.2f}, {steps} steps)"
    )
    echo(f"{found.gigaflops:.1f} GFLOP/s; peak memory {found.peak_megabytes:.0f} MB, interpreter included")
    if found.sent:
        ratio = found.sent / found.least_sent
        echo(f"sent to other processes by rank 0: {found.sent:,} bytes a step, {ratio:.2f} times the least there is")


def show_kernels(found: GpuProfile, title: str) -> None:
    total = sum(row.ms for row in found.kernels)
    rows = [
        (row.kernel, f"{row.launches:g}", f"{1e3 * row.ms / row.launches:.1f}", f"{row.ms:.3f}",
         f"{100 * row.ms / total:.1f} %")
        for row in found.kernels
    ]  # fmt: skip
    rows.append(("all kernels", f"{sum(row.launches for row in found.kernels):g}", "", f"{total:.3f}", "100.0 %"))
    print_table(("kernel", "launches a step", "µs each", "ms a step", "share"), rows, title)
    echo(
        f"median {found.median:.3f} ms a step as it is trained (fastest {found.fastest:.3f}, slowest "
        f"{found.slowest:.3f}, {found.steps} steps)"
    )
    echo(f"{found.gigaflops:.1f} GFLOP/s; {found.megabytes:.0f} MB of GPU memory")
    if found.bound:
        arithmetic, memory = found.bound
        echo(
            f"the bound: {arithmetic:.3f} ms of arithmetic, {memory:.3f} ms of memory; the step is at "
            f"{100 * found.bound.most / found.median:.1f} % of it"
        )
    else:
        echo(f"no bound: the peaks of {found.gpu['name']} are not known here")
