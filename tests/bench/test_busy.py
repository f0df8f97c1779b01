"""What others do on the machine, read from made-up figures."""

import pytest

from samebits.bench import busy
from samebits.bench.busy import Reading, others_busy, warning
from samebits.bench.cases import Found
from samebits.cli import bench, bench_gpu


def waited(seconds):
    assert seconds == busy.SECONDS


@pytest.mark.parametrize(
    ("second", "others"),
    [
        (Reading(10.5, 100.0, 1.0), 0.0),
        (Reading(10.5, 100.75, 1.0), 1.5),
        (Reading(10.5, 100.75, 1.25), 1.0),  # a part of it is ours
        (Reading(10.5, 100.0, 1.25), 0.0),  # clocks tick at different moments
    ],
)
def test_cores_that_others_keep_busy(second, others):
    readings = iter([Reading(10.0, 100.0, 1.0), second])
    assert others_busy(lambda: next(readings), waited) == others


def test_without_proc_the_load_counts(monkeypatch):
    monkeypatch.setattr(busy.os, "getloadavg", lambda: (1.234, 5.0, 5.0))
    assert others_busy(lambda: None, waited) == 1.23

    def unknown():
        raise OSError

    monkeypatch.setattr(busy.os, "getloadavg", unknown)
    assert others_busy(lambda: None, waited) is None


def test_proc_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(busy.os, "sysconf", lambda name: 100)
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 200 300 4000 5000 10 20 70 999 999\ncpu0 1 2\n")
    assert busy.read(stat).used == 7.0  # neither idle nor waiting for a disk; guests are users already
    for text in ("", "cpu\n", "cpu a b\n"):
        stat.write_text(text)
        assert busy.read(stat) is None
    assert busy.read(tmp_path / "none") is None


def test_a_warning_names_the_cores():
    assert warning(None, 2) == warning(0.1, 2) == ""
    assert "others use 1.5 of its 2 cores" in warning(1.5, 2)


def test_bench_says_it_and_the_record_too(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bench_gpu, "others_busy", lambda: 1.5)
    kept = []
    monkeypatch.setattr(bench, "write_record", lambda record: kept.append(record) or tmp_path)
    monkeypatch.setattr(bench, "find", lambda name: lambda counts: Found({}, "it is so", []))
    bench.bench_measurement("distances", [1], True)
    assert "others use 1.5 of its" in capsys.readouterr().err
    assert kept[0]["others_busy_cores"] == 1.5
