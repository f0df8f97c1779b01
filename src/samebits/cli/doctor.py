"""samebits doctor"""

from __future__ import annotations

from typing import Annotated

import typer
from threadpoolctl import threadpool_info

from samebits.bench.records import physical_cores
from samebits.bits import BITS, published
from samebits.cli.common import print_table
from samebits.cli.terminal import echo
from samebits.compiler.cache_folder import refused
from samebits.compiler.kernel_cache import KEPT_IN
from samebits.devices.choose import every_gpu, open_gpu
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families import built_in, discover
from samebits.runs.runfolder import made_with
from samebits.verify import canary
from samebits.verify.bits import compare

STEPS, COUNTS = 3, (1, 2, 3, 5)
QUICK = "life"  # the task whose canary takes least
AS_PUBLISHED, DIFFERENT, UNKNOWN = "as published", "DIFFERENT", "none published"


def doctor(
    canaries: Annotated[
        bool,
        typer.Option("--canaries", help="only the canaries, on GPUs too: are the bits here those that were published?"),
    ] = False,
) -> None:
    """Cores, BLAS, threads, versions; tiny trainings at several worker counts; GPUs; and the published canaries."""
    good = True
    if not canaries:
        good = describe()
    verdicts: dict[str, list[str]] = {AS_PUBLISHED: [], DIFFERENT: [], UNKNOWN: []}
    rows, gpus = [], describe_gpus(canaries)
    good = good and gpus
    for name, here, wanted in canary.check():
        verdict = AS_PUBLISHED if here == wanted else DIFFERENT if wanted else UNKNOWN
        verdicts[verdict].append(name)
        rows.append((name, here[:16], verdict))
    print_table(("canary", "sha256", f"bits number {BITS}"), rows)
    if verdicts[UNKNOWN]:
        echo(f"no canary is published for {', '.join(verdicts[UNKNOWN])}: a family of another package")
    differing = ", ".join(verdicts[DIFFERENT])
    echo(f"DIFFERENT bits: {differing}" if differing else "bits as published")
    if differing or not good:
        raise typer.Exit(1)


def describe_gpus(canaries: bool) -> bool:
    """A table a GPU: what it can promise, and its canaries; whether those that promise equal bits have them."""
    good, found = True, every_gpu()
    for kind, number in found:
        title = f"--device {kind}:{number}"
        try:
            with open_gpu(kind, number, Workers(1), inexact=True) as device:
                chosen = [QUICK] if not canaries else [name for name in canary.names() if name in tasks()]
                hashes = {task: canary.canary(task, device) for task in chosen}
        except SamebitsError as error:
            print_table(("what", "found"), [("cannot be used", error)], title)
            continue
        kept = [(what, "as on the CPU" if kept else "NOT as on the CPU") for what, kept in device.promises.items()]
        seen = {task: AS_PUBLISHED if published().get(task) == here else DIFFERENT for task, here in hashes.items()}
        rows = [(f"canary {task}", f"{here[:16]}, {seen[task]}") for task, here in hashes.items()]
        print_table(("what", "found"), [("name", device.name), *kept, *rows], title)
        if device.lacks:
            echo(f"{title} is refused without --inexact: {', '.join(device.lacks)}")
        good = good and (bool(device.lacks) or DIFFERENT not in seen.values())
    if not found:
        echo("no GPU found: it takes a driver, and pip install 'samebits[cuda]' or 'samebits[opencl]'")
    return good


def tasks() -> set[str]:
    return {task for family in built_in().values() for task in family.tasks}


def describe() -> bool:
    """What this machine is, and whether its worker counts agree."""
    facts = made_with()
    blas = [f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info() if pool["user_api"] == "blas"]
    rows = [
        ("CPU", facts.pop("cpu")),
        ("cores this process may use", facts.pop("cores")),
        ("physical cores", physical_cores() or "unknown"),
        ("BLAS", f"{', '.join(blas) or 'none found'}; not used in training"),
        ("threads", "samebits's own pool; Numba's parallel layer is not used"),
        ("kernel cache", KEPT_IN or "none can be written; kernels are compiled every time"),
        *(("kernel cache", reason) for reason in refused),
        *facts.items(),
    ]
    good = True
    for family in discover().values():
        task = next(iter(family.tasks))
        hashes = set(compare(family, family.tasks[task].presets["small"], COUNTS, STEPS, share_little=True).values())
        good = good and len(hashes) == 1
        rows.append((f"{task} small, {STEPS} steps", next(iter(hashes))[0] if len(hashes) == 1 else "DIFFERENT bits"))
    print_table(("what", "found"), rows)
    counts = ", ".join(map(str, COUNTS))
    echo(f"all good: one hash for {counts} workers" if good else f"the promise is broken here: {counts} workers differ")
    return good
