"""The tables and plots of README and docs, made from the records alone: the newest of each kind on each machine.

A table stands between `<!-- records:NAME -->` and `<!-- /records -->`. What is between them is replaced; the rest of
the file is left alone. Names: summary, all, scaling, gpu (the peers on a GPU), devices (CPU and GPU), or what a record
is of (gpt, distances, …) for those alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from samebits.bench.cases import OURS
from samebits.bench.gpu_tables import beside_gpu_peers, devices_table, gpu_table, on_devices
from samebits.bench.markdown import Row, by_machine, machine_of, memory, number, percent, source, value_of
from samebits.bench.records import ARCHIVE, RESULTS, Record, bench_records, set_aside
from samebits.errors import SamebitsError
from samebits.files import write
from samebits.report.benchmarks import plot_peers, plot_scaling

PICTURES = Path("docs/pictures")
MARKED = re.compile(r"(<!-- records:(\w+) -->\n).*?(<!-- /records -->)", re.DOTALL)
PRESETS = ("full", "timing")
CURVE = 3  # worker counts that make a scaling curve
Choice = Callable[[Iterable[Record]], list[Record]]


class Entry(NamedTuple):
    """One thing that was measured: a training step of a task, or a case of another measurement."""

    what: str
    ours: list[Row]  # by worker count
    others: dict[str, list[Row]]  # peers by name
    bounds: dict[str, list[Row]]
    record: Record


def entries_of(record: Record) -> list[Entry]:
    rows = [row for row in record["rows"] if "absent" not in row]
    cases = list(dict.fromkeys(row.get("case", "") for row in rows))
    return [_entry(record, case, [row for row in rows if row.get("case", "") == case]) for case in cases]


def _entry(record: Record, case: str, rows: Sequence[Row]) -> Entry:
    others: dict[str, list[Row]] = {}
    bounds: dict[str, list[Row]] = {}
    for row in rows:
        if row["system"] != OURS:
            (others if "times_slower" in row else bounds).setdefault(row["system"], []).append(row)
    what = case or f"{record['task']}, batch {record['config']['batch_size']}"
    return Entry(what, [row for row in rows if row["system"] == OURS], others, bounds, record)


def newest(records: Iterable[Record]) -> list[Record]:
    """The last record of each kind on each machine: fewest cores first, training steps before the rest."""
    found: dict[tuple[Any, ...], Record] = {}
    for record in records:
        if "measurement" in record:
            kind: tuple[Any, ...] = (1, record["measurement"])
        else:
            kind = (0, record["family"], record["task"], record["preset"], record["config"]["batch_size"])
        found[(machine_of(record), kind)] = record
    return [found[key] for key in sorted(found)]


def beside_peers(records: Iterable[Record]) -> list[Record]:
    """Measured with another system in the same run, at a size made for it."""
    return newest(
        record
        for record in records
        if "gpu" not in record
        and record.get("preset", "full") in PRESETS
        and any("times_slower" in row for row in record["rows"])
    )


def over_workers(records: Iterable[Record]) -> list[Record]:
    """Training steps at enough worker counts for a curve."""
    return newest(
        record
        for record in records
        if "gpu" not in record
        and record.get("preset") in PRESETS
        and len([row for row in record["rows"] if row["system"] == OURS]) >= CURVE
    )


def superseded(records: Sequence[Record]) -> list[int]:
    """Places of those that no table needs and that have a newer record of the same name on the same machine."""
    ordered = sorted(records, key=lambda record: record["date"])
    timed = [record for record in ordered if record["name"].startswith("bench-")]
    last = {(machine_of(record), record["name"]): record for record in ordered}
    kept = {id(record) for choose, _ in TABLES.values() for record in choose(timed)}
    kept |= {id(record) for record in last.values()}
    return [place for place, record in enumerate(records) if id(record) not in kept]


def summary_table(records: Sequence[Record]) -> str:
    """A row an entry at its largest worker count, beside all peers, the fastest first."""

    def lines(record: Record) -> list[list[str]]:
        return [_summary_line(entry) for entry in entries_of(record) if entry.others]

    head = ["what", "workers", "samebits", "beside it", "samebits is", "of the yardstick", "measured with", "commit"]
    note = (
        "Medians. A training step unless it says otherwise; all systems of a row took turns in one run, with as many"
        " threads as workers. The yardstick is a part of the work done alone: the step's matrix products through BLAS,"
        " or its bytes through the L2 cache, one core's time shared out among the workers. It is no bound: above 100 %"
        " our own products are faster than BLAS at these sizes."
    )
    return by_machine(records, head, lines, note)


def _summary_line(entry: Entry) -> list[str]:
    ours = entry.ours[-1]
    peers = sorted((rows[-1] for rows in entry.others.values()), key=lambda row: row["times_slower"])
    return [
        entry.what,
        str(ours["threads"]),
        f"**{value_of([ours])}**",
        "; ".join(f"{row['system']} {value_of([row])}" for row in peers),
        ", ".join(f"{number(row['times_slower'])}×" for row in peers) + " as fast",
        percent([ours], "of_bound"),
        *source(entry.record),
    ]


def full_table(records: Sequence[Record]) -> str:
    """A row a system, at every worker count."""

    def lines(record: Record) -> list[list[str]]:
        return [line for entry in entries_of(record) for line in _full_lines(entry)]

    head = ["what; workers or threads", "system", "median", "samebits is", "peak memory", "measured with", "commit"]
    return by_machine(records, head, lines)


def _full_lines(entry: Entry) -> list[list[str]]:
    counts = " / ".join(str(row["threads"]) for row in entry.ours)
    lines = [[f"{entry.what}; {counts}", "**samebits**", f"**{value_of(entry.ours)}**", "", memory(entry.ours)]]
    for system, rows in entry.others.items():
        faster = " / ".join(f"{number(row['times_slower'])}×" for row in rows) + " as fast"
        lines.append(["", system, value_of(rows), faster, memory(rows)])
    for system, rows in entry.bounds.items():
        lines.append(["", system, f"{value_of(rows)}, one core", f"at {percent(entry.ours, 'of_bound')} of it", ""])
    return [line + (source(entry.record) if line is lines[0] else ["", ""]) for line in lines]


def scaling_table(records: Sequence[Record]) -> str:
    """Milliseconds a step and speed-up, a column a worker count."""
    counts = sorted({row["threads"] for record in records for row in record["rows"] if row["system"] == OURS})

    def lines(record: Record) -> list[list[str]]:
        return [_scaling_line(entry, counts) for entry in entries_of(record)]

    names = [f"{count} worker{'s' if count > 1 else ''}" for count in counts]
    head = ["one training step", *names, "measured with", "commit"]
    note = (
        "Milliseconds a step, median; in brackets the speed-up and, where it was measured in the same run, the share of"
        " what as many independent single-worker copies side by side reach: what the cores can do."
    )
    return by_machine(records, head, lines, note)


def _scaling_line(entry: Entry, counts: Sequence[int]) -> list[str]:
    cells = []
    for count in counts:
        rows = [row for row in entry.ours if row["threads"] == count]
        cells += [f"{number(row['median'])} ({_speed_up(row)})" for row in rows] or [""]
    return [entry.what, *cells, *source(entry.record)]


def _speed_up(row: Row) -> str:
    return ", ".join(filter(None, [f"{row['speed_up']:.1f}×", percent([row], "of_copies")]))


TABLES: dict[str, tuple[Choice, Callable[[Sequence[Record]], str]]] = {
    "summary": (beside_peers, summary_table),
    "all": (beside_peers, full_table),
    "scaling": (over_workers, scaling_table),
    "gpu": (beside_gpu_peers, gpu_table),
    "devices": (on_devices, devices_table),
}


def rewritten(text: str, records: Sequence[Record]) -> str:
    """The text with its marked tables replaced; one that has no records stays as it is."""

    def replaced(match: re.Match[str]) -> str:
        name = match[2]
        mine = [record for record in records if name in (record.get("family"), record.get("measurement"))]
        choose, make = TABLES.get(name, (beside_peers, full_table))
        chosen = choose(records if name in TABLES else mine)
        return match[1] + make(chosen) + match[3] if chosen else match[0]

    return MARKED.sub(replaced, text)


def pages(root: Path = Path()) -> list[Path]:
    """Every Markdown file that may hold tables."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def rewrite(results: Path = RESULTS, pictures: Path = PICTURES, archive: Path = ARCHIVE) -> list[Path]:
    """Replace the marked tables of all pages, draw the plots, archive what is superseded; what was written."""
    try:
        texts = {page: page.read_text(encoding="utf-8") for page in pages()}
    except OSError as error:
        raise SamebitsError(
            f"cannot read {error.filename} ({error.strerror}); run this in a checkout of samebits"
        ) from None
    files = sorted(results.glob("*.jsonl"))
    records = bench_records(files)
    if not beside_peers(records):
        raise SamebitsError(
            f"{results} has no record of samebits bench with --peers; make one first: samebits bench TASK --peers"
        )
    changed = {page: new for page, text in texts.items() if (new := rewritten(text, records)) != text}
    for page, text in changed.items():
        write(page, text.encode())
    drawn = draw(records, pictures)
    return [*changed, *drawn, *(archive / path.name for path in files if set_aside(path, superseded, archive))]


def draw(records: Sequence[Record], pictures: Path) -> list[Path]:
    """How the largest machine's cores were used, and the peers on every machine."""
    written = []
    curves = over_workers(records)
    if curves:
        largest = max(machine_of(record) for record in curves)
        lines = {
            entry.what: [(row["threads"], row["speed_up"]) for row in entry.ours]
            for record in curves
            if machine_of(record) == largest
            for entry in entries_of(record)
        }
        written.append(plot_scaling(pictures / "bench-scaling.png", lines, f"{largest[0]} cores, {largest[1]}"))
    bars = [
        (f"{entry.what}, {threads} thread{'s' if threads > 1 else ''}", peers)
        for record in beside_peers(records)
        if record.get("measurement") in (None, "distances")  # the others race with our own slower way only
        for entry in entries_of(record)
        if (peers := {system: rows[-1]["times_slower"] for system, rows in entry.others.items()})
        for threads in [entry.ours[-1]["threads"]]
    ]
    return [*written, plot_peers(pictures / "bench-peers.png", bars)]
