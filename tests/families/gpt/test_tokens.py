"""Vocabularies: every text comes back, no seam shows, no thread count matters, and what has no token is named."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.errors import SamebitsError
from samebits.families.gpt import tokens
from samebits.families.gpt.tokens import Vocabulary

STORY = "Once upon a time there was a weaver.\r\nShe wove naïve café-blue cloth 🧵 for 北京 and the sea.\n" * 40


@settings(deadline=None)
@given(st.text(max_size=60), st.booleans())
def test_characters_come_back_exactly(words, end):
    known = tokens.characters([words, "x"], end)
    found = known.encode(words)
    assert found.dtype == np.int32
    assert known.decode(found) == words
    assert known.size == len(set(words) | {"x"}) + end
    assert known.decode([*found, known.end] if end else found) == words


def test_long_texts_are_encoded_in_parts_without_a_seam(monkeypatch):
    whole = tokens.characters([STORY, "another"], True)
    expected = whole.encode_all([STORY, "another"])
    monkeypatch.setattr(tokens, "CHARACTERS", 7)
    assert tokens.characters([STORY, "another"], True).sha256 == whole.sha256
    for ours, theirs in zip(whole.encode_all([STORY, "another"]), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.fixture(scope="module")
def pairs():
    return tokens.train_bpe([STORY, STORY[::-1]], 300, True)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_byte_pairs_encode_any_text_and_give_it_back(pairs, words):
    found = pairs.encode(words)
    assert pairs.decode(found) == words == pairs.tokenizer.decode(found.tolist())
    assert pairs.end not in found


def test_byte_pairs_are_fewer_than_bytes_and_a_text_cannot_forge_the_end(pairs):
    assert pairs.size == 300
    assert len(pairs.encode(STORY)) < 0.7 * len(STORY.encode())
    forged = pairs.encode(f"a{tokens.END}b")
    assert pairs.end not in forged
    assert pairs.decode(forged) == f"a{tokens.END}b"
    assert pairs.decode([pairs.end]) == ""


def test_a_long_text_is_cut_where_byte_pairs_part(monkeypatch):
    words = "a  \n\n  b\n c \nd\n\ne\r\nf 1\n2 \n \n" * 9 + STORY
    pairs = tokens.train_bpe([words], 400, True)  # knows runs of blanks and breaks: a wrong cut changes its tokens
    expected, _ = pairs.encode_all([words])
    monkeypatch.setattr(tokens, "PIECE", 3)
    monkeypatch.setattr(tokens, "PIECES", 2)
    assert len(list(tokens.cut(words))) > 20
    found, lengths = pairs.encode_all([words, "x", words])
    np.testing.assert_array_equal(found, np.concatenate([expected, pairs.encode("x"), expected]))
    assert lengths.tolist() == [len(expected), 1, len(expected)]


@pytest.mark.parametrize("kind", ["characters", "pairs"])
def test_a_stream_holds_back_incomplete_characters(kind, pairs):
    known = pairs if kind == "pairs" else tokens.characters([STORY], False)
    line = "naïve café-blue cloth 🧵 for 北京"
    stream = known.stream()
    fed = [stream.feed(int(token)) for token in known.encode(line)]
    assert "".join(fed) == line
    assert stream.finish() == ""
    if kind == "pairs":
        odd = [pairs.pieces.index(piece) for piece in (b"\xc3", b"a", b"\xc3")]
        stream = pairs.stream()
        assert [stream.feed(token) for token in odd] + [stream.finish()] == ["", "\ufffda", "", "\ufffd"]
        assert pairs.decode(odd) == "\ufffda\ufffd"


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("kind", ["characters", "pairs"])
def test_a_vocabulary_survives_as_integer_arrays(kind, end):
    known = tokens.train_bpe([STORY], 280, end) if kind == "pairs" else tokens.characters([STORY], end)
    arrays = known.arrays()
    assert all(np.issubdtype(array.dtype, np.integer) for array in arrays.values())
    again = Vocabulary.from_arrays({name: array.copy() for name, array in arrays.items()} | {"other": np.zeros(1)})
    assert (again.pieces, again.end, again.sha256) == (known.pieces, known.end, known.sha256)
    np.testing.assert_array_equal(again.encode(STORY), known.encode(STORY))
    assert known.sha256 != tokens.characters([STORY], not end).sha256


DETERMINISM = """
import sys
from samebits.families.gpt import text, tokens
documents = text.read("").documents[:12]
known = tokens.train_bpe(documents, 600, True)
import hashlib
print(known.sha256, hashlib.sha256(known.encode_all(documents)[0].tobytes()).hexdigest())
"""


def test_byte_pairs_do_not_depend_on_threads_or_hash_seeds():
    found = set()
    for threads, parallel, seed in (("1", "false", "1"), ("3", "true", "2")):
        env = {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": parallel, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", DETERMINISM]
        done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1


def test_unknown_characters_are_named():
    known = tokens.characters(["abc"], True)
    with pytest.raises(SamebitsError) as caught:
        known.encode("aé🧵b")
    assert "'é' (U+00E9), '🧵' (U+1F9F5);" in str(caught.value)
    with pytest.raises(SamebitsError, match=r"'d' \(U\+0064\).*'h' \(U\+0068\) and 2 more"):
        known.encode("abcdefghij")
    with pytest.raises(SamebitsError, match=r"U\+DCFF"):
        known.encode("a\udcff")


def test_text_that_is_not_unicode_is_refused_by_byte_pairs(pairs):
    with pytest.raises(SamebitsError, match="udcff"):
        pairs.encode("a\udcff")


def test_tokens_outside_the_vocabulary_are_refused(pairs):
    for wrong in (-1, 300):
        with pytest.raises(SamebitsError, match=f"token {wrong} is not in 0 to 299"):
            pairs.decode([5, wrong])


def test_arrays_without_a_vocabulary_are_refused():
    with pytest.raises(SamebitsError, match="no vocabulary"):
        Vocabulary.from_arrays({"wires": np.zeros(3, np.int64)})
