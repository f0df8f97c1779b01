"""Sampling: the cache against the whole forward pass, draws against plain NumPy, and what a text may depend on."""

from __future__ import annotations

import numpy as np
import pytest

import samebits as api
from samebits.arithmetic import rng
from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families.gpt import reference
from samebits.families.gpt.config import SAMPLE, TASKS, layout
from samebits.families.gpt.decoding import Draw, choose, in_view
from samebits.families.gpt.measure_sampling import full_forward
from samebits.families.gpt.model import GptModel
from samebits.families.gpt.sampling import Decoder, Settings
from samebits.families.gpt.tokens import characters, train_bpe
from samebits.verify.gradients import spread_params
from tests.helpers import samebits_here

GREEDY = Settings(tokens=1, temperature=0.0)


def make(context=40, final_norm=True, documents=1, known=None, **sizes):
    """An untrained model with large weights, so that its texts are not dull."""
    from samebits.families.gpt.family import FAMILY

    known = known or characters(["abcdefghij \n"], documents > 1)
    changed = {"context": context, "final_norm": final_norm, "vocab": known.size, "width": 20, "heads": 4, **sizes}
    config = override(TASKS["gpt"].presets["small"], changed)
    return GptModel(config, spread_params(FAMILY, config).astype(np.float32), known.arrays())


def logits_of(model, tokens, settings=GREEDY):
    decoder = Decoder(model, np.array(tokens, np.int32), settings)
    with Workers(1) as alone:
        decoder.advance(1, alone)
    return decoder.logits[0]


@pytest.mark.parametrize("final_norm", [True, False])
@pytest.mark.parametrize("width", [10, 48])
def test_logits_equal_the_reference_for_prompts_of_any_length(final_norm, width):
    """1: a single row; 7, 8, 9: around a tile; 31 … 33: around a block; 40: the context full."""
    model = make(final_norm=final_norm, width=width, heads=2)
    tokens = np.random.default_rng(0).integers(0, 12, 40).astype(np.int32)
    exact = GptModel(model.config, model.weights.astype(np.float64), model.constants)
    whole = reference.logits(model.config, exact.params, tokens[None])[0]
    for n in (1, 2, 7, 8, 9, 31, 32, 33, 40):
        np.testing.assert_allclose(logits_of(model, tokens[:n]), whole[n - 1], atol=1e-5 * np.abs(whole).max())


def test_one_token_a_step_gives_the_logits_of_the_full_forward_pass():
    """And the same greedy text, up to the end of the context."""
    model, prompt = make(), np.array([3, 1, 4], np.int32)
    decoder = Decoder(model, prompt, Settings(tokens=37, temperature=0.0))
    with Workers(1) as team:
        for n in range(3, 40):
            decoder.advance(1, team)
            full = model.logits(decoder.text[:, :n], team)[0, -1]
            assert np.abs(decoder.logits[0] - full).max() <= 1e-4 * max(1, np.abs(full).max())
        np.testing.assert_array_equal(decoder.text[0, 3:], full_forward(model, prompt, 37, team))
    assert len(set(decoder.text[0].tolist())) > 3


@pytest.mark.parametrize(("count", "first"), [(1, 0), (7, 0), (8, 4), (11, 4), (12, 8), (15, 8), (16, 12)])
def test_what_is_in_view_is_a_function_of_the_length(count, first):
    assert in_view(count, 7) == first  # 7 tokens fit; then the older 4 are forgotten, and so on every 4


def test_longer_than_the_context_follows_the_stated_rule():
    """Each token is the greedy one of a forward pass over what is in view."""
    model, prompt = make(context=9), np.array([3, 1, 4], np.int32)
    decoder = Decoder(model, prompt, Settings(tokens=40, temperature=0.0))
    with Workers(1) as alone:
        decoder.advance(40, alone)
    text = prompt.tolist()
    for _ in range(40):
        seen = text[in_view(len(text), 9) :]
        assert 9 // 2 <= len(seen) <= 9 or len(text) <= 9
        text.append(int(reference.logits(model.config, model.params, np.array([seen]))[0, -1].argmax()))
    assert decoder.text[0].tolist() == text
    # A prompt may be that long too, and is read by the same rule.
    longer = Decoder(model, np.array(text[:30], np.int32), Settings(tokens=13, temperature=0.0))
    with Workers(1) as alone:
        longer.advance(13, alone)
    assert longer.text[0].tolist() == text


