"""samebits bench"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from samebits import api
from samebits.bench.cases import OURS, Row
from samebits.bench.contest import contest, prove
from samebits.bench.devices import NAME
from samebits.bench.groups import compare_groups
from samebits.bench.markdown import number
from samebits.bench.measurements import check_name, measurements, timed_presets
from samebits.bench.records import Record, new_record, write_record
from samebits.bench.tables import rewrite
from samebits.cli.bench_gpu import bench_devices, bench_on_gpu, chosen_tasks, look_around, sizes_of
from samebits.cli.common import (
    BatchOption,
    DeviceOption,
    PresetOption,
    SetOption,
    print_table,
    settings_of,
    worker_counts,
)
from samebits.cli.launch import process_count
from samebits.cli.terminal import echo, say
from samebits.compiler.cores import available_cores
from samebits.errors import SamebitsError
from samebits.families import discover, find_task
from samebits.report.benchmarks import plot_bench
from samebits.training.parts import find

PLOTS = Path("benchmarks/plots")
STEPS = 50


def bench(
    name: Annotated[
        str | None,
        typer.Argument(
            help="a task (its training step; see: samebits tasks), or a measurement such as distances", metavar="[TASK]"
        ),
    ] = None,
    preset: PresetOption = None,
    workers: Annotated[str | None, typer.Option("--workers", help="the counts to time, 1,2 unless told")] = None,
    device: DeviceOption = "cpu",
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps", min=1, max=1_000_000, help=f"steps to time, {STEPS} unless told; more if they are short"
        ),
    ] = None,
    batch_size: BatchOption = None,
    setting: SetOption = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="also time the other systems that are installed (measurements: always)")
    ] = False,
    copies: Annotated[
        bool, typer.Option("--copies", help="also time independent single-worker copies side by side")
    ] = False,
    record: Annotated[bool, typer.Option("--record/--no-record", help="keep a record in benchmarks/results")] = True,
    everything: Annotated[
        bool, typer.Option("--all", help="everything with its peers, then the tables and plots of README and docs")
    ] = False,
    tables: Annotated[
        bool, typer.Option("--tables", help="only those, from records; superseded records move to benchmarks/archive")
    ] = False,
    processes: Annotated[
        str | None, typer.Option("--processes", help="so many processes of each worker count, beside one process")
    ] = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", help="bench devices: these alone, as in gpt,life; all unless told")
    ] = None,
    batch_sizes: Annotated[
        str | None, typer.Option("--batch-sizes", help="bench devices: where the GPU may begin to pay, as in 1,8,64")
    ] = None,
) -> None:
    """Step time at several worker counts, beside the peers and a yardstick; correctness first."""
    if [name is not None, everything, tables].count(True) != 1:
        named = ", ".join([*measurements(), NAME])
        raise SamebitsError(f"bench takes one of: a TASK, {named}, --all, --tables; see samebits bench --help")
    counts = worker_counts(workers or "1,2")
    chosen = preset or batch_size or setting or copies or device != "cpu" or tasks or batch_sizes
    if name is None:
        if chosen or not record:
            raise SamebitsError("--all and --tables go by fixed presets and keep records; leave the other options out")
        if everything:
            bench_all(counts, steps or STEPS)
        for path in rewrite():
            echo(f"wrote {path}")
        return
    check_name(name)
    if name == NAME:
        if preset or batch_size or setting or copies or processes or peers or steps:
            raise SamebitsError(
                f"bench {NAME} takes --tasks, --workers, --device, --batch-sizes and --no-record only; leave the other "
                "options out"
            )
        counts = worker_counts(workers) if workers else sorted({min(2, available_cores()), available_cores()})
        bench_devices(chosen_tasks(tasks), counts, "gpu" if device == "cpu" else device, sizes_of(batch_sizes), record)
        return
    if tasks or batch_sizes:
        raise SamebitsError(f"--tasks and --batch-sizes belong to samebits bench {NAME}; leave them out")
    if device != "cpu":
        if name in measurements() or workers or copies or processes:
            raise SamebitsError(
                f"--device {device} is for the training step of a task, and without --workers, --copies and --processes"
            )
        settings = settings_of(setting, batch_size=batch_size)
        bench_on_gpu(name, preset, device, steps or STEPS, settings, peers, record)
        return
    if processes is not None:
        settings = settings_of(setting, batch_size=batch_size)
        bench_groups(name, preset, process_count(processes), counts, steps or STEPS, settings, peers, record)
        return
    if name not in measurements():
        settings = settings_of(setting, batch_size=batch_size)
        bench_task(name, preset, counts, steps or STEPS, settings, peers, copies, record)
    elif chosen or steps:
        raise SamebitsError(f"bench {name} takes --workers and --no-record only; leave the other options out")
    else:
        bench_measurement(name, counts, record)


def bench_all(counts: list[int], steps: int) -> None:
    """What fails is named and left out; the rest is measured and kept."""
    failed = []
    named = f"--workers {','.join(map(str, counts))}"
    jobs = [(task, preset) for family in discover().values() for task, preset in timed_presets(family)]
    for name, preset in [*jobs, *((name, None) for name in measurements())]:
        try:
            if preset is None:
                bench_measurement(name, counts, True, f"samebits bench {name} {named}")
            else:
                command = f"samebits bench {name} --preset {preset} {named} --peers --steps {steps}"
                bench_task(name, preset, counts, steps, {}, True, False, True, command)
        except SamebitsError as error:
            say(f"samebits: {name} left out: {error}")
            failed.append(name)
    if failed:
        raise SamebitsError(
            f"could not measure {', '.join(failed)}; fix that, measure them alone, then: samebits bench --tables"
        )


def bench_task(
    task: str,
    preset: str | None,
    counts: list[int],
    steps: int,
    settings: dict[str, Any],
    peers: bool,
    copies: bool,
    record: bool,
    command: str | None = None,
) -> None:
    family, chosen, config = api.configure(task, preset, settings)
    around = look_around()
    proof = prove(family, find_task(task)[1], config, counts)
    rows = contest(family, config, counts, steps, peers, copies, note=lambda text: say(text))
    show(rows, f"{task} {chosen}, batch {config.batch_size}")
    echo(
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
            **around,
        }
        made = new_record(f"bench-{task}-{chosen}-batch{config.batch_size}", content, command)
        echo(f"wrote {write_record(made)}")
        echo(f"wrote {plot_bench(new_plot(made), made)}")


def bench_groups(
    task: str, preset: str | None, processes: int, counts: list[int], steps: int, settings: dict[str, Any], peers: bool,
    record: bool,
) -> None:  # fmt: skip
    """A table for each worker count: one process with all of them, and several with so many each."""
    family, chosen, config = api.configure(task, preset, settings)
    for count in counts:
        around = look_around()
        rows = compare_groups(family, config, processes, count, steps, peers, say)
        cells = [
            (row["system"], f"{row['processes']} × {row['threads']}", f"{row['median']:.2f}",
             f"{min(row['medians']):.2f} … {max(row['medians']):.2f}", f"{100 * row['of_one_process']:.0f} %")
            for row in rows
        ]  # fmt: skip
        columns = ("system", "processes × workers", "ms a step", "spread", "of one process")
        print_table(columns, cells, f"{task} {chosen}, batch {config.batch_size}")
        if record:
            content = {
                "family": family.name, "task": task, "preset": chosen, "config": config.model_dump(mode="json"),
                "rows": rows, **around,
            }  # fmt: skip
            made = new_record(f"processes-{task}-{chosen}-batch{config.batch_size}-{processes}x{count}", content)
            echo(f"wrote {write_record(made)}")


def new_plot(record: Record) -> Path:
    """A record's picture is not drawn over an earlier one's."""
    number = 1
    while (path := PLOTS / f"{record['date']}-{record['name']}-{number}.png").exists():
        number += 1
    return path


def bench_measurement(name: str, counts: list[int], record: bool, command: str | None = None) -> None:
    say(f"{name}: {measurements()[name].summary}")
    around = look_around()
    found = find(measurements()[name].measure)(counts)
    cells = [
        [
            row["case"],
            row["system"],
            row["threads"],
            f"{number(row['median'])} {row['unit']}",
            f"{number(min(row['medians']))} … {number(max(row['medians']))}",
            f"{row['speed_up']:.2f}×" if row.get("speed_up", 1) != 1 else "",
            f"{number(row['times_slower'])}× as fast" if "times_slower" in row else "",
        ]
        for row in found.rows
    ]
    print_table(["what", "system", "threads", "median", "spread", "speed-up", "samebits is"], cells, name)
    echo(f"checked first: {found.proof}")
    if record:
        made = new_record(f"bench-{name}", {"measurement": name, **found._asdict(), **around}, command)
        echo(f"wrote {write_record(made)}")


def show(rows: list[Row], title: str) -> None:
    columns = [
        "system",
        "threads",
        "ms a step",
        "spread",
        "speed-up",
        "of ideal",
        "of yardstick",
        "samebits is",
        "peak MB",
    ]
    copies = "of_copies" in rows[0]
    cells = []
    for row in rows:
        if "absent" in row:
            echo(f"{row['system']}, {row['threads']} threads: left out, {row['absent']}")
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
