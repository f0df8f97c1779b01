"""weft doctor"""

from __future__ import annotations

import numba
import numpy as np
import typer
from threadpoolctl import threadpool_info

from weft.bench.records import physical_cores
from weft.cli.common import print_table
from weft.engine.runfolder import made_with
from weft.families import discover
from weft.verify.bits import compare

CANARY_STEPS = 3


def doctor() -> None:
    """Cores, BLAS, threads, versions, and a canary: one tiny training at 1, 2, 3 and 5 workers."""
    facts = made_with()
    blas = [f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info() if pool["user_api"] == "blas"]
    np.dot(np.ones((2, 2)), np.ones((2, 2)))
    rows = [
        ("CPU", facts.pop("cpu")),
        ("cores this process may use", facts.pop("cores")),
        ("physical cores", physical_cores() or "unknown"),
        ("BLAS", f"{', '.join(blas) or 'none found'}; one thread inside units"),
        ("threads", "weft's own pool; Numba's parallel layer is not used"),
        ("kernel cache", numba.config.CACHE_DIR),
        *facts.items(),
    ]
    same = True
    for family in discover().values():
        task = next(iter(family.tasks))
        found = compare(family, family.tasks[task].presets["small"], (1, 2, 3, 5), CANARY_STEPS)
        same = same and len(set(found.values())) == 1
        rows.append(
            (f"canary, {task} small", next(iter(found.values()))[0] if same else "DIFFERENT for 1, 2, 3, 5 workers")
        )
    print_table(("what", "found"), rows)
    typer.echo(
        "all good: one hash for 1, 2, 3 and 5 workers"
        if same
        else "the promise is broken on this machine; please report it"
    )
    if not same:
        raise typer.Exit(1)