def expected_token(logits, how, position, sample):
    """The rule in plain NumPy."""
    if how.temperature == 0:
        return int(logits.argmax())
    chances = np.exp((logits - logits.max()) / how.temperature)
    order = np.argsort(-chances, kind="stable")
    kept = order[: how.top_k or None]
    reached = np.cumsum(chances[kept]) >= how.top_p * chances.sum()
    kept = kept[: reached.argmax() + 1] if reached.any() else kept
    chances[np.setdiff1d(order, kept)] = 0
    word = rng.words((1, 1), how.seed, SAMPLE, position, sample)[0, 0]
    mark = float(word >> np.uint64(11)) * 2.0**-53 * chances.sum()
    return int(np.searchsorted(np.cumsum(chances), mark, side="right"))


@pytest.mark.parametrize(
    ("temperature", "top_p", "top_k"),
    [(0, 1, 0), (1, 1, 0), (0.3, 1, 0), (2, 1, 3), (1, 0.5, 0), (1.5, 0.8, 4), (1, 1e-9, 0), (1, 1, 1), (1, 0.9, 99)],
)
def test_draws_follow_the_rule(temperature, top_p, top_k):
    logits = np.random.default_rng(1).normal(0, 2, 12)
    found = []
    for position in range(60):
        how = Draw(float(temperature), float(top_p), top_k, 5, -1)
        found.append(choose(logits, position, position % 7, how))
        assert found[-1] == expected_token(logits, how, position, position % 7)
    assert len(set(found)) == 1 if temperature == 0 or top_k == 1 or top_p < 1e-3 else len(set(found)) > 2


def test_draws_have_the_model_s_chances():
    logits = np.log(np.array([0.5, 0.25, 0.125, 0.125]))
    drawn = [choose(logits, position, 0, Draw(1.0, 1.0, 0, 0, -1)) for position in range(4000)]
    np.testing.assert_allclose(np.bincount(drawn) / 4000, [0.5, 0.25, 0.125, 0.125], atol=0.03)


def test_of_equal_chances_the_first_tokens_stay():
    drawn = {choose(np.zeros(9), position, 0, Draw(1.0, 1.0, 4, 0, -1)) for position in range(100)}
    assert drawn == {0, 1, 2, 3}
    assert choose(np.zeros(9), 0, 0, Draw(0.0, 1.0, 0, 0, -1)) == 0


def test_a_sample_depends_on_its_seed_and_number_only(monkeypatch):
    """Not on how many are drawn, by how many workers, how many lie in memory at once, or streamed or not."""
    model = make(context=9)
    texts = model.generate("abc", tokens=30, temperature=1.0, seed=3, samples=5, workers=1)
    assert len(set(texts)) == 5
    assert model.generate("abc", tokens=30, temperature=1.0, seed=3, samples=2, workers=3) == texts[:2]
    assert model.generate("abc", tokens=30, temperature=1.0, seed=4, samples=1)[0] not in texts
    monkeypatch.setattr("samebits.families.gpt.sampling.TOGETHER", 2)
    monkeypatch.setattr("samebits.families.gpt.sampling.STRETCH", 7)
    for workers in (2, 5):
        assert model.generate("abc", tokens=30, temperature=1.0, seed=3, samples=5, workers=workers) == texts
    for sample, text in enumerate(texts):
        assert "".join(model.stream("abc", tokens=30, temperature=1.0, seed=3, sample=sample)) == text


def test_streaming_gives_a_piece_a_token():
    assert [len(piece) for piece in make().stream("abc", tokens=12)] == [1] * 12


