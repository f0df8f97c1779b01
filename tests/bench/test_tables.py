"""Tables and plots are a function of the records; text outside the markers is nobody's business."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from samebits.bench import tables
from samebits.bench.records import bench_records, read_records, write_record
from tests.helpers import samebits_here, snapshot

AFTER = "after <!-- records:none -->\nkept\n<!-- /records -->\n"
README = "# x\n\nbefore\n<!-- records:summary -->\nold\n<!-- /records -->\n" + AFTER
ROOT = Path(__file__).parents[2]
MACHINE = {"cpu": "a CPU(R)", "cores": 2, "commit": "abc"}


def row(system, threads, median, **more):
    return {"system": system, "threads": threads, "median": median, "medians": [median], "peak_megabytes": 100, **more}


def record(task="life", date="2026-01-01", ours=1.0, preset="full", peers=True, cores=2, counts=(1, 2)):
    rows = [row("samebits", n, ours / n, speed_up=float(n), of_ideal=1.0, of_bound=0.25 * n) for n in counts]
    if peers:
        rows += [row("JAX", n, 200 * ours / n, speed_up=float(n), times_slower=200.0) for n in counts]
        rows += [row("PyTorch eager", n, 50 * ours, speed_up=1.0, times_slower=50.0 * n) for n in counts]
    rows += [row("L2 traffic alone", 1, ours / 4, speed_up=1.0), {"system": "PyG", "threads": 2, "absent": "not here"}]
    return {
        "name": f"bench-{task}-{preset}-batch20", "family": "logic_ca", "task": task, "preset": preset, "date": date,
        "config": {"batch_size": 20}, "command": f"samebits bench {task}", "machine": {**MACHINE, "cores": cores},
        "rows": rows,
    }  # fmt: skip


def measured():
    rows = [
        {"case": "8 nodes", "system": "samebits", "threads": 1, "unit": "ms a pair", "median": 0.25, "medians": [0.25]},
        {"case": "8 nodes", "system": "networkx", "threads": 1, "unit": "ms a pair", "median": 1000.0, "medians": [1]},
        {"case": "10 nodes", "system": "samebits", "threads": 1, "unit": "cells/s", "median": 2.34e9, "medians": [1]},
    ]
    rows[1]["times_slower"] = 4000.0
    return {
        "name": "bench-distances", "measurement": "distances", "date": "2026-01-01",
        "command": "samebits bench distances", "machine": {**MACHINE, "commit": "def"}, "rows": rows,
    }  # fmt: skip


def keep(folder, *records):
    for content in records:
        write_record(content, folder / "benchmarks/results")


def test_the_newest_full_record_with_peers_is_shown(tmp_path):
    (tmp_path / "README.md").write_text(README)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text("<!-- records:distances -->\n<!-- /records -->\n")
    keep(
        tmp_path,
        record(ours=3.0, date="2026-03-01"),
        record(ours=2000.0),  # older: dates count, and lines only within a day
        record(ours=7.0, date="2026-04-01", preset="small"),
        record(ours=8.0, date="2026-04-02", peers=False),
        record("letter", ours=40.0),
        {"name": "learning", "date": "2026-05-01", "machine": MACHINE, "rows": []},
    )
    before = read_records(tmp_path / "benchmarks/results/2-cores-a.jsonl")
    done = samebits_here("bench", "--tables", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "README.md").read_text()
    # The fastest peer first.
    line = "| life, batch 20 | 2 | **1.5 ms** | PyTorch eager 150 ms; JAX 300 ms | 100×, 200× as fast | 50 % |"
    assert f"{line} `samebits bench life` | abc |" in text
    assert "| letter, batch 20 | 2 | **20 ms** | PyTorch eager 2,000 ms; JAX 4,000 ms |" in text
    assert text.startswith("# x\n\nbefore\n<!-- records:summary -->\n**2 cores**, a CPU:\n\n| what | workers |")
    assert text.endswith("<!-- /records -->\n" + AFTER)
    assert "old" not in text
    assert (tmp_path / "docs/page.md").read_text() == "<!-- records:distances -->\n<!-- /records -->\n"  # no record
    assert done.stdout.splitlines() == [
        "wrote README.md", "wrote docs/pictures/bench-peers.png", "wrote benchmarks/archive/2-cores-a.jsonl",
    ]  # fmt: skip
    assert read_records(tmp_path / "benchmarks/results/2-cores-a.jsonl") == before[:1] + before[2:]
    assert read_records(tmp_path / "benchmarks/archive/2-cores-a.jsonl") == before[1:2]
    again = samebits_here("bench", "--tables", cwd=tmp_path)
    assert again.stdout == "wrote docs/pictures/bench-peers.png\n"  # nothing new, nothing written
    assert (tmp_path / "README.md").read_text() == text


def test_every_table_has_as_many_cells_as_its_head_and_a_part_a_machine():
    chosen = tables.newest([record(cores=16, counts=(1, 8, 16)), record(), measured(), record("letter", peers=False)])
    assert [found.get("task", found.get("measurement")) for found in chosen] == ["letter", "life", "distances", "life"]
    for make in (tables.summary_table, tables.full_table, tables.scaling_table):
        text = make([found for found in chosen if "task" in found or make is not tables.scaling_table])
        for part in text.split("\n\n"):
            assert len({line.count("|") for line in part.splitlines() if line.startswith("|")}) <= 1
        assert text.index("**2 cores**, a CPU:") < text.index("**16 cores**, a CPU:")


def test_the_full_table_has_every_system_at_every_count():
    text = tables.full_table([record(ours=4.0), measured()])
    assert "| life, batch 20; 1 / 2 | **samebits** | **4 / 2 ms** |  | 100 MB | `samebits bench life` | abc |" in text
    assert "|  | PyTorch eager | 200 / 200 ms | 50× / 100× as fast | 100 MB |  |  |" in text
    assert "|  | L2 traffic alone | 1 ms, one core | at 25 % / 50 % of it |  |  |  |" in text
    assert "| 8 nodes; 1 | **samebits** | **0.25 ms a pair** |  |  | `samebits bench distances` | def |" in text
    assert "|  | networkx | 1,000 ms a pair | 4,000× as fast |  |  |  |" in text
    assert "| 10 nodes; 1 | **samebits** | **2.3 billion cells/s** |" in text
    assert "PyG" not in text


def test_scaling_needs_a_curve_and_leaves_gaps_for_counts_that_were_not_measured(tmp_path):
    wide, gap = record(cores=16, counts=(1, 2, 4, 8, 16), ours=16.0), record("letter", cores=16, counts=(1, 4, 16))
    wide["rows"][4]["of_copies"] = 0.9
    chosen = tables.over_workers([record(), wide, gap, measured()])
    assert [found["task"] for found in chosen] == ["letter", "life"]
    text = tables.scaling_table(chosen)
    assert "| one training step | 1 worker | 2 workers | 4 workers | 8 workers | 16 workers | measured with |" in text
    assert "| life, batch 20 | 16 (1.0×) | 8 (2.0×) | 4 (4.0×) | 2 (8.0×) | 1 (16.0×, 90 %) |" in text
    assert "| letter, batch 20 | 1 (1.0×) |  | 0.25 (4.0×) |  | 0.0625 (16.0×) |" in text
    written = tables.draw([wide, gap, record(), measured()], tmp_path)
    assert [path.name for path in written] == ["bench-scaling.png", "bench-peers.png"]
    for path in written:
        with Image.open(path) as picture:
            assert picture.width > 600


def test_superseded_is_what_no_table_needs_and_a_newer_record_repeats():
    counts = (1, 2, 4)
    kept = [
        record(counts=counts, peers=False),  # the newest curve
        record(date="2026-01-02"),  # the newest beside peers
        record(date="2026-01-03", peers=False),  # the newest
        record(cores=16),  # another machine
        record(preset="small", peers=False),  # no table shows it, and nothing is newer
        measured(),
        {"name": "learning", "date": "2026-01-01", "machine": MACHINE, "rows": []},
    ]
    old = [record(), record(counts=counts), record(peers=False), measured(), kept[-1].copy()]
    every = [*old, *kept]
    assert tables.superseded(every) == list(range(len(old)))
    late = [*kept, record(date="2025-12-31", counts=counts)]  # a merge may leave lines in any order
    assert tables.superseded(late) == [len(kept)]
    timed = [[found for found in some if found["name"].startswith("bench-")] for some in (every, kept)]
    text = "".join(f"<!-- records:{name} -->\n<!-- /records -->\n" for name in (*tables.TABLES, "distances"))
    assert tables.rewritten(text, timed[0]) == tables.rewritten(text, timed[1])


@pytest.mark.parametrize("page", tables.pages(ROOT), ids=lambda page: page.name)
def test_our_pages_say_what_our_records_say(page, tmp_path):
    """Red? samebits bench --tables. Records that are not in the repository do not count: a user may measure."""
    text = page.read_text()
    assert tables.rewritten(text, bench_records(known(tmp_path))) == text
    for picture in re.findall(r"\]\((\S*bench-\S*\.png)\)", text):
        assert (page.parent / picture).is_file()


def known(folder):
    """Our files of records as git knows them, without lines added since; as they are where there is no git."""

    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False).stdout

    for name in git("ls-files", "benchmarks/results/*.jsonl").split():
        (folder / Path(name).name).write_text(git("show", f":{name}"))
    return sorted(folder.iterdir()) or sorted((ROOT / "benchmarks/results").iterdir())


def test_no_record_of_ours_is_superseded(tmp_path):
    """Red? samebits bench --tables, and add both files."""
    for path in known(tmp_path):
        assert tables.superseded(read_records(path)) == []


def test_the_readme_has_its_tables():
    text = (ROOT / "README.md").read_text()
    for name in ("summary", "scaling"):
        assert f"<!-- records:{name} -->\n**2 cores**" in text or f"<!-- records:{name} -->\n**16 cores**" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench"], "one of: a TASK, distances, sampling, packed, hardware, devices, --all, --tables"),
        (["bench", "life", "--tables"], "one of: a TASK, distances, "),
        (["bench", "--tables", "--batch-size", 3], "leave the other options out"),
        (["bench", "--tables"], "cannot read README.md"),
    ],
)
def test_bad_calls_are_refused_and_write_nothing(words, message, tmp_path):
    done = samebits_here(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert snapshot(tmp_path) == {}


def test_no_records_and_spoilt_records_are_named(tmp_path):
    (tmp_path / "README.md").write_text(README)
    assert "no record of samebits bench" in samebits_here("bench", "--tables", cwd=tmp_path).stderr
    keep(tmp_path, record())
    (path,) = (tmp_path / "benchmarks/results").iterdir()
    path.write_text(path.read_text() + "{\n")
    done = samebits_here("bench", "--tables", cwd=tmp_path)
    assert f"line 2 of {path.relative_to(tmp_path)} is not a record" in done.stderr
    assert (tmp_path / "README.md").read_text() == README
