"""Table and picture of docs/cluster.md, from the records of tests/network/measure.py: python tools/cluster_page.py."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from samebits.bench.records import RESULTS, Record, read_records
from samebits.bench.step_model import Network, Work, predict
from samebits.report.benchmarks import COLOURS
from samebits.report.plots import GREY, save, screenless_pyplot

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "docs" / "cluster.md", ROOT / "docs" / "pictures" / "cluster-model.png"
MARKED = re.compile(r"(<!-- network -->\n).*?(<!-- /network -->)", re.DOTALL)
NETWORKS = {"1 Gbit/s, 0.2 ms": Network(0.2e-3, 1e9), "25 Gbit/s, 0.02 ms": Network(0.02e-3, 25e9)}
RANKS = [1 << power for power in range(11)]
LARGE = 4096  # samples a step


def newest() -> list[Record]:
    records = [record for path in sorted((ROOT / RESULTS).glob("*.jsonl")) for record in read_records(path)]
    found = {record["name"]: record for record in records if record["name"].startswith("network-")}
    return [found[name] for name in sorted(found)]


def work_of(record: Record) -> Work:
    return Work(**record["work"])


def name_of(record: Record) -> str:
    return f"{record['task']} {record['preset']}, batch {record['batch_size']}"


def table(records: Sequence[Record]) -> str:
    lines = ["| | machines | sent by each | measured | model | of it: compute, transfer, waiting |", "|---" * 6 + "|"]
    for record in records:
        for point in record["points"]:
            found = predict(work_of(record), Network(**point["network"]), point["machines"])
            parts = ", ".join(f"{1e3 * part:.1f}" for part in (found.compute, found.transfer, found.waiting))
            ratio = found.total / point["seconds"]
            lines.append(
                f"| {name_of(record)} | {point['machines']} | {point['sent'] / 1e6:.2f} MB | "
                f"{1e3 * point['seconds']:.1f} ms | {1e3 * found.total:.1f} ms ({100 * ratio:.0f} %) | {parts} ms |"
            )
    return "\n".join(lines) + "\n"


def enlarged(work: Work, factor: int) -> Work:
    """The same with a batch so many times as large."""
    return replace(work, shared=factor * work.shared, groups=factor * work.groups)


def draw(records: Sequence[Record]) -> Path:
    figure, panels = screenless_pyplot().subplots(
        1, 2, figsize=(9.6, 4.2), dpi=120, layout="constrained", sharex=True, sharey=True
    )
    for axes, (title, network) in zip(panels, NETWORKS.items(), strict=True):
        axes.plot(RANKS, RANKS, "--", color=GREY, linewidth=1)
        for record, colour in zip(records, COLOURS, strict=False):
            work = work_of(record)
            for batch, line in ((LARGE, "-"), (record["batch_size"], ":")):
                large = enlarged(work, batch // record["batch_size"])
                alone = predict(large, network, 1).total
                speed = [alone / predict(large, network, ranks).total for ranks in RANKS]
                label = f"{record['task']} {record['preset']}, batch {batch:,}"
                axes.plot(RANKS, speed, line, color=colour, linewidth=1.8, label=label)
        axes.set(title=title, xlabel="ranks, one core each", xscale="log", yscale="log", ylim=(0.05, 1500))
        axes.set_xticks(RANKS, [str(ranks) for ranks in RANKS])
        axes.set_yticks([0.1, 1, 10, 100, 1000], ["0.1", "1", "10", "100", "1,000"])
        axes.tick_params(axis="x", labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("times as fast as one rank")
    panels[0].legend(fontsize=8, frameon=False)
    return save(figure, PICTURE)


def main() -> None:
    records = newest()
    made = table(records)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARKED.sub(lambda match: match[1] + made + match[2], text), encoding="utf-8")
    print(f"wrote {PAGE} and {draw(records)}")


if __name__ == "__main__":
    main()