def test_byte_pairs_stream_the_same_text():
    """An untrained model draws bytes that are no text at all; what is held back comes in the end."""
    known = train_bpe(["naïve café, 北京 and the naïve café"], 270, True)
    model = make(known=known)
    texts = model.generate("naïve", tokens=40, temperature=2.0, samples=4)
    assert any("\ufffd" in text for text in texts)
    for sample, text in enumerate(texts):
        assert "".join(model.stream("naïve", tokens=40, temperature=2.0, sample=sample)) == text


def test_the_end_token_ends_a_sample():
    """Its text stops there; the others go on; nothing is drawn after it."""
    model = make(documents=2)
    end = model.vocabulary.end
    assert end == 12
    texts = model.generate("ab", tokens=12, temperature=1.5, samples=12, workers=2)
    lengths = {len(text) for text in texts}
    assert 12 in lengths
    assert min(lengths) < 12
    for sample, text in enumerate(texts):
        assert "".join(model.stream("ab", tokens=12, temperature=1.5, sample=sample)) == text
    whole = Decoder(model, np.array([0, 1], np.int32), Settings(tokens=12, temperature=1.5), samples=12)
    with Workers(1) as alone:
        whole.advance(12, alone)
    for row, length in zip(whole.text, whole.lengths, strict=True):
        assert end not in row[: length - 1]
        assert length == 14 or row[length - 1] == end
        assert not row[length:].any()


def test_an_empty_prompt_begins_after_a_line_break_or_with_the_first_token():
    model = make()
    assert model.generate("", tokens=20) == model.generate("\n", tokens=20)
    known = characters(["abc"], False)
    config = override(model.config, {"vocab": 3})
    plain = GptModel(config, np.ones(sum(int(np.prod(s)) for _, s in layout(config)), np.float32), known.arrays())
    assert plain.generate("", tokens=5) == plain.generate("a", tokens=5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tokens": 0}, "tokens is 0; it must be a whole number from 1 to 2147483647; set --tokens"),
        ({"tokens": 2**31}, "tokens is 2147483648"),
        ({"temperature": -0.1}, r"temperature is -0\.1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0.0; it must be above 0 and at most 1"),
        ({"top_p": 2.0}, r"top_p is 2\.0"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_k": 10**30}, "top_k is 1000000"),
        ({"seed": -1}, "seed is -1"),
        ({"samples": 0}, "samples is 0"),
        ({"prompt": None}, "prompt is None; it must be a text"),
        ({"prompt": "abX"}, r"prompt: no token for 'X' \(U\+0058\)"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(SamebitsError, match=words):
        make().generate(**settings)
    if "samples" not in settings:
        with pytest.raises(SamebitsError, match=words):
            make().stream(**settings)


def test_more_tokens_than_memory_holds_are_refused():
    with pytest.raises(SamebitsError, match="tokens is 2147483647; it must be fewer, for 1048576 texts"):
        Decoder(make(), np.zeros(1, np.int32), Settings(tokens=2**31 - 1), samples=2**20)  # 8 petabytes


def test_settings_may_be_of_any_type_of_number():
    """They are the same draws, and compile nothing anew."""
    plain = make().generate("a", tokens=5, temperature=0.5, top_p=0.5, top_k=3, seed=2)
    i, f = np.int16, np.float32
    assert make().generate("a", tokens=i(5), temperature=f(0.5), top_p=f(0.5), top_k=i(3), seed=i(2)) == plain


def test_the_command_line_writes_what_python_gives(base):
    words = ["sample", "run", "--prompt", "The ", "--tokens", 40, "--temperature", 1, "--seed", 2]
    model = api.load(base / "run")
    texts = model.generate("The ", tokens=40, temperature=1, seed=2, samples=3)
    one = samebits_here(*words, cwd=base)
    assert one.returncode == 0, one.stderr
    assert one.stdout == f"The {texts[0]}\n"
    assert "40 tokens, " in one.stderr
    assert "tokens/s" in one.stderr
    several = samebits_here(*words, "--samples", 3, "--workers", 2, cwd=base)
    assert several.stdout == "".join(f"--- sample {i} ---\nThe {text}\n" for i, text in enumerate(texts))
    assert "120 tokens, " in several.stderr
