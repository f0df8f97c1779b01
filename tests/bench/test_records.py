"""What a record says about the machine and the command."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from samebits.bench import records

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
    found = json.loads(records.write_record("x", {}, folder=tmp_path).read_text())
    assert shlex.split(found["command"]) == ["samebits", *words]
