"""What an attacker tried on a run and its folder: forks, threads, forged and edited files, streams that are gone.

Every test here was seen red against the code as it was.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import samebits as api
from samebits.api import open_run
from samebits.devices.cpu.modes import FLUSHING, set_mode
from samebits.devices.cpu.workers import Workers
from samebits.errors import RunLostError, SamebitsError
from samebits.runs.record import STATE
from tests.forge import forge, reseal
from tests.helpers import TIMEOUT, samebits_here, sets, snapshot, start, weights_line
from tests.test_bad_input import refused

SMALL = {"preset": "small", "workers": 1}
STEPS = 12


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Finished runs of two families, checkpoints at 4, 8 and 12. Tests copy it."""
    place = tmp_path_factory.mktemp("attacked")
    every = {"log_every": 1, "checkpoint_every": 4, "eval_every": 0, "steps": STEPS}
    api.train("life", **SMALL, **every, out=place / "run")
    api.train("gpt", **SMALL, **every, data="generated", out=place / "gpt")
    return place


@pytest.fixture
def place(base, tmp_path):
    shutil.copytree(base, tmp_path / "place")
    return tmp_path / "place"


@pytest.fixture
def run(place):
    return place / "run"


# Who holds a run.

FORK = """
import multiprocessing, os, time
import samebits

def observe(step, row):
    if step == 6:
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(300,))
        child.start()
        print(child.pid, flush=True)
        os._exit(9)  # as if killed

samebits.train("life", preset="small", workers=1, steps=12, checkpoint_every=4, out="forked", observe=observe)
"""


