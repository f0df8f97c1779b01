"""What a record says about the machine and the command; and that none is ever lost."""

from __future__ import annotations

import json
import resource
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from samebits.bench import records
from samebits.errors import SamebitsError

INTEL = "\n\n".join(
    f"processor\t: {n}\nphysical id\t: {n // 4}\ncore id\t\t: {n // 2 % 2}\nmodel name\t: a CPU" for n in range(8)
)
ARM = "\n\n".join([*(f"processor\t: {n}\nCPU part\t: 0xd0c" for n in range(8)), "Hardware\t: a board"])


@pytest.mark.parametrize(
    ("text", "cores"),
    [(INTEL, 4), (INTEL + "\n\nHardware\t: a board\n", 4), (ARM, None), ("", None)],
    ids=["two threads a core", "a block of something else", "ARM says nothing", "empty"],
)
def test_physical_cores_are_counted_where_the_machine_tells(text, cores, monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda path: text)
    assert records.physical_cores() == cores


def test_the_recorded_command_can_be_run_again(tmp_path, monkeypatch):
    words = ["bench", "life", "--set", "update=[8, 4, 2, 1]"]
    monkeypatch.setattr("sys.argv", ["/somewhere/samebits", *words])
    (found,) = records.read_records(records.write_record(records.new_record("x", {}), tmp_path))
    assert shlex.split(found["command"]) == ["samebits", *words]


def record(name, cores=2, cpu="a CPU"):
    return {"name": name, "date": "2026-01-01", "machine": {"cores": cores, "cpu": cpu}}


def names(path):
    return [found["name"] for found in records.read_records(path)] if path.exists() else []


def all_but_the_last(found):
    return range(len(found) - 1)


@pytest.mark.parametrize(
    ("cores", "cpu", "name"),
    [
        (2, "Intel(R) Xeon(R) Processor @ 2.80GHz", "2-cores-intel-xeon-2.80ghz.jsonl"),
        (16, "Intel(R) Xeon(R) Processor", "16-cores-intel-xeon.jsonl"),
        (8, "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz", "8-cores-intel-core-i7-8700-3.20ghz.jsonl"),
        (64, "AMD EPYC 7763 64-Core Processor", "64-cores-amd-epyc-7763-64-core.jsonl"),
        (4, "../arm/", "4-cores-arm.jsonl"),
        (4, "", "4-cores.jsonl"),
    ],
)
def test_a_file_is_called_after_its_machine(cores, cpu, name):
    assert records.file_name(record("x", cores, cpu)) == name


def test_a_record_is_a_line_after_those_that_are_there(tmp_path):
    folder = tmp_path / "not/yet/there"
    path = records.write_record(record("first"), folder)
    before = path.read_bytes()
    assert records.write_record(record("second\nline"), folder) == path
    assert path.read_bytes().startswith(before)
    assert len(path.read_bytes().splitlines()) == 2
    assert records.read_records(path) == [record("first"), record("second\nline")]
    assert records.write_record(record("third", cores=3), folder) != path
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("bad", [b"{", b"", b"[]", b'{"name": "x"}', b"\xff"])
def test_a_damaged_line_is_named(bad, tmp_path):
    path = records.write_record(record("x"), tmp_path)
    path.write_bytes(path.read_bytes() + bad + b"\n")
    records.write_record(record("y"), tmp_path)
    kept = path.read_bytes()
    with pytest.raises(SamebitsError, match=f"line 2 of {path} is not a record .*; put it back from the repository"):
        records.read_records(path)
    with pytest.raises(SamebitsError, match=f"line 2 of {path} is not a record"):
        records.set_aside(path, all_but_the_last, tmp_path / "archive")
    assert path.read_bytes() == kept
    assert not (tmp_path / "archive").exists()


def test_a_line_cut_short_spoils_no_other(tmp_path):
    path = records.write_record(record("x"), tmp_path)
    path.write_bytes(path.read_bytes() + b'{"name": "cut')
    records.write_record(record("y"), tmp_path)
    with pytest.raises(SamebitsError, match="line 2 of"):
        records.read_records(path)
    assert json.loads(path.read_bytes().splitlines()[2]) == record("y")


def test_a_full_disk_is_named_and_leaves_no_half_of_a_line(tmp_path):
    path = records.write_record(record("x"), tmp_path)
    kept = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept) + 20, limits[1]))  # room for the beginning of a line
    try:
        with pytest.raises(SamebitsError, match=f"cannot write the record {path} "):
            records.write_record(record("y"), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == kept


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SamebitsError, match=r"cannot write the record .*; run where benchmarks/results is writable"):
        records.write_record(record("x"), tmp_path / "file")


def test_what_is_superseded_moves_as_it_is(tmp_path):
    for name in "abc":
        path = records.write_record(record(name), tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    there = tmp_path / "archive" / path.name
    assert records.set_aside(path, lambda found: [0, 1], there.parent)
    assert (path.read_bytes(), there.read_bytes()) == (lines[2], lines[0] + lines[1])
    assert not records.set_aside(path, lambda found: [], there.parent)
    records.write_record(record("d"), tmp_path)
    assert records.set_aside(path, all_but_the_last, there.parent)
    assert (names(path), names(there)) == (["d"], ["a", "b", "c"])
    assert [found.name for found in tmp_path.iterdir() if found.is_file()] == [path.name]


def test_a_crash_between_the_two_files_loses_nothing(tmp_path, monkeypatch):
    for name in "abc":
        path = records.write_record(record(name), tmp_path)
    there = tmp_path / "archive" / path.name
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *ignored: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            records.set_aside(path, all_but_the_last, there.parent)
    assert (names(path), names(there)) == (["a", "b", "c"], ["a", "b"])
    assert records.set_aside(path, all_but_the_last, there.parent)
    assert (names(path), names(there)) == (["c"], ["a", "b"])


def test_records_written_while_others_move_are_kept(tmp_path):
    wanted = [f"{writer}-{number}" for writer in range(3) for number in range(40)]
    path, there = (folder / records.file_name(record("x")) for folder in (tmp_path, tmp_path / "archive"))
    with ThreadPoolExecutor(4) as threads:
        done = [threads.submit(records.write_record, record(name), tmp_path) for name in wanted]
        while not all(each.done() for each in done):
            records.set_aside(path, all_but_the_last, there.parent)
        for each in done:
            each.result()
    assert sorted(names(path) + names(there)) == sorted(wanted)
    assert names(there)
