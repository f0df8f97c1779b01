"""--init-from: another run's weights and vocabulary, a fresh optimiser; and early stopping."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from samebits import api
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.training.trainer import Trainer, resolve
from tests.families.gpt.conftest import SMALL, WORDS
from tests.helpers import samebits_here, sets, snapshot, weights_line


@pytest.fixture
def place(base, tmp_path):
    """A copy of the run, and a text with fewer characters than its own."""
    shutil.copytree(base / "run", tmp_path / "run")
    (tmp_path / "other.txt").write_text("the weaver wove.\n" * 60)
    return tmp_path


def tune(place, *args, out="tuned", steps=6):
    words = ["train", "gpt", *SMALL, "--data", "other.txt", "--init-from", "run", "--steps", steps, *args]
    return samebits_here(*words, "--out", out, cwd=place)


def test_training_begins_with_the_source_s_weights_and_vocabulary(place):
    """One step with a fresh optimiser, by hand and by the command line, gives one result."""
    assert tune(place, steps=1).returncode == 0
    tuned, source = api.load(place / "tuned"), api.load(place / "run")
    assert set("".join(WORDS)) <= set(tuned.vocabulary.decode(np.arange(tuned.vocabulary.size)))
    assert tuned.vocabulary.sha256 == source.vocabulary.sha256
    run = api.open_run(place / "tuned")
    with Workers(1) as team:
        trainer = Trainer(run.family, resolve(run.family, run.config), team)
        assert (trainer.params != source.weights).any()  # the weights are the run's business, not the trainer's
        trainer.params[:] = source.weights
        trainer.step()
        np.testing.assert_array_equal(trainer.params, tuned.weights)


def test_a_fine_tuned_run_needs_its_source_until_the_first_checkpoint_only(place):
    """Killed before it, resume begins again with the same weights; afterwards the source may go."""
    whole = weights_line(tune(place).stdout)
    assert tune(place, out="again").returncode == 0
    assert tune(place, *sets(schedule_steps=6), out="part", steps=4).returncode == 0
    shutil.rmtree(place / "again/checkpoints")
    (place / "again/checkpoints").mkdir()
    assert samebits_here("resume", "run", "--steps", 12, cwd=place).returncode == 0  # the source goes on
    assert weights_line(samebits_here("resume", "again", "--workers", 2, cwd=place).stdout) == whole
    assert (place / "again/metrics.csv").read_bytes() == (place / "tuned/metrics.csv").read_bytes()
    shutil.rmtree(place / "run")
    resumed = samebits_here("resume", "part", "--steps", 6, cwd=place)
    assert resumed.returncode == 0, resumed.stderr
    assert weights_line(resumed.stdout) == whole
    assert samebits_here("eval", "part", cwd=place).returncode == 0
    assert samebits_here("sample", "part", "--tokens", 5, cwd=place).returncode == 0
    shutil.rmtree(place / "again/checkpoints")
    lost = samebits_here("resume", "again", cwd=place)
    assert lost.returncode == 2
    assert "is not a run folder" in lost.stderr


def test_tokens_kept_of_a_text_are_not_those_of_another_vocabulary(place, monkeypatch):
    """The same text with its own vocabulary, then with the source's: each has its own place in the cache."""
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(place / "cache"))
    words = ["train", "gpt", *SMALL, "--data", "other.txt", "--steps", 1, "--out", "plain"]
    assert samebits_here(*words, cwd=place).returncode == 0
    assert tune(place, steps=1).returncode == 0
    plain, tuned = api.load(place / "plain"), api.load(place / "tuned")
    assert plain.vocabulary.size < tuned.vocabulary.size == api.load(place / "run").vocabulary.size


def test_a_checkpoint_can_be_the_source(place):
    named = tune(place, "--init-from", "run/checkpoints/step-4", steps=1)
    assert named.returncode == 0, named.stderr
    last = tune(place, out="last", steps=1)
    assert weights_line(named.stdout) != weights_line(last.stdout)
    assert "run/checkpoints/step-8" in (place / "last/config.toml").read_text()


