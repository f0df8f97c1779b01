"""Documents, windows and the token cache: against naive Python, and against what users get wrong."""

from __future__ import annotations

import os
import sys
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import samebits
from samebits.arithmetic import rng
from samebits.arithmetic.rng import Purpose
from samebits.compiler.cache_folder import TAG
from samebits.errors import SamebitsError
from samebits.families.gpt import data, text

DEFAULTS = {
    "data": "", "tokenizer": "char", "vocab": None, "context": 4, "batch_size": 6, "seed": 3, "validation": 0.1,
    "eval_samples": 5, "text_sha256": "", "vocabulary_sha256": "", "init_from": "", "unknown": "",
}  # fmt: skip
STORY = "Once upon a time there was a weaver.\r\nShe wove naïve café-blue cloth 🧵 for 北京 and the sea.\n" * 40


def config_of(**changes):
    return SimpleNamespace(**{**DEFAULTS, **changes})


def prepared(config):
    return config_of(**{**vars(config), **data.prepare(config)})


def entries(cache):
    """What is kept, beside the mark that the folder is ours."""
    return sorted(path for path in cache.iterdir() if path.name != TAG)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tokens"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "texts"
    (place / "a").mkdir(parents=True)
    for name, words in {"b.txt": "second file", "a/z.md": "first file, of a folder", "c.py": "third = 3\n"}.items():
        (place / name).write_text(words)
    return place


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.txt"
    path.write_bytes(STORY.encode())
    return path


def loaded(config, documents):
    """`load` without files."""
    corpus = text.collect("test", [document.encode() for document in documents])
    found = data.tokenise(config, corpus)
    return data.Text(found.train, found.validation, *data.index(config, "test", found))


def pieces(part):
    return [part.tokens[a:b].tolist() for a, b in zip(part.bounds[:-1], part.bounds[1:], strict=True)]


# Documents, split, windows -------------------------------------------------------------------------------------------

DOCUMENTS = st.lists(st.text("abcdé\n", min_size=1, max_size=40), min_size=1, max_size=12)


@settings(deadline=None)
@given(DOCUMENTS, st.sampled_from([0.05, 0.1, 0.25, 0.5]))
def test_the_split_is_by_position_and_loses_nothing(documents, validation):
    train, held, whole = data.split(documents, validation)
    joined = "".join(documents)
    cut = int((1 - validation) * len(joined))
    assert ("".join(train), "".join(held)) == (joined[:cut], joined[cut:])
    assert train[:whole] == documents[:whole]
    assert held == ([documents[whole][len(train[whole]) :]] if len(train) > whole else []) + documents[len(train) :]


@settings(deadline=None)
@given(DOCUMENTS, st.integers(1, 9), st.integers(0, 2**40))
@example(["aaaa"], 1, 0)  # one character alone
def test_training_windows_are_exactly_those_inside_one_document(documents, context, step):
    config = config_of(context=context, validation=0.3)
    try:
        found = loaded(config, documents)
    except SamebitsError:  # only where there is nothing to draw, to be judged by, or to predict
        train, held, _ = data.split(documents, 0.3)
        nothing = max(map(len, train), default=0) <= context or max(map(len, held), default=0) < 2
        assert nothing or len(set("".join(documents))) < 2
        assume(False)
    naive = [
        piece[start : start + context + 1] for piece in pieces(found.train) for start in range(len(piece) - context)
    ]
    assert found.windows[-1] == len(naive)
    places = np.arange(len(naive))
    starts = places + found.shifts[np.searchsorted(found.windows, places, side="right")]
    assert [found.train.tokens[start : start + context + 1].tolist() for start in starts] == naive

    drawn = data.batch(config, found, step)
    chosen = rng.integers((config.batch_size, 1), len(naive), config.seed, Purpose.BATCH, step)[:, 0]
    assert drawn.arrays.inputs.tolist() == [naive[i][:-1] for i in chosen]
    assert drawn.arrays.targets.tolist() == [naive[i][1:] for i in chosen]
    assert (drawn.samples, drawn.divisor) == (config.batch_size, config.batch_size * context)
    assert drawn.arrays.step.tolist() == [step]


