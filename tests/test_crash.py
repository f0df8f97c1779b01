"""kill -9 at any moment: what is left is whole or absent, and resume ends with the bits of a run left in peace."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import samebits as api
from samebits import files
from samebits.api import open_run
from samebits.errors import SamebitsError
from samebits.families import find_preset, find_task
from samebits.runs import checkpoint as checkpoints
from samebits.runs.record import Expected, read
from samebits.runs.runfolder import RunFolder
from samebits.training.state import Checkpoint, TrainState
from samebits.training.trainer import resolve
from tests.helpers import TIMEOUT, samebits, samebits_here, sets, start, weights_line

# Plateau is the schedule with a memory, evaluations make extra checkpoints, pruning renames and deletes.
SETTINGS = {
    "schedule": "plateau",
    "schedule_steps": 1000,
    "plateau_patience": 1,
    "plateau_cuts": 9,
    "eval_every": 5,
    "log_every": 1,
    "checkpoint_every": 5,
}
FOREVER = 10**9  # steps: such a run never ends before it is killed, however slow the machine


def begin(place: Path, workers: int = 1, **changed: object) -> subprocess.Popen[str]:
    """An endless training in place/run."""
    words = ["train", "life", "--preset", "small", "--workers", workers, "--steps", FOREVER, "--out", "run"]
    return start(*words, *sets(**{**SETTINGS, **changed}), cwd=place)


def again(place: Path, workers: int = 1) -> subprocess.Popen[str]:
    return start("resume", "run", "--workers", workers, cwd=place)


def halted(process: subprocess.Popen[str]) -> None:
    """Stop the process and wait until it stands still."""
    process.send_signal(signal.SIGSTOP)
    found = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert found is not None
    assert found.si_code == os.CLD_STOPPED, process.communicate()


def kill_when(process: subprocess.Popen[str], moment: Callable[[], bool]) -> None:
    """SIGKILL the process at a moment of the run folder that is certain: it stands still while the folder is judged."""
    hangs = time.monotonic() + TIMEOUT
    try:
        while True:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < hangs, "the moment never came"
            if moment():
                halted(process)
                if moment():
                    break
                process.send_signal(signal.SIGCONT)
            time.sleep(0.001)
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == -signal.SIGKILL


def rows(place: Path) -> int:
    path = place / "run/metrics.csv"
    return path.read_bytes().count(b"\n") - 1 if path.exists() else -1


def saved(place: Path) -> list[int]:
    return checkpoints.steps_saved(place / "run/checkpoints")


def in_writing(place: Path) -> list[Path]:
    return list((place / "run/checkpoints").glob(".step-*.partial"))


def finish_and_compare(place: Path, workers: int = 1, real: bool = False, **changed: object) -> None:
    """Resume a few steps beyond what was reached; weights and metrics.csv equal those of a straight run.

    `real` resumes in a process of its own, which takes seconds: enough for the hardest case.
    """
    total = max(rows(place), 0) + 13
    left = saved(place)
    done = (samebits if real else samebits_here)("resume", "run", "--steps", total, "--workers", workers, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    settings = {**SETTINGS, **changed, "steps": total, "keep": 10**6}
    straight = api.train("life", preset="small", workers=1, out=place / "straight", **settings)
    assert weights_line(done.stdout) == straight.outcome.weights
    assert (place / "run/metrics.csv").read_bytes() == (straight.path / "metrics.csv").read_bytes()
    assert len(straight.metrics["step"]) == total
    names = [path.name for path in (place / "run/checkpoints").iterdir()]
    assert all(name.startswith("step-") for name in names), names  # nothing half done is left
    # Not only the end: every checkpoint that is left is the straight run's, vectors and state alike.
    for step in saved(place):
        found, wanted = (loaded(folder, step) for folder in (place / "run", straight.path))
        assert asdict(found.state) == asdict(wanted.state)
        for name in ("params", "first", "second"):
            assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes()
    assert not left or saved(place)[-1] > left[-1]


def loaded(run: Path, step: int) -> Checkpoint:
    opened = open_run(run)
    return read(opened.checkpoints / f"step-{step}", opened.expected)


@pytest.fixture(scope="module", autouse=True)
def kernels_are_compiled(tmp_path_factory):
    """So that a kill meets training, not the compiler; the other tests of this file do not depend on it."""
    api.train("life", preset="small", workers=1, out=tmp_path_factory.mktemp("warm") / "run", **SETTINGS, steps=5)


@pytest.mark.parametrize("after", [-1, 7], ids=["config.toml written", "rows written"])
def test_killed_before_the_first_checkpoint(tmp_path, after):
    """Resume starts at step 0; rows that were there are cut off and written anew."""
    never = {"checkpoint_every": FOREVER, "eval_every": FOREVER}
    process = begin(tmp_path, **never)
    kill_when(process, lambda: (tmp_path / "run/config.toml").exists() and rows(tmp_path) >= after)
    assert saved(tmp_path) == []
    refused = samebits_here("eval", "run", cwd=tmp_path)
    assert refused.returncode == 2
    assert "there is no checkpoint" in refused.stderr
    finish_and_compare(tmp_path, 2, **never)


@pytest.mark.parametrize(("seed", "workers", "resumed_at"), [(0, 1, 1), (1, 2, 1), (2, 1, 3), (3, 3, 2)])
def test_killed_at_a_random_moment(tmp_path, seed, workers, resumed_at):
    """Between rows and checkpoints, also resumed at another worker count."""
    after = random.Random(seed).randrange(6, 60)
    process = begin(tmp_path, workers)
    kill_when(process, lambda: rows(tmp_path) >= after and bool(saved(tmp_path)))
    finish_and_compare(tmp_path, resumed_at)


def test_killed_while_a_checkpoint_is_written(tmp_path):
    process = begin(tmp_path)
    kill_when(process, lambda: bool(in_writing(tmp_path) and saved(tmp_path)))
    assert in_writing(tmp_path)  # the half-written one is there …
    assert api.load(tmp_path / "run").weights.size == 2928  # … and not taken for a checkpoint
    assert samebits_here("eval", "run", cwd=tmp_path).returncode == 0
    finish_and_compare(tmp_path)


def test_killed_while_the_first_checkpoint_is_written(tmp_path):
    process = begin(tmp_path, checkpoint_every=1)
    kill_when(process, lambda: bool(in_writing(tmp_path)))
    assert in_writing(tmp_path)
    finish_and_compare(tmp_path, checkpoint_every=1)


def test_killed_three_times(tmp_path):
    """In training, in writing, and in writing again; each time at another worker count."""
    kill_when(begin(tmp_path), lambda: rows(tmp_path) >= 8)
    reached = rows(tmp_path)
    kill_when(again(tmp_path, 2), lambda: rows(tmp_path) >= reached + 4 and bool(in_writing(tmp_path)))
    reached = rows(tmp_path)
    kill_when(again(tmp_path, 3), lambda: rows(tmp_path) >= reached + 4 and bool(in_writing(tmp_path)))
    finish_and_compare(tmp_path, real=True)


def test_a_killed_process_lets_go_of_the_folder(tmp_path):
    """While it lives, even standing still, a second one is refused; once it is dead, it is not."""
    process = begin(tmp_path)
    try:
        while process.poll() is None and rows(tmp_path) < 3:
            time.sleep(0.001)
        halted(process)
        refused = samebits_here("resume", "run", cwd=tmp_path)
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)
    assert refused.returncode == 2
    assert "in use by another samebits process" in refused.stderr
    finish_and_compare(tmp_path)


# What follows kills nothing: it copies the folder at every moment that a kill could come, and looks at the copy.


class Killed(BaseException):
    """Nothing in samebits may catch it; what samebits tidies up on the way out happens after the copy was taken."""


LAYOUT = [("a", (2, 3)), ("b", (4,))]
HASH = "0" * 64
EXPECTED = Expected(HASH, LAYOUT, lambda constants: None, {})


def make(step: int, value: float) -> Checkpoint:
    vectors = (np.full(10, value + i, np.float32) for i in range(3))
    return Checkpoint(TrainState(step=step), *vectors, {"wires": np.arange(5, dtype=np.int32)}, HASH)


def moments(action: Callable[[Path], object], folder: Path, copies: Path, monkeypatch) -> list[Path]:
    """Run the action on fresh copies of the folder, killed before and after each of its system calls; what was left."""
    left: list[Path] = []
    while True:
        work, copy = copies / f"work-{len(left)}", copies / f"left-{len(left)}"
        shutil.copytree(folder, work)
        calls, limit = 0, len(left)

        def tick(work=work, copy=copy, limit=limit) -> None:
            nonlocal calls
            if calls == limit:
                calls += 1
                shutil.copytree(work, copy)
                raise Killed
            calls += 1

        def around(real, tick=tick):
            def call(*args, **options):
                tick()
                found = real(*args, **options)
                tick()
                return found

            return call

        def torn_fill(name, content, folder, sync, tick=tick, fill=files._fill):
            fill(name, content[: len(content) // 2], folder, sync=False)
            tick()
            os.unlink(name, dir_fd=folder)
            fill(name, content, folder, sync)

        def torn_rmtree(name, tick=tick, rmtree=shutil.rmtree, *, dir_fd, **options):
            for file in sorted(Path(f"/proc/self/fd/{dir_fd}", name).glob("*"))[:1]:
                tick()
                file.unlink()
            tick()
            rmtree(name, dir_fd=dir_fd, **options)

        with monkeypatch.context() as patch:
            for name in ("fsync", "rename", "replace", "mkdir"):
                patch.setattr(os, name, around(getattr(os, name)))
            patch.setattr(files, "_fill", torn_fill)
            patch.setattr(shutil, "rmtree", torn_rmtree)
            try:
                action(work)
            except Killed:
                left.append(copy)
                continue
        return left


def contents(folder: Path) -> dict[int, bytes]:
    """Every checkpoint, loaded and so verified."""
    steps = checkpoints.steps_saved(folder)
    return {step: read(folder / f"step-{step}", EXPECTED).params.tobytes() for step in steps}


def tidy(folder: Path) -> dict[int, bytes]:
    """What samebits resume does first; then only sound checkpoints are left."""
    checkpoints.clean(folder)
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    return contents(folder)


@pytest.fixture
def two(tmp_path):
    """Checkpoints 1 and 2."""
    folder = tmp_path / "two"
    folder.mkdir()
    for step in (1, 2):
        checkpoints.save(folder, make(step, step), LAYOUT)
    return folder


def test_a_kill_at_any_moment_of_save(two, tmp_path, monkeypatch):
    """Before and after each write, fsync and rename: checkpoint 3 is whole or absent, 1 and 2 untouched."""
    old, new = contents(two), make(3, 30.0)
    left = moments(lambda folder: checkpoints.save(folder, new, LAYOUT), two, tmp_path, monkeypatch)
    seen = [contents(folder) for folder in left]
    whole = {**old, 3: new.params.tobytes()}
    assert len(left) > 10
    assert all(found in (old, whole) for found in seen)  # even without tidying
    assert seen == sorted(seen, key=len)  # absent, then there: never gone again
    assert seen[0] == old
    assert seen[-1] == whole
    assert [tidy(folder) for folder in left] == seen
    for folder in left:  # and the next save works, whatever was left
        checkpoints.save(folder, new, LAYOUT)
        assert contents(folder) == whole


def test_a_kill_at_any_moment_of_replacing(two, tmp_path, monkeypatch):
    """The same step saved again: the old one or the new one, never neither."""
    old, new = contents(two), make(2, 20.0)
    left = moments(lambda folder: checkpoints.save(folder, new, LAYOUT), two, tmp_path, monkeypatch)
    between = [folder for folder in left if checkpoints.steps_saved(folder) == [1]]
    assert between  # the moment between the two renames was met
    seen = [tidy(folder) for folder in left]
    replaced = {**old, 2: new.params.tobytes()}
    assert all(found in (old, replaced) for found in seen)
    assert seen[0] == old
    assert seen[-1] == replaced


def test_a_kill_at_any_moment_of_pruning(two, tmp_path, monkeypatch):
    """A half-deleted folder is never taken for a checkpoint."""
    old = contents(two)
    left = moments(lambda folder: checkpoints.prune(folder, 1, None), two, tmp_path, monkeypatch)
    seen = [contents(folder) for folder in left]
    assert all(found in (old, {2: old[2]}) for found in seen)
    assert seen[0] == old
    assert seen[-1] == {2: old[2]}
    assert [tidy(folder) for folder in left] == seen


def test_a_kill_at_any_moment_of_setting_aside(two, tmp_path, monkeypatch):
    """The one that is resumed from stays, and so does a later one or not; never half of it."""
    old = contents(two)
    left = moments(lambda folder: checkpoints.set_aside(folder, 1), two, tmp_path, monkeypatch)
    for folder in left:
        checkpoints.clean(folder)
        found = contents(folder)
        assert found in (old, {1: old[1]})


def test_a_kill_at_any_moment_of_tidying(two, tmp_path, monkeypatch):
    """Killed between the renames of replacing, then killed again while that is repaired."""
    old = contents(two)
    (two / "step-2").rename(two / ".step-2.replaced")
    shutil.copytree(two / "step-1", two / ".step-2.partial")
    shutil.copytree(two / "step-1", two / ".step-0.deleted")
    left = moments(checkpoints.clean, two, tmp_path, monkeypatch)
    assert len(left) > 4
    assert all(tidy(folder) == old for folder in left)


def test_a_kill_at_any_moment_of_writing_the_config(tmp_path, monkeypatch):
    """config.toml is the old one or the new one; a run whose config was begun again is still a run."""
    monkeypatch.setattr("samebits.runs.runfolder.made_with", dict)  # asks git each time
    api.train("life", preset="small", workers=1, out=tmp_path / "run", steps=2)

    def longer(folder: Path) -> None:
        run = open_run(folder)
        run.change({"steps": 9})
        run.write_config()

    left = moments(longer, tmp_path / "run", tmp_path, monkeypatch)
    steps = [open_run(folder).config.steps for folder in left]
    assert set(steps) == {2, 9}
    assert steps == sorted(steps)


def test_a_save_that_fails_leaves_nothing_behind(two, monkeypatch):
    """An error, as opposed to a kill, tidies up after itself; a check that loads nothing new finds all it had."""
    old = contents(two)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            checkpoints.save(two, make(3, 3.0), LAYOUT)
    assert sorted(path.name for path in two.iterdir()) == ["step-1", "step-2"]
    assert contents(two) == old


def test_a_torn_checkpoint_is_never_believed(two):
    """Should a disk lose the end of a renamed checkpoint's files after all: every length is refused."""
    for name in (checkpoints.ARRAYS, checkpoints.STATE):
        path = two / "step-2" / name
        whole = path.read_bytes()
        for length in {0, 1, len(whole) // 2, len(whole) - 1}:
            path.write_bytes(whole[:length])
            with pytest.raises(SamebitsError, match=r"cut short|altered"):
                read(two / "step-2", EXPECTED)
        path.write_bytes(whole)
    assert contents(two)[2] == make(2, 2).params.tobytes()


def test_a_kill_at_any_moment_of_making_the_folder(tmp_path, monkeypatch):
    """Either it is a run that resume continues, or train can be told to make it again."""
    monkeypatch.setattr("samebits.runs.runfolder.made_with", dict)
    family, _ = find_task("life")
    config = resolve(family, find_preset("life", "small"))
    (tmp_path / "nothing").mkdir()

    def create(folder: Path) -> None:
        RunFolder.create(folder, family, "life", "small", config)

    left = moments(create, tmp_path / "nothing", tmp_path, monkeypatch)
    assert left
    for folder in left:
        if (folder / "config.toml").exists():
            open_run(folder)
        else:
            create(folder)
