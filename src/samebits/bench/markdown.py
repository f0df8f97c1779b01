"""Pieces of the tables that records are made into."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from samebits.bench.records import Record

Row = Mapping[str, Any]


def machine_of(record: Record) -> tuple[int, str]:
    return record["machine"]["cores"], record["machine"]["cpu"].replace("(R)", "")


def title_of(record: Record) -> str:
    cores, cpu = machine_of(record)
    gpu = record.get("gpu")
    if gpu is None:
        return f"**{cores} cores**, {cpu}:"
    driver = f" (driver {gpu['driver']})" if "driver" in gpu else ""
    return f"**{gpu['name']}**{driver}, in a machine of {cores} cores, {cpu}:"


def by_machine(
    records: Sequence[Record], head: Sequence[str], lines: Callable[[Record], list[list[str]]], note: str = ""
) -> str:
    """One Markdown table a machine, its name above it; `lines` gives a record's rows of cells."""
    parts = []
    for title, some in groupby(records, title_of):
        cells = [cell for record in some for cell in lines(record)]
        rows = ["| " + " | ".join(row) + " |" for row in [head, *cells]]
        parts.append("\n".join([f"{title}\n", rows[0], "|---" * len(head) + "|", *rows[1:]]))
    return "\n\n".join([*parts, note] if note else parts) + "\n"


def source(record: Record) -> list[str]:
    return [f"`{record['command']}`", record["machine"]["commit"]]


def value_of(rows: Sequence[Row]) -> str:
    """Medians at each count, with their unit once."""
    return " / ".join(number(row["median"]) for row in rows) + " " + rows[0].get("unit", "ms")


def percent(rows: Sequence[Row], key: str) -> str:
    return " / ".join(f"{100 * row[key]:.0f} %" for row in rows if key in row)


def memory(rows: Sequence[Row]) -> str:
    peaks = [row["peak_megabytes"] for row in rows if "peak_megabytes" in row]
    return f"{max(peaks):,.0f} MB" if peaks else ""


def number(value: float) -> str:
    for size, name in ((1e9, " billion"), (1e6, " million")):
        if value >= size:
            return f"{value / size:.1f}{name}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
