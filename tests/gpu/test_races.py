"""Oclgrind runs our kernels and watches: no two threads use a number that one of them writes without a barrier between
them, and nobody leaves its memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.one_step import TINY
from tests.helpers import TIMEOUT

pytestmark = pytest.mark.races
LIBRARIES = [Path(root) / "lib/oclgrind/liboclgrind-rt-icd.so" for root in ("/usr", "/usr/local", "/opt/homebrew")]


@pytest.mark.parametrize("task", TINY)
def test_threads_do_not_get_in_each_others_way(tmp_path, task):
    library = next(path for path in LIBRARIES if path.exists())
    (tmp_path / "oclgrind.icd").write_text(f"{library}\n")
    env = {**os.environ, "OCL_ICD_VENDORS": str(tmp_path), "OCLGRIND_DATA_RACES": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.one_step", task],
        env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    seen = [line for line in done.stderr.splitlines() if "data race" in line or "Invalid" in line]
    assert (done.returncode, seen) == (0, []), done.stderr
    assert "the same bits" in done.stdout
