"""weft bench"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weft import api
from weft.bench.contest import OURS, Row, contest, prove
from weft.bench.records import read_record, write_record
from weft.bench.tables import rewrite
from weft.cli.common import BatchOption, PresetOption, SetOption, print_table, settings_of, worker_counts
from weft.errors import WeftError
from weft.families import discover, find_task
from weft.report.plots import plot_bench

PLOTS = Path("benchmarks/plots")


def bench(
    task: Annotated[str | None, typer.Argument(help="what to time; see: weft tasks", metavar="[TASK]")] = None,
    preset: PresetOption = None,
    workers: Annotated[str, typer.Option("--workers", help="the counts to time")] = "1,2",
    steps: Annotated[int, typer.Option("--steps", min=1, help="steps to time at each count")] = 50,
    batch_size: BatchOption = None,
    setting: SetOption = None,
    peers: Annotated[bool, typer.Option("--peers", help="also time the other systems that are installed")] = False,
    copies: Annotated[
        bool, typer.Option("--copies", help="also time independent single-worker copies side by side")
    ] = False,
    record: Annotated[bool, typer.Option("--record/--no-record", help="keep a record in benchmarks/results")] = True,
    everything: Annotated[
        bool, typer.Option("--all", help="every task with its peers, then the README's tables and plots")
    ] = False,
    tables: Annotated[bool, typer.Option("--tables", help="only the README's tables and plots, from records")] = False,
) -> None:
    """Step time at several worker counts, beside the peers and the bound; correctness first."""
    if [task is not None, everything, tables].count(True) != 1:
        raise WeftError("bench takes one of: a TASK, --all, --tables; see weft bench --help")
    counts = worker_counts(workers)
    if task is not None:
        bench_task(task, preset, counts, steps, settings_of(setting, batch_size=batch_size), peers, copies, record)
        return
    if preset or batch_size or setting or copies or not record:
        raise WeftError("--all and --tables go by the full presets and keep records; leave the other options out")
    for name in [name for family in discover().values() for name in family.tasks] if everything else ():
        bench_task(name, None, counts, steps, {}, peers=True, copies=False, record=True)
    for path in rewrite():
        typer.echo(f"wrote {path}")


def bench_task(
    task: str,
    preset: str | None,
    counts: list[int],
    steps: int,
    settings: dict[str, Any],
    peers: bool,
    copies: bool,
    record: bool,
) -> None:
    family, chosen, config = api.configure(task, preset, settings)
    proof = prove(family, find_task(task)[1], config, counts)
    rows = contest(family, config, counts, steps, peers, copies, note=lambda text: typer.echo(text, err=True))
    show(rows, f"{task} {chosen}, batch {config.batch_size}")
    typer.echo(
        f"checked first: loss {proof['loss']:.6g}, the reference {proof['reference_loss']:.6g}; gradients within "
        f"{proof['largest_gradient_error']:.0e} of finite differences; bits equal for all counts"
    )
    if record:
        content: dict[str, Any] = {
            "family": family.name,
            "task": task,
            "preset": chosen,
            "config": config.model_dump(mode="json"),
            "proof": proof,
            "rows": rows,
        }
        path = write_record(f"bench-{task}-{chosen}-batch{config.batch_size}", content)
        typer.echo(f"wrote {path}")
        typer.echo(f"wrote {plot_bench(PLOTS / f'{path.stem}.png', read_record(path))}")


def show(rows: list[Row], title: str) -> None:
    columns = ["system", "threads", "ms a step", "spread", "speed-up", "of ideal", "of bound", "weft is", "peak MB"]
    copies = "of_copies" in rows[0]
    cells = []
    for row in rows:
        if "absent" in row:
            typer.echo(f"{row['system']}, {row['threads']} threads: left out, {row['absent']}")
            continue
        ratio = f"{row['times_slower']:.1f}× as fast" if "times_slower" in row else ""
        cells.append(
            [
                row["system"],
                row["threads"],
                f"{row['median']:.2f}",
                f"{min(row['medians']):.2f} … {max(row['medians']):.2f}",
                f"{row['speed_up']:.2f}×" if row["system"] == OURS or row["speed_up"] != 1 else "",
                f"{100 * row['of_ideal']:.0f} %" if row["system"] == OURS else "",
                f"{100 * row['of_bound']:.0f} %" if "of_bound" in row else "",
                ratio,
                f"{row['peak_megabytes']:.0f}",
            ]
            + ([f"{100 * row['of_copies']:.0f} %" if "of_copies" in row else ""] if copies else [])
        )
    print_table(columns + (["of copies"] if copies else []), cells, title)
