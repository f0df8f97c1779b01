"""The README's tables and plots, made from the records alone: the newest record of each task on the chosen machine.

A table stands between `<!-- records:FAMILY -->` and `<!-- /records -->`. What is between them is replaced; the rest of
the file is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.bench.records import RESULTS, read_record
from weft.errors import WeftError
from weft.report.plots import plot_bench

PICTURES = Path("docs/pictures")
MARKED = re.compile(r"(<!-- records:(\w+) -->\n).*?(<!-- /records -->)", re.DOTALL)
Record = dict[str, Any]


def bench_records(folder: Path = RESULTS) -> list[Record]:
    """Every record of `weft bench` with a proof and rows, oldest first."""
    found = []
    for path in folder.glob("*-bench-*.json"):
        record = read_record(path)
        number = int(path.stem.rsplit("-", 1)[1])
        found.append((record["date"], number, path.name, record))
    return [record for *_, record in sorted(found, key=lambda item: item[:3])]


def newest(records: Iterable[Record]) -> list[Record]:
    """The last record of each task that was measured with its peers at its full size, in the order of first sight."""
    found: dict[str, Record] = {}
    for record in records:
        if record["preset"] == "full" and any("times_slower" in row for row in record["rows"]):
            found[record["task"]] = record
    return list(found.values())


def table(records: Sequence[Record]) -> str:
    """A Markdown table: a row a task, a column a system, milliseconds a step at each thread count."""
    systems: dict[str, None] = {}
    for record in records:
        systems |= dict.fromkeys(row["system"] for row in record["rows"])
    bounds = {row["system"] for record in records for row in record["rows"] if _is_bound(row)}
    peers = [name for name in systems if name != "weft" and name not in bounds]
    lines = [
        "| " + " | ".join(["task", "weft", *peers, *sorted(bounds), "of the bound", "peak memory"]) + " |",
        "|---" * (5 + len(peers) + len(bounds) - 1) + "|",
    ]
    for record in records:
        cells = [f"{record['task']}, batch {record['config']['batch_size']}", f"**{times(record, 'weft')}**"]
        cells += [times(record, name) for name in [*peers, *sorted(bounds)]]
        ours = [row for row in record["rows"] if row["system"] == "weft"]
        cells.append(" / ".join(f"{100 * row['of_bound']:.0f} %" for row in ours if "of_bound" in row))
        cells.append(f"{max(row['peak_megabytes'] for row in ours):.0f} MB")
        lines.append("| " + " | ".join(cells) + " |")
    machine = records[-1]["machine"]
    threads = sorted({row["threads"] for record in records for row in record["rows"] if row["system"] == "weft"})
    commits = ", ".join(dict.fromkeys(record["machine"]["commit"] for record in records))
    return (
        "\n".join(lines)
        + f"\n\nMilliseconds a step with {' / '.join(map(str, threads))} workers or threads, median, all in one run;"
        f" in brackets: times slower than weft. {machine['cpu']}, {machine['cores']} cores; weft at {commits}.\n"
    )


def _is_bound(row: Mapping[str, Any]) -> bool:
    return row["system"] != "weft" and "absent" not in row and "times_slower" not in row


def times(record: Record, system: str) -> str:
    rows = [row for row in record["rows"] if row["system"] == system and "absent" not in row]
    text = " / ".join(_number(row["median"]) for row in rows)
    slower = [row["times_slower"] for row in rows if "times_slower" in row]
    return text + (f" ({slower[-1]:.3g}×)" if slower else "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def rewrite(file: Path = Path("README.md"), results: Path = RESULTS, pictures: Path = PICTURES) -> list[Path]:
    """Replace the marked tables of a file and draw a plot per task; what was written."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise WeftError(f"cannot read {file} ({error.strerror}); run this in a checkout of weft") from None
    chosen = newest(bench_records(results))
    if not chosen:
        raise WeftError(f"{results} has no record of weft bench with --peers; make one first: weft bench TASK --peers")

    def replaced(match: re.Match[str]) -> str:
        mine = [record for record in chosen if record["family"] == match[2]]
        return match[1] + table(mine) + match[3] if mine else match[0]

    new = MARKED.sub(replaced, text)
    written = [plot_bench(pictures / f"bench-{record['task']}.png", record) for record in chosen]
    if new != text:
        file.write_text(new, encoding="utf-8")
        written.append(file)
    return written