@settings(deadline=None)
@given(DOCUMENTS, st.integers(1, 9), st.integers(1, 12))
def test_evaluation_predicts_every_token_but_a_documents_first_exactly_once(documents, context, eval_samples):
    config = config_of(context=context, validation=0.5, eval_samples=eval_samples)
    try:
        found = loaded(config, documents)
    except SamebitsError:
        assume(False)
    rows = []
    for piece in pieces(found.validation):
        for start in range(0, len(piece) - 1, context):
            targets = piece[start + 1 : start + 1 + context]
            rows.append((piece[start : start + len(targets)], targets))
    full = data.evaluation(config, found, True)
    inputs, targets, _, per_token = full.arrays
    assert [row[row >= 0].tolist() for row in targets] == [row for _, row in rows]
    assert [a[b >= 0].tolist() for a, b in zip(inputs, targets, strict=True)] == [row for row, _ in rows]
    assert inputs.min() >= 0  # padding must still be a token
    assert full.divisor == sum(len(piece) - 1 for piece in pieces(found.validation)) == (targets >= 0).sum()
    assert per_token[0] * len(found.validation.tokens) == pytest.approx(found.validation.bytes)

    some = data.evaluation(config, found, False)
    assert some.samples == min(eval_samples, len(rows))
    everything = [row.tobytes() for row in np.hstack([inputs, targets])]
    picked = [everything.index(row.tobytes()) for row in np.hstack([some.arrays.inputs, some.arrays.targets])]
    assert len(picked) == some.samples
    assert some.divisor == (some.arrays.targets >= 0).sum()


def test_some_evaluation_windows_are_spread_over_all_of_them():
    config = config_of(context=5, eval_samples=4, validation=0.5)
    found = loaded(config, ["".join(chr(0x4E00 + i) for i in range(201))])
    full, some = (data.evaluation(config, found, whole).arrays.inputs for whole in (True, False))
    assert len(full) == 20
    np.testing.assert_array_equal(some, full[[2, 7, 12, 17]])


def test_documents_end_with_a_token_of_their_own_where_there_are_several():
    config = config_of(context=2, validation=0.5)
    found = loaded(config, ["abab", "bbaa", "aaab"])
    assert pieces(found.train) == [[0, 1, 0, 1, 2], [1, 1]]  # cut in two: the first piece is not at the end
    assert pieces(found.validation) == [[0, 0, 2], [0, 0, 0, 1, 2]]
    assert (found.train.bytes, found.validation.bytes) == (6, 6)
    alone = loaded(config, ["abababab"])
    assert pieces(alone.train) == pieces(alone.validation) == [[0, 1, 0, 1]]


def test_one_text_is_cut_at_nine_tenths_and_has_only_its_characters(story):
    config = prepared(config_of(data=str(story)))
    found, known = data.load(config), data.vocabulary(config)
    assert (config.vocab, known.end) == (len(set(STORY)), None)
    assert known.decode(found.train.tokens) == STORY[: int(0.9 * len(STORY))]
    assert known.decode(found.validation.tokens) == STORY[int(0.9 * len(STORY)) :]
    assert found.validation.bytes == len(STORY[int(0.9 * len(STORY)) :].encode())
    assert found.train.tokens.dtype == np.uint8


def test_a_step_sees_the_same_windows_whenever_it_is_asked(story):
    config = prepared(config_of(data=str(story)))

    def drawn(step, **changes):
        changed = config_of(**{**vars(config), **changes})
        return data.batch(changed, data.load(changed), step).arrays.inputs

    found = data.load(config)
    in_order = [data.batch(config, found, step).arrays.inputs for step in range(6)]
    np.testing.assert_array_equal(drawn(5), in_order[5])
    np.testing.assert_array_equal(drawn(5, batch_size=2), in_order[5][:2])
    assert len({array.tobytes() for array in in_order}) == 6
    assert drawn(5, seed=4).tobytes() != in_order[5].tobytes()


