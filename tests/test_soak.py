"""The soak judges the memory of training, and nothing that comes after."""

import subprocess
import sys

from tests import soak

# Trains ten steps in a second and a half; then loads something large, as a run does that draws its plots.
RUN = """
import time, pathlib
run = pathlib.Path("run")
run.mkdir()
with (run / "metrics.csv").open("w") as file:
    print("step,loss", file=file, flush=True)
    for step in range(1, 11):
        time.sleep(0.15)
        print(f"{step},0.5", file=file, flush=True)
plots = bytearray(300_000_000)
time.sleep(1.5)
"""


def test_what_is_loaded_after_the_last_step_is_no_growth(tmp_path, monkeypatch):
    def start(*words, cwd):
        command = [sys.executable, "-c", RUN]
        return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    monkeypatch.setattr(soak, "start", start)
    monkeypatch.setattr(soak, "SAMPLE_SECONDS", 0.05)
    life = soak.live([], 1, tmp_path / "run", None, steps=10)
    assert len(life.memory) > 5
    assert max(life.memory) < 250
    assert not life.killed
