"""What is measured beside training: answers agree before a clock runs, and every record has the same shape."""

from __future__ import annotations

import json

import numpy as np
import pytest

from samebits.bench import distances
from samebits.bench.cases import Found, compared, row
from samebits.bench.measurements import measurements, timed_presets
from samebits.cli import bench as cli_bench
from samebits.errors import SamebitsError
from samebits.families import discover
from samebits.training.parts import find
from tests.helpers import samebits_here, snapshot

QUICK = {"sizes": (3, 4), "alone": (5,), "pairs": 3, "table": (4, 3)}


def systems(found):
    return [(row["case"], row["system"], row["threads"]) for row in found.rows]


def test_ratios_of_times_and_of_rates():
    rows = compared(
        [
            row("times", "samebits", 1, "ms a pair", [8.0, 6.0, 4.0]),
            row("times", "samebits", 2, "ms a pair", [2.0, 3.0, 4.0]),
            row("times", "peer", 2, "ms a pair", [30.0]),
            row("times", "peer", 4, "ms a pair", [30.0]),
            row("rates", "samebits", 1, "tokens/s", [100.0]),
            row("rates", "peer", 1, "tokens/s", [25.0]),
        ]
    )
    assert [found["median"] for found in rows[:2]] == [6.0, 3.0]
    assert [found.get("speed_up") for found in rows] == [1.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    # Against ours with as many threads; with the first where there is none.
    assert [found.get("times_slower") for found in rows] == [None, None, 10.0, 5.0, None, 4.0]


def test_distances_by_size_and_the_table_by_workers():
    found = distances.distances([1, 2], **QUICK)
    assert systems(found) == [
        ("edit distance, 3 nodes", "samebits", 1), ("edit distance, 3 nodes", "networkx", 1),
        ("edit distance, 4 nodes", "samebits", 1), ("edit distance, 4 nodes", "networkx", 1),
        ("edit distance, 5 nodes", "samebits", 1),
        ("all pairs of 4 graphs of 3 nodes", "samebits", 1), ("all pairs of 4 graphs of 3 nodes", "samebits", 2),
    ]  # fmt: skip
    assert all(len(row["medians"]) == distances.ROUNDS for row in found.rows)
    assert json.loads(json.dumps(found._asdict())) == found._asdict()


def test_no_time_is_recorded_for_wrong_distances(monkeypatch):
    class Wrong:
        distance = -1.0

    monkeypatch.setattr(distances, "graph_edit_distance", lambda a, b: Wrong)
    with pytest.raises(SamebitsError, match=r"at 3 nodes our distances .* are not networkx's"):
        distances.distances([1], **QUICK)
    with pytest.raises(SamebitsError, match="first row is not what its pairs give"):
        distances.distances([1], **QUICK | {"sizes": (), "alone": ()})


def test_no_time_is_recorded_for_tables_that_differ(monkeypatch):
    class Table:
        def __init__(self, workers):
            self.distance = np.full((4, 4), float(workers))

    monkeypatch.setattr(distances, "matrix", lambda graphs, workers: Table(workers))
    with pytest.raises(SamebitsError, match=r"worker counts \[1, 2\] give different distances"):
        distances.distances([1, 2], **QUICK | {"sizes": (), "alone": ()})


def test_what_is_measured_can_be_found():
    assert list(measurements()) == ["distances", "sampling", "packed", "hardware"]
    for name, found in measurements().items():
        assert find(found.measure).__name__ == name


def stand_in(monkeypatch, functions):
    """These instead of what the measurements' names lead to."""
    by_place = {measurements()[name].measure: function for name, function in functions.items()}
    before = cli_bench.find
    monkeypatch.setattr(cli_bench, "find", lambda place: by_place.get(place) or before(place))


@pytest.fixture
def measured(monkeypatch):
    """`packed` answers at once; (the counts it was asked for)."""
    asked = []

    def measure(counts):
        asked.append(list(counts))
        rows = [row("a case", "samebits", count, "ms", [4.0 / count]) for count in counts]
        return Found({"seed": 0}, "one = two", compared([*rows, row("a case", "slow", 1, "ms", [400.0])]))

    stand_in(monkeypatch, {"packed": measure})
    return asked


def test_a_measurement_shows_a_table_and_keeps_a_record(measured, tmp_path):
    done = samebits_here("bench", "packed", "--workers", "1,4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert measured == [[1, 4]]
    assert "checked first: one = two" in done.stdout
    assert "100× as fast" in done.stdout
    assert "4.00×" in done.stdout
    (path,) = (tmp_path / "benchmarks/results").iterdir()
    assert path.suffix == ".jsonl"
    assert f"wrote {path.relative_to(tmp_path)}" in done.stdout
    record = json.loads(path.read_text())
    assert (record["name"], record["measurement"]) == ("bench-packed", "packed")
    assert record["command"] == "samebits bench packed --workers 1,4"
    assert record["proof"] == "one = two"
    assert record["machine"]["commit"]
    assert record["machine"]["networkx"]
    assert [found["median"] for found in record["rows"]] == [4.0, 1.0, 400.0]
    samebits_here("bench", "packed", "--no-record", cwd=tmp_path)
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.parametrize("words", [["--steps", 3], ["--preset", "small"], ["--batch-size", 3], ["--copies"]])
def test_options_of_training_are_refused(words, measured, tmp_path):
    done = samebits_here("bench", "packed", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "bench packed takes --workers and --no-record only" in done.stderr
    assert measured == []
    assert snapshot(tmp_path) == {}


def test_an_unknown_name_lists_everything(tmp_path):
    done = samebits_here("bench", "distance", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing called 'distance' to measure; did you mean distances" in done.stderr
    tasks = [task for family in discover().values() for task in family.tasks]
    assert all(
        name in done.stderr.partition("known: ")[2] for name in [*tasks, "distances", "sampling", "packed", "hardware"]
    )


def test_everything_is_what_was_made_for_timing_or_full():
    presets = {name: timed_presets(family) for name, family in discover().items()}
    assert presets["graph"] == [("boolean", "timing")]
    assert presets["gpt"] == [("gpt", "full")]
    assert [preset for _, preset in presets["logic_ca"]] == ["full"] * 5


def test_all_measures_everything_keeps_what_worked_and_names_what_did_not(measured, monkeypatch, tmp_path):
    asked = []

    def broken(counts):
        raise SamebitsError("no answer")

    def task(name, preset, counts, steps, settings, peers, copies, record, command):
        asked.append((name, preset, peers, record, command))

    stand_in(monkeypatch, {"distances": broken, "sampling": broken, "hardware": broken})
    monkeypatch.setattr("samebits.cli.bench.bench_task", task)
    done = samebits_here("bench", "--all", "--workers", "1,2", "--steps", 7, cwd=tmp_path)
    assert done.returncode == 2
    assert "distances left out: no answer" in done.stderr
    assert "could not measure distances, sampling, hardware;" in done.stderr
    # A record's command measures that record alone.
    words = "--workers 1,2 --peers --steps 7"
    assert ("gpt", "full", True, True, f"samebits bench gpt --preset full {words}") in asked
    assert ("boolean", "timing", True, True, f"samebits bench boolean --preset timing {words}") in asked
    assert [entry[:2] for entry in asked] == [job for family in discover().values() for job in timed_presets(family)]
    (path,) = (tmp_path / "benchmarks/results").iterdir()
    assert json.loads(path.read_text())["command"] == "samebits bench packed --workers 1,2"
