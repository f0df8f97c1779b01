"""Compiling in other processes: they do it, we can be stopped, and without them all works as well."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from samebits import api
from samebits.cli.waiting import CompilingNotice, shown, told
from samebits.compiler import compile_worker as helper
from samebits.compiler import compile_workers as aside
from samebits.compiler.compile_workers import Order, Progress
from samebits.devices.cpu import rehearsal
from samebits.devices.cpu.pool import Pool
from samebits.devices.cpu.rehearsal import Rehearsal
from samebits.devices.cpu.workers import Workers
from samebits.training.ahead import compile_ahead
from samebits.training.trainer import Trainer, resolve
from tests.helpers import TIMEOUT

CODE = """
import sys
from numba.core import event
from samebits.compiler import compile_workers as aside
{before}

class Ours(event.Listener):
    names = []
    def on_start(self, compiling):
        self.names.append(compiling.data["dispatcher"].py_func.__name__)
    def on_end(self, compiling):
        pass

from samebits.arithmetic.rng import fill_words
from samebits.arithmetic.tree import sum_tree
import numpy as np
with event.install_listener("numba:compile", Ours()):
    print(sum_tree(np.arange(5.0)))
print(*Ours.names)
"""


def ran(cache, before=""):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(before=before)], capture_output=True, text=True, check=True, timeout=TIMEOUT,
        env={**os.environ, "SAMEBITS_CACHE_DIR": str(cache)},
    )  # fmt: skip
    result, ours = done.stdout.splitlines()
    assert result == "10.0"
    return ours.split()


def test_a_helper_compiles_and_we_find_it_on_disk(tmp_path):
    assert ran(tmp_path / "cache") == []
    assert any((tmp_path / "cache").rglob("*sum_tree*"))


@pytest.mark.parametrize(
    "before",
    [
        "sys.executable = '/nowhere/python'",  # cannot be started
        "aside.command = lambda *given: [sys.executable, '-c', '']",  # ends without a word
        "aside.command = lambda *given: [sys.executable, '-c', 'import os; os.kill(os.getpid(), 9)']",
    ],
)
def test_without_helpers_we_compile_ourselves(tmp_path, before):
    assert "sum_tree" in ran(tmp_path / "cache", before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_compiling_leaves_nothing_behind(tmp_path):
    """Told once it is known to compile; what was made so far is whole, and no helper is left."""
    cache = tmp_path / "cache"
    command = [sys.executable, "-m", "samebits", "train", "boolean", "--preset", "small", "--out", "run"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "SAMEBITS_CACHE_DIR": str(cache)},
    )  # fmt: skip
    assert "compiling kernels, once on this machine" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert err == "samebits: stopped while compiling; kernels that were ready are kept\n"
    assert out == ""
    assert not (tmp_path / "run").exists()
    assert [path.name for path in cache.rglob("tmp*")] == []
    assert not [name for name in commands() if "samebits.compiler.compile_worker" in name and str(cache) in name]


def commands():
    """Of all processes, where /proc says: command line and environment."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            yield (path / "cmdline").read_text() + (path / "environ").read_text()
        except OSError:
            continue


@pytest.mark.parametrize(
    "order",
    [
        Order("samebits.devices.cpu.tree", "no_such_function", "called", ()),
        Order("no.such.module", "sum_tree", "called", ()),
        Order("samebits.devices.cpu.tree", "TreeSum", "called", ()),
        Order("samebits.devices.cpu.tree", "sum_tree", "called", (numba.types.unicode_type,)),  # cannot be compiled
    ],
)
def test_a_helper_says_what_it_cannot_do(order):
    assert helper.compile_one(order) is False


def test_what_only_this_process_can_see_is_not_asked_for():
    def inner():
        pass

    assert aside._order(inner, "called", ()) is None
    assert aside._order(rehearsal.foresee, "called", (lambda: None,)) is None  # cannot be sent
    assert aside._order(rehearsal.foresee, "called", ()) is not None


@pytest.mark.parametrize("task", ["checkerboard", "boolean", "gpt", "life"])
def test_a_rehearsal_foresees_all_that_workers_enter(task, monkeypatch):
    family, _, config = api.configure(task, "small", {"steps": 3, "eval_every": 3})
    config, foreseen, used = resolve(family, config), set(), set()
    monkeypatch.setattr(rehearsal, "foresee", lambda function, form, kinds: foreseen.add((function, form, kinds)))
    Trainer(family, config, Rehearsal()).post_everything()
    real = Pool.post

    def post(self, body, *args, alone=False):
        used.add((body, "entered", (numba.types.int64, *map(numba.typeof, args))))
        real(self, body, *args, alone=alone)

    monkeypatch.setattr(Pool, "post", post)
    with Workers(2) as team:
        trainer = Trainer(family, config, team)
        for _ in range(3):
            trainer.step()
        trainer.evaluate(family.evaluation(config, trainer.data, False))
    assert used
    assert used <= foreseen


def test_a_rehearsal_computes_nothing_and_is_held_once(monkeypatch, tmp_path):
    family, _, config = api.configure("checkerboard", "small", {})
    config, made = resolve(family, config), []
    monkeypatch.setattr(rehearsal, "KEPT_IN", tmp_path)
    monkeypatch.setattr(Trainer, "post_everything", lambda self: made.append(self.params.copy()))
    with Workers(1) as team:
        for seed in (0, 1, 2):
            compile_ahead(family, config.model_copy(update={"wiring_seed": seed}), team)
    assert len(made) == 2  # a number counts as 0 or not
    assert np.array_equal(made[0], family.init(config, np.float32))


def test_a_rehearsal_that_fails_is_left_to_the_real_thing(monkeypatch, tmp_path):
    family, _, config = api.configure("checkerboard", "small", {})
    monkeypatch.setattr(rehearsal, "KEPT_IN", tmp_path)
    monkeypatch.setattr(Trainer, "post_everything", lambda self: 1 // 0)
    compile_ahead(family, resolve(family, config), Workers(1))
    assert [path.name for path in tmp_path.glob("ready-*")] == []


def test_what_is_told_while_compiling():
    assert told(Progress(("gradient_worker", "fold_worker"), 3, 12, 4.4)) == (
        "compiling gradient, fold: 3 of 12, 4 s (once on this machine)"
    )


class Bar:
    def __init__(self):
        self.told = []

    def stop(self):
        self.told.append("stop")

    def start(self):
        self.told.append("start")


def test_bars_make_way_for_the_moving_line(capsys):
    bar, notice = Bar(), CompilingNotice(moving=True)
    shown.append(bar)
    try:
        notice(Progress(("fold_worker",), 0, 2, 5.0))
        notice(Progress(("fold_worker",), 1, 2, 5.5))
        assert bar.told == ["stop"]
        assert notice.busy
        notice(None)
    finally:
        shown.remove(bar)
    assert bar.told == ["stop", "start"]
    assert not notice.busy
    assert "up to a minute" not in capsys.readouterr().err


def test_what_somebody_stops_is_not_over():
    notice = CompilingNotice()
    notice(Progress(("fold_worker",), 2, 2, 0.5))  # all that is known of so far
    with pytest.raises(KeyboardInterrupt), aside.watched_by(notice), aside.together():
        raise KeyboardInterrupt
    assert notice.busy
