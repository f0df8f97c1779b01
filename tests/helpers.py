"""Running samebits as a user does: in a process of its own, or in this one where a process adds nothing."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from samebits.cli import main

TIMEOUT = 300  # only against a hang; no result depends on it

# Files may grow to this many bytes, as on a full disk. The limit is set in the child, before samebits starts.
LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.argv = ["samebits", *sys.argv[2:]]
runpy.run_module("samebits", run_name="__main__")
"""


def samebits(
    *args: object,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    file_limit: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """A real process: python -m samebits …, output captured; with file_limit no file may grow past so many bytes."""
    head = ["-m", "samebits"] if file_limit is None else ["-c", LIMITED, str(file_limit)]
    inherited = dict(os.environ)
    if file_limit is not None:  # a process that may not write cannot keep coverage data either
        inherited.pop("COVERAGE_PROCESS_CONFIG", None)
    return subprocess.run(
        [sys.executable, *head, *map(str, args)],
        cwd=cwd,
        env={**inherited, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start(*args: object, cwd: Path) -> subprocess.Popen[str]:
    """The same, left running."""
    command = [sys.executable, "-m", "samebits", *map(str, args)]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def samebits_here(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same command line through samebits.cli.main in this process: much faster. An escaping exception escapes."""
    words = ["samebits", *map(str, args)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(cwd),
        patch.object(sys, "argv", words),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def weights_line(stdout: str) -> str:
    """The hash of the one line `weights sha256:…`."""
    found = [line.removeprefix("weights sha256:") for line in stdout.splitlines() if line.startswith("weights sha256:")]
    assert len(found) == 1, stdout
    assert len(found[0]) == 64, stdout
    assert set(found[0]) <= set("0123456789abcdef"), stdout
    return found[0]


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Every file below with its bytes, every folder with None: what must not change."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def sets(**settings: object) -> list[str]:
    """--set key=value, for each."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
