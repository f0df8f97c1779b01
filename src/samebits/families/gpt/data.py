"""Tokens to train on and to be judged by. Windows stay inside one document; every batch is a function of (seed, step).

Shapes: B windows of T = context tokens; D documents.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as pack_arrays

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array
from samebits.arithmetic.rng import Purpose
from samebits.compiler.cache_folder import TAG, cache_bases, own_folder, read_sealed, write_sealed
from samebits.errors import SamebitsError
from samebits.families.gpt import text
from samebits.families.gpt.text import Corpus
from samebits.families.gpt.tokens import Vocabulary, characters, known_text, package, train_bpe
from samebits.runs.init_from import read_source
from samebits.training.contract import Batch, Constants

if TYPE_CHECKING:
    from samebits.families.gpt.config import GptConfig

DEFAULT_BPE = 2000
CACHE_FORMAT = 3  # of the token cache; a new number makes old files unseen
KEPT_CACHES = 8
IGNORED = -1  # a target that is not counted


class Part(NamedTuple):
    """Training or validation text, document after document; a document that the split cuts has a piece in both."""

    tokens: Array  # (n,) uint8, or uint16 or int32 where the vocabulary is larger
    bounds: Array  # (D + 1,) int64: document d is tokens[bounds[d] : bounds[d + 1]]
    bytes: int  # of the text in UTF-8

    @property
    def bytes_per_token(self) -> float:
        return self.bytes / max(1, len(self.tokens))


class Tokenised(NamedTuple):
    """What the cache keeps: of the text, the tokenizer and the split, not of the context."""

    vocabulary: Vocabulary
    train: Part
    validation: Part


class Text(NamedTuple):
    """What batches are drawn from. Training window w lies in the first document d with w < windows[d], and begins at
    token w + shifts[d]; it takes context + 1 tokens. Documents too short for one are not listed."""

    train: Part
    validation: Part
    windows: Array  # (k,) int64: how many windows there are up to the end of a document
    shifts: Array  # (k,) int64


class Windows(NamedTuple):
    """inputs and targets (B, T) int32: targets are one token ahead, −1 where nothing is counted.

    Bits per byte = mean loss / ln 2 / bytes_per_token: the end of a document costs bits, but has no bytes.
    """

    inputs: Array
    targets: Array
    step: Array  # (1,) int64: the training step, for dropout; −1 in evaluations
    bytes_per_token: Array  # (1,) float64, of the part the windows are from


def prepare(config: GptConfig) -> dict[str, int | str]:
    """The config keys that follow from the data; what is already filled in must still be true."""
    corpus, found = read(config)
    index(config, corpus.name, found)
    return {
        "vocab": found.vocabulary.size,
        "text_sha256": corpus.sha256,
        "vocabulary_sha256": found.vocabulary.sha256,
    }


def vocabulary(config: GptConfig) -> Vocabulary:
    """The vocabulary of the config's data, or of the run that training begins with."""
    if config.init_from:
        given = inherited(config)
        check_vocabulary(config, given)
        return given
    known = read_cache(cache_key(config, config.text_sha256)) if config.text_sha256 else None
    found = known or read(config)[1]
    check_vocabulary(config, found.vocabulary)
    return found.vocabulary


def inherited(config: GptConfig) -> Vocabulary:
    """Who begins with a run's weights reads with its vocabulary: the rows of its matrices are those symbols."""
    return Vocabulary.from_arrays(read_source(config.init_from, "gpt").arrays)


def load(config: GptConfig, known: Vocabulary | None = None) -> Text:
    """The text as tokens, split, and where windows can be drawn. Who has the vocabulary, as a checkpoint does, gives
    it: then it is neither learned anew nor read from `init_from`."""
    corpus, found = read(config, known)
    return Text(found.train, found.validation, *index(config, corpus.name, found))


def read(config: GptConfig, known: Vocabulary | None = None) -> tuple[Corpus, Tokenised]:
    """The documents as they are now, and their tokens, from the cache if it has them."""
    corpus = text.read(config.data)
    if config.text_sha256 and config.text_sha256 != corpus.sha256:
        remedy = "restore it" if config.data else "use the Python the run began with"
        raise SamebitsError(
            f"{corpus.name} is not the text this run began with (sha256 {corpus.sha256[:12]}…, the run has "
            f"{config.text_sha256[:12]}…); {remedy}, or train anew"
        )
    given = known or (inherited(config) if config.init_from else None)
    found = kept(config, corpus.sha256, given)
    if found is None:
        found = tokenise(config, corpus, given)
        write_cache(cache_key(config, corpus.sha256, given), found)
    check_vocabulary(config, found.vocabulary)
    return corpus, found


