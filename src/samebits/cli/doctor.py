"""samebits doctor"""

from __future__ import annotations

import numba
import typer
from threadpoolctl import threadpool_info

from samebits.bench.records import physical_cores
from samebits.cli.common import print_table
from samebits.engine.runfolder import made_with
from samebits.families import discover
from samebits.verify.bits import compare

CANARY_STEPS, COUNTS = 3, (1, 2, 3, 5)


def doctor() -> None:
    """Cores, BLAS, threads, versions, and a canary: one tiny training at 1, 2, 3 and 5 workers."""
    facts = made_with()
    blas = [f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info() if pool["user_api"] == "blas"]
    rows = [
        ("CPU", facts.pop("cpu")),
        ("cores this process may use", facts.pop("cores")),
        ("physical cores", physical_cores() or "unknown"),
        ("BLAS", f"{', '.join(blas) or 'none found'}; one thread inside units"),
        ("threads", "samebits's own pool; Numba's parallel layer is not used"),
        ("kernel cache", numba.config.CACHE_DIR),
        *facts.items(),
    ]
    good = True
    for family in discover().values():
        task = next(iter(family.tasks))
        hashes = set(compare(family, family.tasks[task].presets["small"], COUNTS, CANARY_STEPS).values())
        good = good and len(hashes) == 1
        rows.append((f"canary, {task} small", next(iter(hashes))[0] if len(hashes) == 1 else "DIFFERENT bits"))
    print_table(("what", "found"), rows)
    counts = ", ".join(map(str, COUNTS))
    typer.echo(
        f"all good: one hash for {counts} workers" if good else f"the promise is broken here: {counts} workers differ"
    )
    if not good:
        raise typer.Exit(1)
