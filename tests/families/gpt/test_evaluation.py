"""`samebits eval`: the whole validation text, bit for bit what training would log, for any number of workers."""

from __future__ import annotations

import json
import math
import re
import shutil

import numpy as np
import pytest

import samebits as api
from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.families.gpt import data, evaluation, transformer
from samebits.families.gpt.family import products
from samebits.families.gpt.model import GptModel
from tests.helpers import samebits_here


@pytest.fixture(scope="module")
def model(base):
    return api.load(base / "run")


def test_the_same_bits_as_training_logged_for_any_worker_count(base, model):
    """The run evaluated 999 samples, more than there are: the whole validation text."""
    batch = data.evaluation(model.config, data.load(model.config), True)
    assert 3 * model.config.unit_samples < batch.samples < 999
    logged = api.load(base / "run"), api.resume(base / "run", workers=1).metrics
    expected = {name: logged[1][f"eval_{name}"][-1] for name in ("loss", "perplexity", "bits_per_byte")}
    for workers in (1, 2, 3, 5):
        with Workers(workers) as team:
            found = evaluation.validate(model, batch, team)
        assert {name: found[name] for name in expected} == expected


def test_waves_change_no_bit(model, monkeypatch):
    batch = data.evaluation(model.config, data.load(model.config), True)
    with Workers(2) as team:
        whole = evaluation.validate(model, batch, team)
        units = -(-batch.samples // model.config.unit_samples)
        assert units > 9
        compute, waves = transformer.evaluate, []

        def counted(config, params, inputs, targets, rows, workers):
            waves.append(len(rows))
            compute(config, params, inputs, targets, rows, workers)

        monkeypatch.setattr(transformer, "evaluate", counted)
        in_threes = override(model.config, {"micro_batches": units // 3})
        assert evaluation.validate(GptModel(in_threes, model.weights, model.constants), batch, team) == whole
    assert len(waves) == units // 3
    assert sum(waves) == units


def test_baselines_against_counting(model):
    text = data.load(model.config)
    batch = data.evaluation(model.config, text, True)
    V = model.config.symbols
    counts = {token: 1 for token in range(V)}
    for token in text.train.tokens.tolist():
        counts[token] += 1
    total, most = sum(counts.values()), max(counts, key=counts.get)
    targets = [target for target in batch.arrays.targets.ravel().tolist() if target >= 0]
    nats = sum(-math.log(counts[target] / total) for target in targets) / len(targets)
    found = evaluation.unigram(model.config, text, batch)
    assert found["loss"] == pytest.approx(nats, rel=1e-12)
    assert found["accuracy"] == pytest.approx(targets.count(most) / len(targets))
    assert found["bits_per_byte"] == pytest.approx(
        nats * len(text.validation.tokens) / text.validation.bytes / math.log(2)
    )
    plain = evaluation.uniform(model.config, batch)
    assert plain["loss"] == pytest.approx(math.log(V))
    assert plain["accuracy"] == pytest.approx(1 / V)
    assert text.validation.bytes > len(text.validation.tokens)  # naïve has a letter of two bytes


def test_eval_shows_the_model_beside_the_baselines(base, model):
    done = samebits_here("eval", "run", "--workers", 2, cwd=base)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if re.search(r"\d\.\d{4}", line)]
    assert [name in row for name, row in zip(("the model", "unigram", "uniform"), rows, strict=True)] == [True] * 3
    text = data.load(model.config)
    batch = data.evaluation(model.config, text, True)
    with Workers(1) as team:
        found = evaluation.validate(model, batch, team)
    assert f"{found['loss']:.4f}" in rows[0]
    assert f"{found['bits_per_byte']:.4f}" in rows[0]
    assert f"{math.log(model.config.symbols):.4f}" in rows[2]
    assert f"{int(batch.divisor):,}" in done.stdout
    assert "checkpoint run/checkpoints/step-8" in done.stdout
    assert found["loss"] < math.log(model.config.symbols)


@pytest.mark.parametrize("change", ["lost", "edited"])
def test_eval_needs_the_text_and_sample_does_not(base, tmp_path, change):
    shutil.copytree(base, tmp_path / "place")
    place = tmp_path / "place"
    config = (place / "run/config.toml").read_text().replace(str(base), str(place))
    (place / "run/config.toml").write_text(config)
    text = (place / "story.txt").read_text(encoding="utf-8")
    if change == "lost":
        (place / "story.txt").unlink()
    else:
        (place / "story.txt").write_text(text + "And then it rained.", encoding="utf-8")
    words = "does not exist" if change == "lost" else "is not the text this run began with"
    for verb in (("eval", "run"), ("resume", "run", "--steps", 12)):
        done = samebits_here(*verb, cwd=place)
        assert done.returncode == 2
        assert words in done.stderr
    sampled = samebits_here("sample", "run", "--tokens", 20, cwd=place)
    assert sampled.returncode == 0
    assert sampled.stdout == samebits_here("sample", "run", "--tokens", 20, cwd=base).stdout
    assert np.isfinite(api.load(place / "run").weights).all()


@pytest.mark.parametrize("batch_size", [1, 3, 4])
@pytest.mark.parametrize("unit_samples", [1, 2, 3])
def test_every_sample_s_rows_are_counted_whole_units_or_not(model, batch_size, unit_samples):
    """Counted naively: a token costs every weight of a matrix three products, whoever computes it."""
    config = override(model.config, {"batch_size": batch_size, "unit_samples": unit_samples})
    matrices = 12 * config.layers * config.width**2 + config.width * config.symbols
    counted = sum(m * k * n * count for m, k, n, count in products(config))
    assert counted == 3 * batch_size * config.context * matrices


def judged(base, *words):
    done = samebits_here("eval", "run", "--json", *words, cwd=base)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_json_has_the_numbers_themselves(base, model):
    found = judged(base)
    assert (found["task"], found["run"], found["checkpoint"]) == ("gpt", "run", "step-8")
    batch = data.evaluation(model.config, data.load(model.config), True)
    with Workers(1) as team:
        wanted = evaluation.validate(model, batch, team)
    assert {name: found["rows"][0][name] for name in ("loss", "perplexity", "accuracy")} == {
        name: wanted[name] for name in ("loss", "perplexity", "accuracy")
    }


def test_any_text_has_a_loss_and_a_perplexity(base, model, tmp_path):
    text = "The naïve weaver sang. " * 9
    (tmp_path / "other.txt").write_text(text, encoding="utf-8")
    loss = model.loss(text)
    assert judged(base, "--data", tmp_path / "other.txt")["rows"][0]["loss"] == loss
    # Against the logits: T tokens are read, the next one is predicted, and then the next stretch.
    tokens, nats = model.vocabulary.encode(text), []
    for start in range(0, len(tokens) - 1, model.config.context):
        stretch = tokens[start : start + model.config.context + 1]
        logits = model.logits(stretch[None, :-1])[0].astype(np.float64)
        chances = np.exp(logits - logits.max(1, keepdims=True))
        nats += (-np.log((chances / chances.sum(1, keepdims=True))[np.arange(len(stretch) - 1), stretch[1:]])).tolist()
    assert len(nats) == len(tokens) - 1
    assert loss == pytest.approx(np.mean(nats), rel=1e-5)


def test_unknown_characters_are_dropped_or_replaced_on_request(base, model, tmp_path):
    (tmp_path / "odd.txt").write_text("the ☺ weaver ☹ sang ☺", encoding="utf-8")
    for wish, same in (("drop", "the  weaver  sang "), ("e", "the e weaver e sang e")):
        found = judged(base, "--data", tmp_path / "odd.txt", "--unknown", wish)["rows"][0]
        assert found["loss"] == model.loss(same)
        assert "3 characters that the model does not know" in next(iter(found))
    done = samebits_here("sample", "run", "--prompt", "t☺h", "--tokens", 1, "--unknown", "drop", cwd=base)
    assert done.stdout.startswith("th"), done.stderr


def test_any_two_runs_go_into_one_picture(base, tmp_path, monkeypatch):
    shutil.copytree(base, tmp_path, dirs_exist_ok=True)
    drawn = {}

    def keep(path, lines, title, x, y, inside):
        drawn.update(lines)
        return path

    monkeypatch.setattr("samebits.cli.evaluate.plot_lines", keep)
    done = samebits_here("eval", "run", "--against", "life", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "wrote run/plots/against.png"
    assert set(drawn) == {"run: loss", "run: eval loss", "life: soft loss"}
    cells = api.load(base / "life").config.batch_size * 9
    steps, means = drawn["life: soft loss"]
    assert steps.tolist() == [1]
    assert means * cells == api.resume(base / "life", workers=1).metrics["soft_loss"][:1]