def test_a_child_that_was_forked_while_training_does_not_keep_the_run(tmp_path):
    with subprocess.Popen([sys.executable, "-c", FORK], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as done:
        child = int(done.stdout.readline())
        assert done.wait(TIMEOUT) == 9
    try:
        assert api.resume(tmp_path / "forked", workers=1).outcome.step == STEPS
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_returns_closes_nothing_of_others(run, monkeypatch):
    """Its descriptors are its own: what it opened after the fork may have the number of the lock."""
    with open_run(run).lock():
        child = os.fork()
        if child == 0:
            try:
                descriptor = os.open(run / "config.toml", os.O_RDONLY)
                os._exit(0 if os.read(descriptor, 5) == b"[run]" else 1)
            except BaseException:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(SamebitsError, match="in use"), open_run(run).lock():
            pass  # what the child closed was its copy: we still hold the run
    with open_run(run).lock():
        pass


def test_a_run_is_let_go_though_a_copy_of_its_lock_is_still_open(run):
    """As a program has for a moment that another thread starts: it has copied all our files, and has not begun."""
    opened = open_run(run)
    with opened.lock():
        copy = os.dup(opened._lock)
    try:
        with open_run(run).lock():
            pass
    finally:
        os.close(copy)


def test_trainings_in_threads_and_programs_started_meanwhile_never_meet(tmp_path):
    """A program that is just being started has all our files open for a moment, a lock among them."""
    problems, over = [], threading.Event()

    def work(number):
        try:
            for turn in range(3):
                out = tmp_path / f"run-{number}-{turn}"
                api.train("life", **SMALL, steps=1, out=out)
                api.resume(out, workers=1, steps=2)
        except Exception as error:
            problems.append(error)

    def start_programs():
        while not over.is_set():
            subprocess.run(["true"], check=True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    starters = [threading.Thread(target=start_programs) for _ in range(2)]
    for thread in (*starters, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    for thread in starters:
        thread.join()
    assert not problems


# Workers and the modes of the program around us.


def test_workers_are_one_threads_own():
    workers, problems = Workers(2), []

    def other():
        for use in (lambda: workers.__enter__(), lambda: workers.run(print), lambda: workers.post(print)):
            try:
                use()
            except SamebitsError as error:
                problems.append(str(error))

    with pytest.raises(SamebitsError, match="outside of `with`"):
        workers.run(print)
    with workers:
        with pytest.raises(SamebitsError, match="entered a second time"):
            workers.__enter__()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        workers.run(lambda worker: None)  # and they still work
    assert ["in use already" in text or "by another thread" in text for text in problems] == [True] * 3
    with workers:  # again, later
        workers.run(lambda worker: None)


def test_a_forked_child_cannot_use_its_parents_workers():
    """Its threads are not there: it would wait for ever."""
    with Workers(2) as workers:
        child = os.fork()
        if child == 0:
            try:
                workers.run(lambda worker: None)
                os._exit(1)
            except SamebitsError:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def modes():
    """(rounding mode, denormal bits) of this thread."""
    before = set_mode(FLUSHING)
    set_mode(before)
    return ctypes.CDLL(None).fegetround(), before & (FLUSHING & ~0x1F80)


UPWARD = 0x800 if os.uname().machine == "x86_64" else 0x400000


def test_a_changed_rounding_mode_is_said_and_not_touched(run):
    """Numbers in files would be read as others: a run could not be read back until it was reset."""
    libc = ctypes.CDLL(None)
    try:
        assert libc.fesetround(UPWARD) == 0
        problems = []
        for use in (lambda: open_run(run), lambda: api.load(run), lambda: api.train("life"), lambda: api.resume(run)):
            try:
                use()
            except SamebitsError as error:
                problems.append("rounding mode" in str(error) and "FE_TONEAREST" in str(error))
        after = libc.fegetround()
    finally:
        libc.fesetround(0)
    assert problems == [True] * 4
    assert after == UPWARD


def test_modes_and_threads_are_as_before_after_every_call(run):
    from threadpoolctl import threadpool_info

    def settings():
        return (
            modes(),
            signal.getsignal(signal.SIGINT),
            np.geterr(),
            [pool["num_threads"] for pool in threadpool_info()],
        )

    set_mode(set_mode(FLUSHING) & ~(FLUSHING & ~0x1F80))  # as a program has it that knows nothing of us
    before = settings()
    api.resume(run, workers=2, steps=STEPS + 2)
    assert settings() == before
    model = api.load(run)
    model.rollout(np.zeros((1, 3, 3, 1), np.float32), 2, workers=2)
    assert settings() == before
    stream = api.load(run.parent / "gpt").stream("ADA", tokens=3)
    next(stream)
    assert settings() == before  # also while we hold a piece of it
    with pytest.raises(SamebitsError):
        api.resume(run, workers=2, steps=1)
    assert settings() == before


# Forged checkpoints: every hash is right.


def set_state(**values):
    return {"change": lambda record: record["state"].update(values)}


def set_record(**values):
    return {"change": lambda record: record.update(values)}


def drop(*keys):
    def change(record):
        for key in keys:
            (record["state"] if key in record["state"] else record).pop(key)

    return {"change": change}


def deep(levels):
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


def set_array(name, make):
    return {"arrays": lambda arrays: arrays.update({name: make(arrays[name])})}


def rename(old, new):
    return {"arrays": lambda arrays: arrays.update({new: arrays.pop(old)})}


WIRES, LOGITS = "update.0.wires", "update.0.logits"
FORGED = {
    "no step": (drop("step"), "of step 0"),
    "no state": (set_record(state=None), "state"),
    "no hash of the arrays": (drop("arrays_sha256"), "arrays_sha256"),
    "no hash of the weights": (drop("weights_sha256"), "weights_sha256"),
    "step a text": (set_state(step="12"), "state.step is '12'"),
    "step a fraction": (set_state(step=12.0), "state.step"),
    "step true": (set_state(step=True), "state.step"),
    "step negative": (set_state(step=-1), "state.step"),
    "step huge": (set_state(step=10**400), "state.step"),
    "another step": (set_state(step=4), "step-4"),
    "nested deeply": (set_state(step=deep(150)), "state.step"),
    "nested too deeply": (set_state(step=deep(900)), "state.json"),
    "metrics negative": (set_state(metrics_bytes=-5), "metrics_bytes"),
    "metrics of a text": (set_state(metrics_bytes="x"), "metrics_bytes"),
    "a hash that is none": (set_state(metrics_sha256="zz"), "metrics_sha256"),
    "best after the end": (set_state(best_step=13), "best step is 13"),
    "best not a number": (set_state(best_value=float("nan")), "best_value"),
    "plateau a list": (set_state(plateau=[1]), "plateau"),
    "plateau without end": (set_state(plateau={"best": None, "waited": 0, "cuts": 10**30}), "cuts"),
    "another key": (set_state(surprise=1), "surprise"),
    "too few bytes": (set_record(arrays_bytes=10), "does not match"),
    "a wire too far": (set_array(WIRES, lambda found: np.full_like(found, 2**31 - 1)), WIRES),
    "a wire below": (set_array(WIRES, lambda found: np.full_like(found, -1)), WIRES),
    "wires of another type": (set_array(WIRES, lambda found: found.astype(np.int64)), WIRES),
    "wires of another shape": (set_array(WIRES, lambda found: found[:, :3]), WIRES),
    "wires renamed": (rename(WIRES, "wires"), WIRES),
    "weights renamed": (rename(LOGITS, "logits"), LOGITS),
    "weights doubled": (set_array(LOGITS, lambda found: np.concatenate([found, found])), LOGITS),
    "weights in a row": (set_array(LOGITS, lambda found: found.reshape(-1)), LOGITS),
    "weights as bytes": (set_array(LOGITS, lambda found: found.view(np.uint8)), LOGITS),
    "weights wide": (set_array(LOGITS, lambda found: found.astype(np.float64)), LOGITS),
    "weights not finite": (set_array(LOGITS, lambda found: found * np.float32(np.nan)), "not finite"),
    "moments short": (set_array("optimiser.first", lambda found: found[:5]), "optimiser.first"),
    "moments in a square": (set_array("optimiser.second", lambda found: found.reshape(2, -1)), "optimiser.second"),
    "moments infinite": (set_array("optimiser.second", lambda found: found + np.float32(np.inf)), "optimiser.second"),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_checkpoint_is_refused(place, case):
    forgery, word = FORGED[case]
    forge(place / "run/checkpoints/step-12", **forgery)
    before = snapshot(place)
    for verb in ("resume", "eval", "circuit"):
        refused(samebits_here(verb, "run", cwd=place), "checkpoint run/checkpoints/step-12", word, "step-8")
    assert snapshot(place) == before


def vocabulary(change):
    return set_array("vocabulary.codepoints", change)


FORGED_VOCABULARY = {
    "short": vocabulary(lambda found: found[:5]),
    "empty": vocabulary(lambda found: found[:0]),
    "long": vocabulary(lambda found: np.append(found, np.arange(100_000, 200_000, dtype=np.int32))),
    "wide": vocabulary(lambda found: found.astype(np.int64)),
    "in a square": vocabulary(lambda found: found.reshape(1, -1)),
    "backwards": vocabulary(lambda found: found[::-1]),
    "negative": vocabulary(lambda found: found - 1000),
    "beyond": vocabulary(lambda found: found + 0x110000),
    "surrogates": vocabulary(lambda found: np.arange(0xD800, 0xD800 + found.size, dtype=np.int32)),
    "an end that is none": set_array("vocabulary.end", lambda found: np.array([10**6], np.int32)),
    "two ends": set_array("vocabulary.end", lambda found: np.array([1, 2], np.int32)),
    "no end": rename("vocabulary.end", "vocabulary.begin"),
    "byte pairs instead": rename("vocabulary.codepoints", "vocabulary.bpe"),
    "byte pairs too": {"arrays": lambda arrays: arrays.update({"vocabulary.bpe": np.zeros(3, np.uint8)})},
}


@pytest.mark.parametrize("case", FORGED_VOCABULARY)
def test_a_forged_vocabulary_never_reaches_a_kernel(place, case):
    forge(place / "gpt/checkpoints/step-12", **FORGED_VOCABULARY[case])
    for words in (("sample", "gpt", "--tokens", 5, "--prompt", "ADA"), ("eval", "gpt"), ("resume", "gpt")):
        refused(samebits_here(*words, cwd=place), "checkpoint gpt/checkpoints/step-12", "vocabulary")


def test_without_the_hash_of_the_vocabulary_it_is_its_size_that_counts(place):
    """Who forges config.toml as well: its own hash is in the checkpoint, which can be written anew."""
    config = place / "gpt/config.toml"
    kept = [line for line in config.read_text().splitlines() if not line.startswith("vocabulary_sha256")]
    config.write_text("\n".join(kept))
    newest = open_run(place / "gpt").hash
    forge(
        place / "gpt/checkpoints/step-12",
        change=lambda record: record.update(config_hash=newest),
        arrays=lambda arrays: arrays.update(
            {"vocabulary.codepoints": np.arange(70, 90, dtype=np.int32), "vocabulary.end": np.array([20], np.int32)}
        ),
    )
    refused(samebits_here("sample", "gpt", "--prompt", "FG", cwd=place), "vocabulary has 21 symbols")


def test_a_record_that_is_no_object_is_refused(run):
    for content in ("[]", "3", '"x"', "null", "{" * 5000, '{"a":' * 3000, "9" * 5000, ""):
        (run / "checkpoints/step-12" / STATE).write_text(content)
        refused(samebits_here("resume", "run", cwd=run.parent), "step-12", "state.json")


def test_a_pipe_in_place_of_a_file_is_not_waited_for(run):
    (run / "checkpoints/step-12" / STATE).unlink()
    os.mkfifo(run / "checkpoints/step-12" / STATE)
    refused(samebits_here("resume", "run", cwd=run.parent), "step-12", "state.json")


# Names, numbers and rests of checkpoints.


def test_a_copied_checkpoint_is_not_taken_for_another_step(place):
    shutil.rmtree(place / "run/checkpoints/step-12")
    shutil.copytree(place / "run/checkpoints/step-4", place / "run/checkpoints/step-12")
    for verb in ("resume", "eval"):
        refused(samebits_here(verb, "run", cwd=place), "renamed or copied", "of step 4", "step-8")


@pytest.mark.parametrize("name", ["step-012", "step-+12", "step-1_2", "step-١٢", "step-" + "9" * 200])
def test_only_names_that_we_write_are_checkpoints(run, name):
    shutil.copytree(run / "checkpoints/step-12", run / "checkpoints" / name)
    assert samebits_here("resume", "run", cwd=run.parent).returncode == 0
    refused(samebits_here("eval", "run", "--checkpoint", name, cwd=run.parent), "there is no checkpoint")


def test_a_checkpoint_too_many_is_pruned_on_resume(run):
    """Killed at its last prune, a run has one more than `keep`, and nothing left to do."""
    assert samebits_here("resume", "run", "--keep", 2, cwd=run.parent).returncode == 0
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["step-12", "step-8"]


# metrics.csv, and the folder itself, while nobody or somebody is looking.


def edit(run, change):
    content = (run / "metrics.csv").read_bytes()
    (run / "metrics.csv").write_bytes(change(content))
    return change(content)


EDITS = {
    "a digit": lambda content: content.replace(b"0.05", b"0.06"),
    "a column": lambda content: content.replace(b"step", b"stop"),
    "garbled": lambda content: bytes(reversed(content)),
    "rows lost": lambda content: content[:100],
    "emptied": lambda content: b"",
}


@pytest.mark.parametrize("case", EDITS)
def test_edited_metrics_are_named_and_kept_if_training_goes_on(place, case):
    run, undisturbed = place / "run", weights_line(samebits_here("resume", "run", "--steps", 14, cwd=place).stdout)
    before, edited = (run / "metrics.csv").read_bytes(), edit(run, EDITS[case])
    told = refused(samebits_here("resume", "run", "--steps", 16, cwd=place), "metrics.csv", "--new-metrics")
    assert "metrics-changed-1.csv" in told
    assert (run / "metrics.csv").read_bytes() == edited
    done = samebits_here("resume", "run", "--steps", 14, "--new-metrics", cwd=place)
    assert weights_line(done.stdout) == undisturbed
    assert (run / "metrics-changed-1.csv").read_bytes() == edited
    assert samebits_here("resume", "run", "--steps", 16, cwd=place).returncode == 0
    rows = (run / "metrics.csv").read_bytes().splitlines()
    assert rows[0] == before.splitlines()[0]
    assert [row.split(b",")[0] for row in rows[1:]] == [b"15", b"16"]


def test_rows_after_the_checkpoint_may_be_anything(run):
    """They are cut off and written again, as after a kill."""
    with (run / "metrics.csv").open("ab") as file:
        file.write(b"13,half a r")
    assert samebits_here("resume", "run", "--steps", 14, cwd=run.parent).returncode == 0
    assert api.Run(run, None).metrics["step"].tolist() == list(range(1, 15))


def test_a_run_of_a_version_that_kept_no_hash_of_its_metrics_goes_on(run):
    path = run / "checkpoints/step-12"
    record = json.loads((path / STATE).read_text())
    del record["state"]["metrics_sha256"]
    reseal(path, record)
    assert samebits_here("resume", "run", "--steps", 14, cwd=run.parent).returncode == 0


@pytest.mark.parametrize("what", ["", "checkpoints"])
def test_a_deleted_run_stops_at_the_next_save(run, what):
    def observe(step, row):
        if step == STEPS + 3:
            shutil.rmtree(run / what)

    with pytest.raises(RunLostError, match="deleted or replaced"):
        api.resume(run, workers=1, steps=STEPS + 8, observe=observe)
    assert not (run / what).exists()


def test_a_replaced_run_is_not_written_to(place):
    run = place / "run"

    def observe(step, row):
        if step == STEPS + 1:
            run.rename(place / "moved")
            shutil.copytree(place / "gpt", run)

    with pytest.raises(RunLostError):
        api.resume(run, workers=1, steps=STEPS + 8, observe=observe)
    assert snapshot(run) == snapshot(place / "gpt")


def test_the_command_line_says_so_with_exit_code_1(tmp_path):
    run = tmp_path / "run"
    words = sets(checkpoint_every=50, log_every=50, eval_every=0)
    process = start(
        "train", "life", "--preset", "small", "--workers", 1, "--steps", 10**6, *words, "--out", run, cwd=tmp_path
    )
    try:
        end = time.monotonic() + TIMEOUT
        while not any(run.glob("checkpoints/step-*")):
            assert time.monotonic() < end
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        while run.exists():
            shutil.rmtree(run, ignore_errors=True)
        _, problems = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == 1, problems
    assert "deleted" in problems.splitlines()[-1]
    assert "Traceback" not in problems


# Streams.


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", ">&- 2>&-", "0<&- 2>&-"])
def test_a_stream_that_nobody_reads_stops_no_training(base, tmp_path, redirection):
    shutil.copytree(base / "run", tmp_path / "run")
    command = f"{sys.executable} -m samebits resume run --workers 1 --steps 16 {redirection}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, stdout=subprocess.PIPE, timeout=TIMEOUT, check=False)
    assert done.returncode == 0
    assert (tmp_path / "run/checkpoints/step-16").exists()
    assert api.Run(tmp_path / "run", None).metrics["step"].tolist() == list(range(1, 17))  # nothing else went in


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_terminal_that_lacks_a_character_gets_it_spelt_out(base, encoding, tmp_path):
    for words in (("tasks",), ("circuit", base / "run", "--out", tmp_path), ("sample", base / "gpt", "--prompt", "é")):
        command = [sys.executable, "-m", "samebits", *map(str, words)]
        given = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
        done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, timeout=TIMEOUT, check=False)
        assert b"Traceback" not in done.stderr
        assert done.returncode == (2 if "é" in words else 0)
