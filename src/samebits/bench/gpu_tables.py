"""The tables of what was measured on GPUs: beside the peers there, and beside the cores of the same machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from samebits.bench.cases import OURS
from samebits.bench.devices import NAME
from samebits.bench.markdown import by_machine, number, percent, source, title_of, value_of
from samebits.bench.records import Record


def beside_gpu_peers(records: Iterable[Record]) -> list[Record]:
    """The newest of each size on each GPU, with another system in the same run."""
    some = [record for record in records if "gpu" in record and any("times_slower" in row for row in record["rows"])]
    return _newest(some, lambda record: (record["family"], record["task"], record["config"]["batch_size"]))


def on_devices(records: Iterable[Record]) -> list[Record]:
    """The newest of each task on each GPU."""
    some = [record for record in records if record.get("measurement") == NAME]
    return _newest(some, lambda record: (record["family"], record["task"]))


def _newest(records: Iterable[Record], kind: Callable[[Record], tuple[Any, ...]]) -> list[Record]:
    found = {(title_of(record), *kind(record), record["preset"]): record for record in records}
    return [found[key] for key in sorted(found)]


def gpu_table(records: Sequence[Record]) -> str:
    """A row a system."""

    def lines(record: Record) -> list[list[str]]:
        found = []
        for row in record["rows"]:
            if "absent" in row:
                continue
            ours = row["system"] == OURS
            what = f"{record['task']} {record['preset']}, batch {record['config']['batch_size']}" if ours else ""
            name, value = (f"**{text}**" if ours else text for text in (row["system"], value_of([row])))
            faster = f"{number(row['times_slower'])}× as fast" if "times_slower" in row else ""
            shares = [percent([row], "of_bound"), f"{row['gpu_megabytes']:,.0f} MB"]
            found.append([what, name, value, faster, *shares, *(source(record) if ours else ["", ""])])
        return found

    head = [
        "one training step",
        "system",
        "median",
        "samebits is",
        "of the bound",
        "GPU memory",
        "measured with",
        "commit",
    ]
    note = (
        "All systems of a task took turns on one GPU in one run. tf32 and bf16 are other arithmetic: matrix products of"
        " numbers with fewer digits, on tensor cores. The bound is the larger of the step's float32 operations at the"
        " GPU's peak outside tensor cores (H200: 67 TFLOP/s) and of its weights and moments, read and written once, at"
        " its bandwidth (4.3 TB/s)."
    )
    return by_machine(records, head, lines, note)


def devices_table(records: Sequence[Record]) -> str:
    """A row a task: milliseconds at each count and on the GPU."""
    counts = sorted({row["threads"] for record in records for row in record["rows"] if row["threads"]})

    def lines(record: Record) -> list[list[str]]:
        batch = record["config"]["batch_size"]
        found = {row["threads"]: row["median"] for row in record["rows"] if row["batch_size"] == batch}
        fastest = min((ms for count, ms in found.items() if count), default=None)
        cells = [f"{number(found[count])} ms" if count in found else "" for count in counts]
        faster = f"{number(fastest / found[None])}× as fast" if fastest else ""
        pays = record["pays_from"] or f"not up to {record['largest']}"
        what = f"{record['task']} {record['preset']}, batch {batch}"
        return [[what, *cells, f"{number(found[None])} ms", faster, str(pays), *source(record)]]

    names = [f"{count} core{'s' if count > 1 else ''}" for count in counts]
    head = ["one training step", *names, "GPU", "the GPU is", "pays from batch", "measured with", "commit"]
    note = (
        "Medians, the same bits everywhere. The GPU pays from the smallest batch that was tried at which its step takes"
        f" less time than that of {counts[-1]} cores."
        if counts
        else ""
    )
    return by_machine(records, head, lines, note)
