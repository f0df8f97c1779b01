"""samebits verify"""

from __future__ import annotations

from typing import Annotated

import typer

from samebits import api
from samebits.bench.contest import torch_hashes
from samebits.cli.common import (
    BatchOption,
    PresetOption,
    SeedOption,
    SetOption,
    TaskName,
    print_table,
    settings_of,
    worker_counts,
)
from samebits.errors import SamebitsError
from samebits.families import find_task
from samebits.verify.bits import compare
from samebits.verify.gradients import TOLERANCE, finite_difference_error

PEER_THREADS = (1, 2, 3)


def verify(
    task: TaskName,
    workers: Annotated[str, typer.Option("--workers", help="the counts to compare")] = "1,2,3,5",
    preset: PresetOption = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="training steps at each count")] = 5,
    batch_size: BatchOption = None,
    seed: SeedOption = None,
    setting: SetOption = None,
    gradients: Annotated[
        bool, typer.Option("--gradients", help="also check the gradients by finite differences")
    ] = False,
    peers: Annotated[
        bool, typer.Option("--peers", help="beside it PyTorch with 1, 2 and 3 threads, deterministic algorithms on")
    ] = False,
) -> None:
    """Train a few steps at each worker count; exit 1 if one bit differs."""
    counts = worker_counts(workers)
    if len(counts) < 2 and not gradients:
        raise SamebitsError(
            f"workers is {workers!r}; verify compares counts; name two or more, such as --workers 1,2,3,5"
        )
    given = settings_of(setting, batch_size=batch_size, seed=seed)
    added = {key: value for key, value in find_task(task)[1].verify.items() if key not in given}
    family, chosen, config = api.configure(task, preset, {**added, **given})
    found = compare(family, config, counts, steps)
    told = "".join(f", {key} {value}" for key, value in added.items())
    rows = [("samebits", count, weights, metrics[:16]) for count, (weights, metrics) in found.items()]
    theirs = torch_hashes(family, config, PEER_THREADS, steps) if peers else {}
    rows += [("PyTorch", count, weights, "") for count, weights in theirs.items()]
    print_table(("system", "workers", "weights sha256", "metrics"), rows, f"{task} {chosen}, {steps} steps{told}")
    same = len(set(found.values())) == 1
    counted = ", ".join(map(str, counts))
    typer.echo(f"the same bits for {counted} workers" if same else f"DIFFERENT bits among {counted} workers")
    if peers:
        different = len(set(theirs.values()))
        results = f"{different} different results" if different > 1 else "one result"
        typer.echo(f"PyTorch, deterministic algorithms on: {results} for {', '.join(map(str, theirs))} threads")
    if gradients:
        error = max(finite_difference_error(family, family.prepare(check)) for check in find_task(task)[1].checks)
        same = same and error < TOLERANCE
        typer.echo(f"gradients against finite differences of the reference: largest relative error {error:.1e}")
    if not same:
        raise typer.Exit(1)
