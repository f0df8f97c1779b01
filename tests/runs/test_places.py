"""Where things are kept and who may use them: kernel caches, cores, run folders, checkpoints of another version."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from samebits.compiler import cache_folder
from samebits.compiler.cores import available_cores
from samebits.config import TrainConfig
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families import discover, find_preset
from samebits.runs import checkpoint
from samebits.runs import loop as train
from samebits.runs.record import Expected
from samebits.runs.runfolder import RunFolder
from samebits.training.contract import Metrics
from samebits.training.schedule import Plateau
from samebits.training.state import Checkpoint, TrainState


def test_a_user_without_a_home_has_a_cache_all_the_same(monkeypatch, tmp_path):
    monkeypatch.setattr(cache_folder.os.path, "expanduser", lambda path: path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("SAMEBITS_CACHE_DIR", raising=False)
    monkeypatch.setattr(cache_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    assert [base.parent for base in cache_folder.cache_bases()] == [tmp_path]


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_machine_code_is_not_read_from_where_others_can_write(mode, monkeypatch, tmp_path):
    monkeypatch.setattr(cache_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = tmp_path / f"samebits-{cache_folder.os.getuid()}"
    folder.mkdir()
    folder.chmod(mode)
    assert folder not in cache_folder.cache_bases()
    folder.chmod(0o700)
    assert folder in cache_folder.cache_bases()


@pytest.mark.parametrize(("text", "cores"), [("100000 100000", 1), ("150000 100000", 2), ("1000 100000", 1)])
def test_a_container_grants_fewer_cores_than_it_shows(text, cores, tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(64), raising=False)
    quota = tmp_path / "cpu.max"
    quota.write_text(text + "\n")
    assert available_cores(quota) == cores
    quota.write_text("max 100000\n")
    assert available_cores(quota) == available_cores(tmp_path / "none") == 64


def test_threads_that_cannot_start_are_an_error_and_leave_none_behind(monkeypatch):
    before, real, started = threading.active_count(), threading.Thread.start, []

    def start(thread):
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(SamebitsError, match="workers is 5; this machine lets a process start only 3"), Workers(5):
        pass
    for thread in started:
        thread.join(10)
    assert threading.active_count() == before


def test_a_folder_filled_while_we_waited_is_not_written_over(tmp_path, monkeypatch):
    family, config = discover()["logic_ca"], find_preset("life", "small")
    run = RunFolder.create(tmp_path / "run", family, "life", "small", config)
    written = (run.path / "config.toml").read_bytes()
    real = RunFolder.lock
    (run.path / "config.toml").unlink()

    def lock(self):
        (self.path / "config.toml").write_bytes(written)  # another process was faster
        return real(self)

    monkeypatch.setattr(RunFolder, "lock", lock)
    with pytest.raises(SamebitsError, match="is a run already"):
        RunFolder.create(run.path, family, "life", "small", find_preset("life", "full"))
    assert (run.path / "config.toml").read_bytes() == written


def test_a_checkpoint_of_another_version_says_so(tmp_path):
    layout = [("weight", (3,))]
    values = np.ones(3, np.float32)
    saved = Checkpoint(TrainState(), values, values, values, {}, "0" * 64)
    path = checkpoint.save(tmp_path, saved, layout)
    with pytest.raises(SamebitsError, match=r"another version of samebits: weights is missing"):
        checkpoint.load(path, Expected("0" * 64, [("weights", (3,))], lambda constants: None, {}))


def test_an_evaluation_that_is_not_a_number_is_never_the_best(monkeypatch):
    config = TrainConfig(schedule="plateau", plateau_patience=2)
    plateau = Plateau()
    for value in (np.nan, 2.0, np.nan, 1.0):
        plateau.observe(config, value)
    assert (plateau.best, plateau.cuts) == (1.0, 0)

    metrics = Metrics(loss="loss", columns=("loss",), batch=(), evaluation=("loss",), best="loss")
    family = SimpleNamespace(metrics=metrics, evaluation=lambda *args: None)
    found = iter([np.nan, 2.0])
    trainer = SimpleNamespace(
        family=family, config=config, data=None, state=TrainState(),
        evaluate=lambda batch: {"loss": next(found)},
    )  # fmt: skip
    assert not train._take_evaluation(trainer, {})
    assert train._take_evaluation(trainer, {})
    assert trainer.state.best_value == 2.0