def test_a_folder_is_read_in_the_order_of_its_paths(folder):
    (folder / "empty.txt").write_text("")
    (folder / "picture.png").write_bytes(b"\x89PNG\xff")
    (folder / ".hidden.txt").write_text("no")
    (folder / ".git").mkdir()
    (folder / ".git/x.txt").write_text("no")
    (folder / "a.txt").write_bytes(b"zeroth\r\n\xef\xbb\xbf")
    (folder / "link").symlink_to(folder)
    found = text.read(str(folder))
    assert found.documents == ("zeroth\r\n\ufeff", "first file, of a folder", "second file", "third = 3\n")


def test_the_hash_is_of_contents_and_ends_alone(folder, tmp_path):
    first = text.read(str(folder)).sha256
    (folder / "b.txt").rename(folder / "bb.txt")
    assert text.read(str(folder)).sha256 == first
    (folder / "bb.txt").write_text("second ")
    (folder / "bc.txt").write_text("file")
    assert text.read(str(folder)).sha256 != first


def test_without_data_the_standard_library_is_read():
    found = text.read("")
    assert len(found.documents) > 50
    assert sum(map(len, found.documents)) <= text.STANDARD_LIBRARY
    assert "".join(found.documents).isascii()
    assert found == text.read("")


def test_byte_pairs_are_learned_from_the_training_part_alone(tmp_path):
    path = tmp_path / "two.txt"
    path.write_text("ab " * 300 + "xy " * 30)
    known = data.vocabulary(config_of(data=str(path), tokenizer="bpe", vocab=300))
    assert b"ab" in known.pieces
    assert b"xy" not in known.pieces


