"""Tables and plots are a function of the records; text outside the markers is nobody's business."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from tests.helpers import snapshot, weft_here
from weft.bench import tables

AFTER = "after <!-- records:none -->\nkept\n<!-- /records -->\n"
README = "# x\n\nbefore\n<!-- records:logic_ca -->\nold\n<!-- /records -->\n" + AFTER


def row(system, threads, median, **more):
    return {"system": system, "threads": threads, "median": median, "medians": [median], "peak_megabytes": 100, **more}


def record(task="life", date="2026-01-01", ours=1.0, preset="full", peers=True):
    rows = [row("weft", 1, ours, speed_up=1.0, of_bound=0.25), row("weft", 2, ours / 2, speed_up=2.0, of_bound=0.5)]
    rows += [row("PyTorch eager", 2, 50 * ours, speed_up=1.0, times_slower=100.0)] if peers else []
    rows += [row("L2 traffic alone", 1, ours / 4, speed_up=1.0), {"system": "JAX", "threads": 2, "absent": "not here"}]
    machine = {"cpu": "a CPU", "cores": 2, "commit": "abc"}
    return {
        "family": "logic_ca", "task": task, "preset": preset, "date": date, "config": {"batch_size": 20},
        "machine": machine, "rows": rows,
    }  # fmt: skip


def keep(folder, *records):
    results = folder / "benchmarks/results"
    results.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(records, start=1):
        path = results / f"{content['date']}-bench-{content['task']}-{content['preset']}-batch20-{number}.json"
        path.write_text(json.dumps(content))


def test_the_newest_full_record_with_peers_is_shown(tmp_path):
    (tmp_path / "README.md").write_text(README)
    keep(
        tmp_path,
        record(ours=2000.0),
        record(ours=3.0, date="2026-03-01"),
        record(ours=7.0, date="2026-04-01", preset="small"),
        record(ours=8.0, date="2026-04-02", peers=False),
        record("letter", ours=40.0),
    )
    before = snapshot(tmp_path / "benchmarks")
    done = weft_here("bench", "--tables", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "README.md").read_text()
    assert "| life, batch 20 | **3 / 1.5** | 150 (100×) |  | 0.75 | 25 % / 50 % | 100 MB |" in text
    assert "| letter, batch 20 | **40 / 20** | 2,000 (100×) |" in text
    assert text.startswith("# x\n\nbefore\n<!-- records:logic_ca -->\n| task | weft | PyTorch eager | JAX |")
    assert text.endswith("<!-- /records -->\n" + AFTER)
    assert "old" not in text
    assert snapshot(tmp_path / "benchmarks") == before
    for task in ("life", "letter"):
        assert f"wrote docs/pictures/bench-{task}.png" in done.stdout
        with Image.open(tmp_path / f"docs/pictures/bench-{task}.png") as picture:
            assert picture.width > 600
    again = weft_here("bench", "--tables", cwd=tmp_path)
    assert "README.md" not in again.stdout  # nothing new, nothing written
    assert (tmp_path / "README.md").read_text() == text


def test_columns_match_the_header():
    lines = tables.table([record(), record("letter", peers=False)]).splitlines()
    assert len({line.count("|") for line in lines[:4]}) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench"], "one of: a TASK, --all, --tables"),
        (["bench", "life", "--tables"], "one of: a TASK, --all, --tables"),
        (["bench", "--tables", "--batch-size", 3], "leave the other options out"),
        (["bench", "--tables"], "cannot read README.md"),
    ],
)
def test_bad_calls_are_refused_and_write_nothing(words, message, tmp_path):
    done = weft_here(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert snapshot(tmp_path) == {}


def test_no_records_and_spoilt_records_are_named(tmp_path):
    (tmp_path / "README.md").write_text(README)
    assert "no record of weft bench" in weft_here("bench", "--tables", cwd=tmp_path).stderr
    keep(tmp_path, record())
    (path,) = (tmp_path / "benchmarks/results").iterdir()
    path.write_text("{")
    assert f"{path.relative_to(tmp_path)} is not a record" in weft_here("bench", "--tables", cwd=tmp_path).stderr
    assert (tmp_path / "README.md").read_text() == README
