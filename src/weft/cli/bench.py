"""weft bench"""

from __future__ import annotations

from typing import Annotated

import typer

from weft import api
from weft.bench.records import write_record
from weft.bench.scaling import check_bits, scaling
from weft.cli.common import BatchOption, PresetOption, SetOption, TaskName, print_table, settings_of, worker_counts


def bench(
    task: TaskName,
    preset: PresetOption = None,
    workers: Annotated[str, typer.Option("--workers", help="the counts to time")] = "1,2",
    steps: Annotated[int, typer.Option("--steps", min=1, help="steps to time at each count")] = 50,
    batch_size: BatchOption = None,
    setting: SetOption = None,
    copies: Annotated[
        bool, typer.Option("--copies", help="also time independent single-worker copies side by side")
    ] = False,
    record: Annotated[bool, typer.Option("--record/--no-record", help="keep a record in benchmarks/results")] = True,
) -> None:
    """Step time at several worker counts, equal bits checked first; a table and a JSON record."""
    counts = worker_counts(workers)
    family, chosen, config = api.configure(task, preset, settings_of(setting, batch_size=batch_size))
    weights = check_bits(family, config, counts)
    arguments = [task, "--preset", chosen, "--batch-size", str(config.batch_size)]
    for pair in setting or ():
        arguments += ["--set", pair]
    table = scaling(arguments, counts, steps, copies)
    columns = ["workers", "ms a step", "spread", "speed-up", "steps/s", "peak MB"] + (
        ["copies, steps/s", "of copies", "overlap, steps/s", "of overlap"] if copies else []
    )
    rows = []
    for row in table:
        spread = f"{min(row['medians']):.2f} … {max(row['medians']):.2f}"
        cells = [
            row["workers"],
            f"{row['median']:.2f}",
            spread,
            f"{row['speed_up']:.2f}×",
            f"{1e3 / row['median']:.0f}",
            f"{row['peak_megabytes']:.0f}",
        ]
        if copies:
            cells += [f"{row['copies_steps_per_second']:.0f}", f"{100 * row['of_copies']:.0f} %"]
            overlapping = "overlap_steps_per_second" in row
            cells += (
                [f"{row['overlap_steps_per_second']:.0f}", f"{100 * row['of_overlap']:.0f} %"]
                if overlapping
                else ["", ""]
            )
        rows.append(cells)
    print_table(columns, rows, f"{task} {chosen}, batch {config.batch_size}")
    typer.echo(f"bits equal for all counts: weights sha256:{weights} after 2 steps")
    if record:
        content = {
            "task": task,
            "preset": chosen,
            "config": config.model_dump(mode="json"),
            "weights": weights,
            "rows": table,
        }
        typer.echo(f"wrote {write_record(f'scaling-{task}-batch{config.batch_size}', content)}")
