"""samebits bench with --device, and samebits bench devices"""

from __future__ import annotations

import os
from typing import Any

from samebits import api
from samebits.bench.busy import others_busy, warning
from samebits.bench.cases import Row
from samebits.bench.contest import prove
from samebits.bench.devices import NAME, SIZES, compare_devices
from samebits.bench.gpu_contest import FIRST_STEPS, gpu_contest
from samebits.bench.markdown import number
from samebits.bench.on_gpu import require_cuda_peers
from samebits.bench.records import new_record, write_record
from samebits.checks import refuse
from samebits.cli.common import print_table
from samebits.cli.terminal import echo, say
from samebits.compiler.cores import available_cores
from samebits.devices.choose import device_for
from samebits.errors import SamebitsError
from samebits.families import discover, find_task

LARGEST = 65_536  # batch


def bench_on_gpu(
    task: str, preset: str | None, device: str, steps: int, settings: dict[str, Any], peers: bool, record: bool
) -> None:
    """Ours and the peers on a GPU, after the CPU has said what the weights of the first steps are."""
    with device_for(device, 1):  # refused before anything is computed
        pass
    if peers:
        require_cuda_peers(device)
    family, chosen, config = api.configure(task, preset, settings)
    around = look_around()

    def proof_on_cpu() -> dict[str, Any]:
        return prove(family, find_task(task)[1], config, [available_cores()], FIRST_STEPS)

    gpu, proof, rows = gpu_contest(family, config, device, steps, proof_on_cpu, peers, note=say)
    show_on_gpu(rows, f"{task} {chosen}, batch {config.batch_size}, {gpu['name']}")
    echo(
        f"checked first: loss {proof['loss']:.6g}, the reference {proof['reference_loss']:.6g}; gradients within "
        f"{proof['largest_gradient_error']:.0e} of finite differences; after {FIRST_STEPS} steps the bits of the CPU"
    )
    if record:
        content: dict[str, Any] = {
            "family": family.name,
            "task": task,
            "preset": chosen,
            "config": config.model_dump(mode="json"),
            "gpu": gpu,
            "proof": proof,
            "rows": rows,
            **around,
        }
        echo(f"wrote {write_record(new_record(f'bench-{task}-{chosen}-batch{config.batch_size}-gpu', content))}")


def look_around() -> dict[str, float | None]:
    """Before anything is measured: says so where others keep the machine busy; for the record."""
    others = others_busy()
    if told := warning(others, os.cpu_count() or 1):
        say(told)
    return {"others_busy_cores": others}


def show_on_gpu(rows: list[Row], title: str) -> None:
    cells = []
    for row in rows:
        if "absent" in row:
            echo(f"{row['system']}: left out, {row['absent']}")
            continue
        cells.append(
            [
                row["system"],
                f"{row['median']:.3f}",
                f"{min(row['medians']):.3f} … {max(row['medians']):.3f}",
                f"{100 * row['of_bound']:.1f} %" if "of_bound" in row else "",
                f"{row['times_slower']:.2f}× as fast" if "times_slower" in row else "",
                f"{row['gpu_megabytes']:.0f}",
                f"{row['first_seconds']:.0f}",
            ]
        )
    columns = ["system", "ms a step", "spread", "of bound", "samebits is", "GPU MB", "s to the first step"]
    print_table(columns, cells, title)
    found = next((row["bound"] for row in rows if "bound" in row), None)
    if found:
        echo(f"the bound: {found['arithmetic']:.3f} ms of arithmetic, {found['memory']:.3f} ms of memory")


def chosen_tasks(text: str | None) -> list[str]:
    names = text.split(",") if text is not None else [task for family in discover().values() for task in family.tasks]
    for name in names:
        find_task(name)  # says which there are
    return names


def sizes_of(text: str | None) -> list[int]:
    """A list such as 1,8,64."""
    if text is None:
        return list(SIZES)
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and 1 <= int(part[:6]) <= LARGEST for part in parts):
        raise refuse("batch-sizes", text, f"numbers from 1 to {LARGEST:,}, with commas", "use --batch-sizes 1,8,64")
    return [int(part) for part in parts]


def bench_devices(tasks: list[str], counts: list[int], device: str, sizes: list[int], record: bool) -> None:
    """A record a task, kept as soon as it is measured; then a table of all."""
    cells, failed = [], []
    with device_for(device, 1) as gpu:
        for task in tasks:
            say(task)
            family, chosen, config = api.configure(task, None, {})
            around = look_around()
            try:
                found = compare_devices(family, config, counts, gpu, sizes, say)
            except SamebitsError as error:
                say(f"samebits: {task} left out: {error}")
                failed.append(task)
                continue
            content: dict[str, Any] = {
                "measurement": NAME,
                "family": family.name,
                "task": task,
                "preset": chosen,
                "config": config.model_dump(mode="json"),
                **found,
                **around,
            }
            if record:
                write_record(new_record(f"bench-{NAME}-{task}", content))
            cells.append(device_cells(content, counts))
        name = found["gpu"]["name"] if cells else ""
    if cells:
        columns = [
            "task",
            "batch",
            *(f"{count} worker{'s' if count > 1 else ''}, ms" for count in counts),
            "GPU, ms",
            "GPU is",
            "pays from batch",
        ]
        print_table(columns, cells, f"{name}; the same bits everywhere")
    if failed:
        raise SamebitsError(f"could not measure {', '.join(failed)}; see above; the others are kept")


def device_cells(content: dict[str, Any], counts: list[int]) -> list[str]:
    batch = content["config"]["batch_size"]
    found = {row["threads"]: row["median"] for row in content["rows"] if row["batch_size"] == batch}
    cpu, gpu = min(found[count] for count in counts), found[None]
    times = [f"{number(found[count])}" for count in (*counts, None)]
    pays = content["pays_from"] or f"not up to {content['largest']}"
    return [content["task"], str(batch), *times, f"{number(cpu / gpu)}× as fast", str(pays)]
