"""samebits verify"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any

import typer

from samebits import api
from samebits.bench.contest import torch_hashes
from samebits.bits import published
from samebits.cli.common import (
    BatchOption,
    InexactOption,
    PresetOption,
    SeedOption,
    SetOption,
    print_table,
    settings_of,
    worker_counts,
)
from samebits.cli.launch import process_count
from samebits.cli.terminal import echo, say
from samebits.compiler.cores import available_cores
from samebits.devices.choose import device_for
from samebits.errors import SamebitsError
from samebits.families import find_task
from samebits.runs.runfolder import cpu_name
from samebits.training.trainer import resolve
from samebits.verify.bits import compare, trained_hashes
from samebits.verify.canary import canary
from samebits.verify.cpus import TYPES, Case, collect, computed, every_case, start, usable
from samebits.verify.gradients import TOLERANCE, finite_difference_error
from samebits.verify.ranks import Request, ask

DEFAULT_WORKERS = "1,2,3,5"
PEER_THREADS = (1, 2, 3)


def verify(
    task: Annotated[
        str | None, typer.Argument(help="what to train; see: samebits tasks; --cpus also goes without", metavar="TASK")
    ] = None,
    workers: Annotated[str, typer.Option("--workers", help="the counts to compare")] = DEFAULT_WORKERS,
    preset: PresetOption = None,
    steps: Annotated[int, typer.Option("--steps", min=1, max=1_000_000, help="training steps at each count")] = 5,
    batch_size: BatchOption = None,
    seed: SeedOption = None,
    setting: SetOption = None,
    gradients: Annotated[
        bool, typer.Option("--gradients", help="also check the gradients by finite differences")
    ] = False,
    peers: Annotated[
        bool, typer.Option("--peers", help="beside it PyTorch with 1, 2 and 3 threads, deterministic algorithms on")
    ] = False,
    cpus: Annotated[
        str | None, typer.Option("--cpus", help="compile for other types of x86-64 CPU: all, or a list of types")
    ] = None,
    processes: Annotated[
        str | None, typer.Option("--processes", help="compare numbers of processes instead, such as 1,2,3")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="gpu|cuda|opencl[:N]", help="compare the CPU's bits with this device's, too"),
    ] = None,
    inexact: InexactOption = False,
) -> None:
    """Train a few steps at each worker count, and the canary; exit 1 if one bit differs."""
    if cpus is not None:
        if device is not None:
            raise SamebitsError("--cpus and --device do not go together; leave one out")
        verify_cpus(task, preset or "small", steps, list(TYPES) if cpus == "all" else cpus.split(","))
        return
    if task is None:
        raise SamebitsError("verify takes a TASK; see: samebits tasks; only --cpus goes without, for all of them")
    counts = worker_counts(workers)
    if len(counts) < 2 and not gradients:
        raise SamebitsError(
            f"workers is {workers!r}; verify compares counts; name two or more, such as --workers 1,2,3,5"
        )
    given = settings_of(setting, batch_size=batch_size, seed=seed)
    added = {key: value for key, value in find_task(task)[1].verify.items() if key not in given}
    family, chosen, config = api.configure(task, preset, {**added, **given})
    if processes is not None:
        verify_processes(task, preset, chosen, {**added, **given}, processes, workers, steps, device or "cpu", inexact)
        return
    with nullcontext() if device is None else device_for(device, "auto", inexact) as opened:  # before minutes go by
        found = compare(family, config, counts, steps)
        theirs_too = {opened.name: trained_hashes(family, resolve(family, config), opened, steps)} if opened else {}
        here, wanted = canary(task, opened), published().get(task)
    told = "".join(f", {key} {value}" for key, value in added.items())
    rows: list[tuple[Any, ...]] = [
        ("samebits", count, weights, metrics[:16]) for count, (weights, metrics) in found.items()
    ]
    rows += [(name, "", weights, metrics[:16]) for name, (weights, metrics) in theirs_too.items()]
    theirs = torch_hashes(family, config, PEER_THREADS, steps) if peers else {}
    rows += [("PyTorch", count, weights, "") for count, weights in theirs.items()]
    print_table(("system", "workers", "weights sha256", "metrics"), rows, f"{task} {chosen}, {steps} steps{told}")
    same = len({*found.values(), *theirs_too.values()}) == 1
    counted = " and ".join([f"{', '.join(map(str, counts))} workers", *theirs_too])
    echo(f"the same bits for {counted}" if same else f"DIFFERENT bits among {counted}")
    if peers:
        different = len(set(theirs.values()))
        results = f"{different} different results" if different > 1 else "one result"
        where = f"{steps} steps on this CPU, {cpu_name()}"
        echo(f"PyTorch, deterministic algorithms on: {results} for {', '.join(map(str, theirs))} threads; {where}")
    if gradients:
        error = max(finite_difference_error(family, family.prepare(check)) for check in find_task(task)[1].checks)
        same = same and error < TOLERANCE
        echo(f"gradients against finite differences of the reference: largest relative error {error:.1e}")
    if wanted:
        same = same and here == wanted
        echo(f"canary sha256:{here[:16]}: {'bits as published' if here == wanted else 'DIFFERENT bits'}")
    if not same:
        raise typer.Exit(1)


def verify_processes(
    task: str, preset: str | None, chosen: str, settings: dict[str, Any], processes: str, workers: str, steps: int,
    device: str, inexact: bool,
) -> None:  # fmt: skip
    """A row a number of processes, with each of the worker counts; exit 1 if one bit differs."""
    sizes = [process_count(part) for part in processes.split(",")]
    counts = (1, 2) if workers == DEFAULT_WORKERS else worker_counts(workers)
    found = {}
    for size in sizes:
        for count in counts:
            found[size, count] = tuple(
                ask(size, Request("hashes", task, preset, settings, count, steps, device, inexact))
            )
            say(f"{size} processes of {count} workers: done")
    rows = [(size, count, weights, metrics[:16]) for (size, count), (weights, metrics) in found.items()]
    print_table(("processes", "workers each", "weights sha256", "metrics"), rows, f"{task} {chosen}, {steps} steps")
    same, told = len(set(found.values())) == 1, ", ".join(map(str, sizes))
    echo(f"the same bits for {told} processes" if same else f"DIFFERENT bits among {told} processes")
    if not same:
        raise typer.Exit(1)


def verify_cpus(task: str | None, preset: str, steps: int, types: list[str]) -> None:
    """A row a training, a column a type of CPU; exit 1 if one bit differs."""
    cases = every_case() if task is None else [Case(task, preset, steps), Case(task)]
    find_task(cases[0].name)
    can, cannot = usable(types)
    found: dict[str, list[str]] = {"this machine": [computed(case) for case in cases]}
    for first in range(0, len(can), available_cores()):  # compiling is most of it: one child a core
        some = can[first : first + available_cores()]
        children = [start(name, cases) for name in some]
        for name, child in zip(some, children, strict=True):
            found[name] = collect(child)
            say(f"{name}: {len(cases)} done")
    here = found.pop("this machine")

    def cell(name: str, i: int) -> str:
        return "same" if found[name][i] == here[i] else found[name][i][:16]

    rows = [(case, here[i][:16], *(cell(name, i) for name in can)) for i, case in enumerate(cases)]
    print_table(("training", "this machine", *can), rows)
    if cannot:
        echo(f"not tried, for this machine lacks their instructions: {', '.join(cannot)}")
    if any(row != here for row in found.values()):
        echo("DIFFERENT bits")
        raise typer.Exit(1)
    echo(f"the same bits compiled for {len(can)} other types of CPU")