def test_a_text_with_too_few_pairs_gives_a_smaller_vocabulary_and_keeps_it(tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("ab abc " * 30)
    config = prepared(config_of(data=str(path), tokenizer="bpe"))
    assert 256 < config.vocab < data.DEFAULT_BPE
    assert data.prepare(config) == {key: vars(config)[key] for key in ("vocab", "text_sha256", "vocabulary_sha256")}


# The cache -----------------------------------------------------------------------------------------------------------


def same(ours, theirs):
    for a, b in zip((ours.train, ours.validation), (theirs.train, theirs.validation), strict=True):
        np.testing.assert_array_equal(a.tokens, b.tokens)
        np.testing.assert_array_equal(a.bounds, b.bounds)
        assert a.bytes == b.bytes
        assert a.tokens.dtype == b.tokens.dtype


@pytest.fixture
def count(monkeypatch):
    """How often a text was tokenised."""
    done, real = [], data.tokenise
    monkeypatch.setattr(data, "tokenise", lambda *words: done.append(1) or real(*words))
    return done


@pytest.mark.parametrize("tokenizer", ["char", "bpe"])
def test_a_text_is_tokenised_once(folder, count, tokenizer, cache):
    config = config_of(data=str(folder), tokenizer=tokenizer, vocab=258 if tokenizer == "bpe" else None)
    first = data.load(config)
    config = prepared(config)
    same(data.load(config), first)
    data.load(config_of(**{**vars(config), "context": 3, "seed": 9}))
    data.vocabulary(config)
    assert len(count) == 1
    data.load(config_of(**{**vars(config), "validation": 0.4, "vocabulary_sha256": ""}))
    assert len(count) == 2


def test_another_text_or_tokenizer_is_another_entry(folder, count, cache):
    data.load(config_of(data=str(folder)))
    data.load(config_of(data=str(folder), tokenizer="bpe", vocab=260))
    data.load(config_of(data=str(folder), tokenizer="bpe", vocab=261))
    (folder / "b.txt").write_text("second FILE")
    data.load(config_of(data=str(folder)))
    assert len(count) == len(entries(cache)) == 4


DAMAGE = {
    "cut short": lambda raw: raw[:-3],
    "altered": lambda raw: raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:],
    "empty": lambda raw: b"",
    "something else": lambda raw: b"hello" * 20,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_made_anew(folder, count, cache, damage):
    config = config_of(data=str(folder))
    first = data.load(config)
    (entry,) = entries(cache)
    good = entry.read_bytes()
    entry.write_bytes(DAMAGE[damage](good))
    same(data.load(config), first)
    assert len(count) == 2
    assert entry.read_bytes() == good


def test_a_cache_that_cannot_be_touched_is_still_read(folder, count, monkeypatch):
    config = config_of(data=str(folder))
    first = data.load(config)
    monkeypatch.setattr(os, "utime", lambda *words: (_ for _ in ()).throw(PermissionError()))
    same(data.load(config), first)
    assert len(count) == 1


def test_without_any_cache_folder_everything_works(folder, count, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    for name in ("SAMEBITS_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(blocked))
    monkeypatch.setattr(tempfile, "tempdir", str(blocked))
    monkeypatch.setattr("samebits.compiler.cache_folder.refused", [])  # else others would tell of it
    config = config_of(data=str(folder))
    same(data.load(config), data.load(config))
    assert len(count) == 2
    assert blocked.read_text() == "not a folder"


def test_a_failed_write_leaves_nothing_behind(folder, cache, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "replace", lambda *words: (_ for _ in ()).throw(OSError("disk full")))
    data.load(config_of(data=str(folder)))
    assert entries(cache) == []


def test_old_entries_go(folder, cache):
    for number in range(data.KEPT_CACHES + 3):
        (folder / "b.txt").write_text(f"version {number:02}")
        data.load(config_of(data=str(folder)))
    assert len(entries(cache)) == data.KEPT_CACHES


# What users get wrong ------------------------------------------------------------------------------------------------


def refused(config, *words):
    for function in (data.prepare, data.load):
        with pytest.raises(SamebitsError) as caught:
            function(config)
        for word in words:
            assert word in str(caught.value)


CASES = {
    "missing": (None, "does not exist", "--data"),
    "empty": (b"", "is empty"),
    "not UTF-8": (b"ab\xe4\xb8z" * 9, "not UTF-8", "0xe4 at position 2"),
    "binary": (b"text\x00text" * 9, "binary", "zero byte at position 4"),
    "UTF-16": ("text".encode("utf-16"), "not UTF-8", "position 0", "UTF-16"),
    "shorter than the context": (b"abcde", "context is 4", "5 tokens", "has 4", "--set context="),
    "nothing left to be judged by": (b"abcdefgh", "validation is 0.1", "1 tokens", "--set validation="),
}


@pytest.mark.parametrize("case", CASES)
def test_data_that_cannot_be_used_is_refused(case, tmp_path, cache):
    raw, *words = CASES[case]
    path = tmp_path / "bad.txt"
    if raw is not None:
        path.write_bytes(raw)
    refused(config_of(data=str(path)), str(path), *words)


def test_a_bad_file_of_a_folder_is_named(folder):
    (folder / "a/bad.md").write_bytes(b"abc\xff")
    refused(config_of(data=str(folder)), str(folder / "a/bad.md"), "0xff at position 3")
    (folder / "a/bad.md").unlink()
    for path in ("b.txt", "c.py", "a/z.md"):
        (folder / path).write_text("")
    refused(config_of(data=str(folder)), str(folder), "is empty")
    for path in ("b.txt", "c.py", "a/z.md"):
        (folder / path).unlink()
    refused(config_of(data=str(folder)), str(folder), "looked for .txt .md")


def test_what_is_neither_file_nor_folder_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(config_of(data=str(tmp_path / "pipe")), "neither a file nor a folder")


def test_more_text_than_can_be_read_is_refused(folder, monkeypatch):
    monkeypatch.setattr(text, "LARGEST", 43)
    refused(config_of(data=str(folder)), "44 bytes", "at most 43")
    monkeypatch.setattr(text, "LARGEST", 44)
    data.load(config_of(data=str(folder)))


def test_a_python_without_sources_is_told_to_name_a_text(tmp_path, monkeypatch):
    monkeypatch.setattr(text.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    refused(config_of(), str(tmp_path), "--data")


@pytest.mark.parametrize("tokenizer", ["char", "bpe"])
def test_data_that_changed_under_a_run_is_refused(story, tokenizer):
    config = prepared(config_of(data=str(story), tokenizer=tokenizer, vocab=300 if tokenizer == "bpe" else None))
    data.prepare(config)
    before = config.text_sha256
    story.write_bytes(STORY.encode() + b"!")
    after = text.read(str(story)).sha256
    refused(config, str(story), before[:12], after[:12], "restore it", "train anew")


def test_another_python_is_another_standard_library(monkeypatch):
    config = prepared(config_of())
    monkeypatch.setattr(text, "STANDARD_LIBRARY", 1_000_000)
    refused(config, "standard library of Python", "the Python the run began with")


def test_a_vocabulary_that_changed_under_a_run_is_refused(story):
    config = prepared(config_of(data=str(story), tokenizer="bpe", vocab=300))
    config.vocab = 301
    refused(config, "vocabulary", config.vocabulary_sha256[:12], "train anew")
    with pytest.raises(SamebitsError, match="vocabulary"):
        data.vocabulary(config)


def learned_otherwise(monkeypatch, version="99.0"):
    """A later `tokenizers`: another version, and other pairs from the same text."""
    real, package = data.train_bpe, SimpleNamespace(**{**vars(data.package()), "__version__": version})
    monkeypatch.setattr(data, "package", lambda: package)
    monkeypatch.setattr(
        data, "train_bpe", lambda texts, size, ended: real([words[::-1] for words in texts], size, ended)
    )


def test_who_holds_the_vocabulary_does_not_learn_it_again(story, monkeypatch):
    """samebits eval after an upgrade: the checkpoint's own vocabulary reads the text as it did in training."""
    config = prepared(config_of(data=str(story), tokenizer="bpe", vocab=300))
    trained, known = data.load(config), data.vocabulary(config)
    learned_otherwise(monkeypatch)
    refused(config, "vocabulary", "the tokenizers package", "train anew")
    same(data.load(config, known), trained)
    other = data.vocabulary(config_of(data=str(story), tokenizer="bpe", vocab=300))
    assert other.sha256 != known.sha256
    with pytest.raises(SamebitsError, match="the vocabulary of this text is not the one this run began with"):
        data.load(config, other)
    story.write_bytes(STORY.encode() + b"!")
    with pytest.raises(SamebitsError, match="is not the text this run began with"):
        data.load(config, known)


def test_a_run_is_continued_with_its_own_vocabulary(story, tmp_path, monkeypatch):
    """The last two steps after an upgrade of `tokenizers`: the bits of a run without one."""
    small = {"preset": "small", "workers": 1, "data": str(story), "tokenizer": "bpe", "vocab": 300, "eval_every": 0}
    whole = samebits.train("gpt", steps=4, out=tmp_path / "whole", **small)
    samebits.train("gpt", steps=2, schedule_steps=4, out=tmp_path / "half", **small)
    learned_otherwise(monkeypatch)
    assert samebits.resume(tmp_path / "half", steps=4, workers=1).outcome.weights == whole.outcome.weights


@pytest.mark.parametrize("tokenizer", ["char", "bpe"])
def test_who_holds_the_vocabulary_finds_the_tokens_of_training(story, count, tokenizer):
    config = prepared(config_of(data=str(story), tokenizer=tokenizer, vocab=300 if tokenizer == "bpe" else None))
    same(data.load(config, data.vocabulary(config)), data.load(config))
    assert len(count) == 1


def test_a_size_that_no_vocabulary_can_have_is_refused(story, folder):
    refused(config_of(data=str(story), vocab=60), "vocab is 60", f"{len(set(STORY))} symbols", "tokenizer=bpe")
    refused(config_of(data=str(story), tokenizer="bpe", vocab=255), "vocab is 255", "256 to 65536")
    refused(config_of(data=str(folder), tokenizer="bpe", vocab=256), "vocab is 256", "<|eos|>", "257 to 65536")
    refused(config_of(data=str(story), tokenizer="bpe", vocab=10**15), "must be 256 to 65536")


def test_byte_pairs_without_their_package_say_what_to_install(story, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    refused(config_of(data=str(story), tokenizer="bpe"), "pip install tokenizers")
    data.load(config_of(data=str(story)))


def test_a_text_of_one_character_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a" * 5000)
    refused(config_of(data=str(tmp_path / "a.txt")), "a.txt has one character alone", "name another text")