def test_the_vocabulary_is_the_source_s_and_what_it_lacks_is_named(place):
    (place / "other.txt").write_text("the weaver wove 3 + 4 = €7.\n" * 60)
    before = snapshot(place)
    done = tune(place)
    assert done.returncode == 2
    for word in ("no token for '+'", "'3'", "'4'", "tokenizer=bpe"):
        assert word in done.stderr
    assert snapshot(place) == before


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--init-from", "none"], ("init_from none is not a run folder", "samebits train made")),
        (["--init-from", "life"], ("init_from life is a logic_ca run", "gpt")),
        (sets(width=48), ("another size: width is 48, there 32", "--set width=32")),
        (sets(heads=4), ("heads is 4, there 2", "--set heads=2")),
        (sets(layers=3), ("layers is 3, there 2",)),
        (sets(context=8), ("context is 8, there 16",)),
        (sets(final_norm="false"), ("final_norm is False, there True", "--set final_norm=true")),
        (sets(vocab=40), ("vocab is 40", "leave it out")),
        (sets(tokenizer="bpe"), ("tokenizer is bpe", "has char")),
    ],
)
def test_a_source_that_does_not_fit_is_refused(base, place, args, words):
    shutil.copytree(base / "life", place / "life")
    before = snapshot(place)
    done = tune(place, *args)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert snapshot(place) == before


def test_a_damaged_source_is_refused(place):
    path = place / "run/checkpoints/step-8/arrays.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    done = tune(place)
    assert done.returncode == 2
    assert "step-8 is cut short" in done.stderr
    assert "checkpoints/step-N" in done.stderr
    assert tune(place, "--init-from", "run/checkpoints/step-4", steps=1).returncode == 0


def test_a_damaged_checkpoint_of_a_fine_tuned_run_names_the_previous_one(place):
    assert tune(place).returncode == 0
    path = place / "tuned/checkpoints/step-6/arrays.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    done = samebits_here("resume", "tuned", cwd=place)
    assert done.stderr.strip().endswith("the previous good one is step-4: add --checkpoint 4")
    assert samebits_here("resume", "tuned", "--checkpoint", 4, cwd=place).returncode == 0


def test_training_stops_early_when_validation_no_longer_improves(base, tmp_path):
    """With a rate this high it soon gets worse; the best checkpoint stays."""
    settings = sets(eval_every=2, early_stop=2, lr=0.3, warmup_steps=0, schedule="constant", keep=1)
    words = ["train", "gpt", *SMALL, *settings, "--steps", 200, "--data", base / "story.txt", "--out", "run"]
    done = samebits_here(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "stopped early at step " in done.stdout
    stopped = int(done.stdout.split("stopped early at step ")[1].split(":")[0])
    losses = api.resume(tmp_path / "run").metrics["eval_loss"]
    losses = losses[np.isfinite(losses)]
    assert stopped < 200
    assert losses.argmin() == len(losses) - 3  # two evaluations without improvement
    assert api.load(tmp_path / "run", "best").weights.size
    again = samebits_here("resume", "run", cwd=tmp_path)
    assert weights_line(again.stdout) == weights_line(done.stdout)


def test_unknown_characters_of_the_new_text_are_dropped_or_replaced(base, tmp_path):
    text = (base / "story.txt").read_text(encoding="utf-8")
    (tmp_path / "odd.txt").write_text(text.replace(".", "☺."), encoding="utf-8")
    (tmp_path / "bees.txt").write_text(text.replace(".", "b."), encoding="utf-8")
    every = {"preset": "small", "workers": 1, "steps": 3, "init_from": str(base / "run")}

    def weights(name, **more):
        return api.train("gpt", data=str(tmp_path / name), out=tmp_path / f"{name}-{len(more)}", **every, **more)

    with pytest.raises(SamebitsError, match=r"no token for .☺..*--unknown drop"):
        weights("odd.txt")
    (tmp_path / "same.txt").write_text(text, encoding="utf-8")
    assert weights("odd.txt", unknown="drop").weights_hash == weights("same.txt").weights_hash
    assert weights("odd.txt", unknown="b", keep=2).weights_hash == weights("bees.txt").weights_hash
    assert api.resume(tmp_path / "odd.txt-1", workers=1, steps=4).outcome.step == 4


def test_unknown_needs_a_run_to_begin_with(base, tmp_path):
    with pytest.raises(SamebitsError, match="unknown is 'drop'; it goes with init_from"):
        api.train("gpt", preset="small", data=str(base / "story.txt"), out=tmp_path / "run", unknown="drop")