def kept(config: GptConfig, text_sha256: str, given: Vocabulary | None) -> Tokenised | None:
    """The text's tokens in the cache: under the vocabulary given, or with the one learned if that is the same."""
    found = read_cache(cache_key(config, text_sha256, given))
    if found is not None or given is None:
        return found
    learned = None if config.unknown else read_cache(cache_key(config, text_sha256))
    return learned if learned and learned.vocabulary.sha256 == given.sha256 else None


def check_vocabulary(config: GptConfig, found: Vocabulary) -> None:
    """A run keeps the vocabulary it began with, though another version of the tokenizer may learn another one."""
    if config.vocabulary_sha256 and config.vocabulary_sha256 != found.sha256:
        raise SamebitsError(
            f"the vocabulary of this text is not the one this run began with (sha256 {found.sha256[:12]}…, the run has "
            f"{config.vocabulary_sha256[:12]}…); restore tokenizer, vocab and the tokenizers package, or train anew"
        )
    if config.init_from and config.vocab not in (None, found.size):
        raise SamebitsError(
            f"vocab is {config.vocab}; with init_from it is that run's, which has {found.size} symbols; leave it out"
        )
    if config.tokenizer == "char" and config.vocab not in (None, found.size):
        raise SamebitsError(
            f"vocab is {config.vocab}; with tokenizer=char it follows from the text, which has {found.size} symbols; "
            "leave it out, or use --set tokenizer=bpe"
        )


def check_constants(config: GptConfig, found: Constants) -> None:
    """The vocabulary of a checkpoint must be the run's: tokens index the rows of its matrices."""
    vocabulary = Vocabulary.from_arrays(found)
    if vocabulary.size != config.symbols or set(found) != set(vocabulary.arrays()):
        raise SamebitsError(f"its vocabulary has {vocabulary.size} symbols; by config.toml it has {config.symbols}")
    if config.vocabulary_sha256 and config.vocabulary_sha256 != vocabulary.sha256:
        raise SamebitsError("its vocabulary is not the one that config.toml has the SHA-256 of")


def tokenise(config: GptConfig, corpus: Corpus, given: Vocabulary | None = None) -> Tokenised:
    """Characters are counted over the whole text; byte pairs are learned from the training part alone."""
    documents = known_text(given, corpus.documents, config.unknown)[0] if given is not None else corpus.documents
    train, validation, whole = split(documents, config.validation)
    ended = len(corpus.documents) > 1
    if given is not None:
        known = given
    elif config.tokenizer == "char":
        known = characters(corpus.documents, ended)
    else:
        known = train_bpe(train, config.vocab or DEFAULT_BPE, ended)
    if known.size < 2:
        raise SamebitsError(
            f"{corpus.name} has one character alone, again and again; there is nothing to predict; name another text"
        )
    # The training piece of a document that the split cuts is not at its end.
    parts = part(known, train, whole), part(known, validation, len(validation))
    return Tokenised(known, *parts)


def split(documents: Sequence[str], validation: float) -> tuple[list[str], list[str], int]:
    """Training and validation documents, cut by position in the whole text, and how many training ones are whole."""
    left = int((1 - validation) * sum(map(len, documents)))
    train, held, whole = [], [], 0
    for document in documents:
        if left >= len(document):
            train.append(document)
            whole += 1
        elif left > 0:
            train.append(document[:left])
            held.append(document[left:])
        else:
            held.append(document)
        left = max(0, left - len(document))
    return train, held, whole


def part(known: Vocabulary, documents: Sequence[str], whole: int) -> Part:
    """Documents as tokens; the first `whole` of them get the end-of-document token, if there is one."""
    tokens, lengths = known.encode_all(documents)
    if known.end is not None:
        tokens = np.insert(tokens, np.cumsum(lengths)[:whole], known.end)
        lengths[:whole] += 1
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Part(tokens, bounds, sum(len(document.encode()) for document in documents))


def index(config: GptConfig, name: str, found: Tokenised) -> tuple[Array, Array]:
    """Text.windows and Text.shifts; an error if there is nothing to draw, or nothing to be judged by."""
    lengths = np.diff(found.train.bounds)
    counts = np.maximum(0, lengths - config.context)
    if not counts.any():
        raise SamebitsError(
            f"context is {config.context}, which takes {config.context + 1} tokens of one document; the longest that "
            f"{name} has for training has {lengths.max(initial=0)}; give more text, or use --set context=…"
        )
    if len(found.validation.tokens) < 2 or np.diff(found.validation.bounds).max() < 2:
        raise SamebitsError(
            f"validation is {config.validation}, which leaves {len(found.validation.tokens)} tokens of {name} "
            "to be judged by; a document there must have at least 2; give more text, or use --set validation=…"
        )
    long = counts > 0
    windows = np.cumsum(counts[long])
    return windows, found.train.bounds[:-1][long] - (windows - counts[long])


def batch(config: GptConfig, data: Text, step: int) -> Batch:
    """B training windows, each at a random place: window i depends on (seed, step, i) alone."""
    B, T = config.batch_size, config.context
    chosen = rng.integers((B, 1), int(data.windows[-1]), config.seed, Purpose.BATCH, step)
    starts = chosen + data.shifts[np.searchsorted(data.windows, chosen, side="right")]
    tokens = data.train.tokens[starts + np.arange(T + 1)].astype(np.int32)
    return as_batch(tokens[:, :-1], tokens[:, 1:], step, data.train, B * T)


def evaluation(config: GptConfig, data: Text, full: bool) -> Batch:
    """All validation windows, or `eval_samples` of them, evenly spread."""
    return side_by_side(config, data.validation, None if full else config.eval_samples)


def side_by_side(config: GptConfig, source: Part, most: int | None = None) -> Batch:
    """Windows side by side: all of them, so that every token but a document's first is predicted exactly once; or
    `most` of the same, evenly spread."""
    T, bounds = config.context, source.bounds
    counts = -(-np.maximum(0, np.diff(bounds) - 1) // T)  # windows of each document, the last one maybe short
    document = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(document)) - (np.cumsum(counts) - counts)[document]
    starts, ends = bounds[document] + nth * T, bounds[document + 1]
    if most is not None and most < len(starts):
        some = (2 * np.arange(most) + 1) * len(starts) // (2 * most)
        starts, ends = starts[some], ends[some]
    places = starts[:, None] + np.arange(T + 1)
    inside = places < ends[:, None]
    tokens = source.tokens[np.minimum(places, ends[:, None] - 1)].astype(np.int32)
    tokens[~inside] = IGNORED
    inputs, targets = np.maximum(tokens[:, :-1], 0), tokens[:, 1:]
    return as_batch(inputs, targets, -1, source, int(inside[:, 1:].sum()))


def as_batch(inputs: Array, targets: Array, step: int, source: Part, counted: int) -> Batch:
    arrays = Windows(
        np.ascontiguousarray(inputs),
        np.ascontiguousarray(targets),
        np.array([step], np.int64),
        np.array([source.bytes_per_token]),
    )
    return Batch(arrays, len(inputs), float(counted))


def cache_key(config: GptConfig, text_sha256: str, given: Vocabulary | None = None) -> str:
    """Everything that decides the tokens."""
    parts: list[object] = [CACHE_FORMAT, text_sha256, config.validation, config.tokenizer]
    if given is not None:
        parts += [given.sha256, *([config.unknown] if config.unknown else [])]
    elif config.tokenizer == "bpe":
        parts += [config.vocab or DEFAULT_BPE, package().__version__]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def cache_folders() -> Iterator[Path]:
    """Where tokens may be kept, best place first."""
    return (folder for base in cache_bases() if (folder := own_folder(base, "tokens")))


def read_cache(key: str) -> Tokenised | None:
    """Tokens kept earlier; whatever is missing, unreadable or damaged is as if it were not there."""
    for folder in cache_folders():
        packed = read_sealed(folder / key)
        if packed is not None:
            with contextlib.suppress(OSError):
                os.utime(folder / key)  # among the last used
            return from_arrays(parse_arrays(packed))
    return None


def write_cache(key: str, found: Tokenised) -> None:
    """In the first place that takes it; without any the run works all the same."""
    packed = pack_arrays(as_arrays(found))
    for folder in cache_folders():
        with contextlib.suppress(OSError):
            write_sealed(folder / key, packed)
            drop_old_tokens(folder)
            return


def drop_old_tokens(folder: Path) -> None:
    with contextlib.suppress(OSError):  # another process may be doing the same
        kept = [file for file in folder.iterdir() if file.name != TAG]
        for stale in sorted(kept, key=lambda file: file.stat().st_mtime, reverse=True)[KEPT_CACHES:]:
            stale.unlink()


def as_arrays(found: Tokenised) -> dict[str, Array]:
    arrays = found.vocabulary.arrays()
    for name, source in (("train", found.train), ("validation", found.validation)):
        arrays |= {f"{name}.tokens": source.tokens, f"{name}.bounds": source.bounds}
        arrays[f"{name}.bytes"] = np.array([source.bytes], np.int64)
    return arrays


def from_arrays(arrays: dict[str, Array]) -> Tokenised:
    train, validation = (
        Part(arrays[f"{name}.tokens"], arrays[f"{name}.bounds"], int(arrays[f"{name}.bytes"][0]))
        for name in ("train", "validation")
    )
    return Tokenised(Vocabulary.from_arrays(arrays), train, validation)
