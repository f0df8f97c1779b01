"""Vocabularies: the characters of a text, or byte pairs learned from it. A checkpoint keeps one as integer arrays."""

from __future__ import annotations

import codecs
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.checks import array, refuse
from samebits.errors import SamebitsError
from samebits.printing import shown

END = "<|eos|>"  # ends a document; never made from these characters in a text
CODEPOINTS, BPE, END_OF_DOCUMENT = "vocabulary.codepoints", "vocabulary.bpe", "vocabulary.end"  # names in checkpoints

MOST_BPE = 65_536  # tokens fit 16 bits
DROP = "drop"  # unknown characters: leave them out
NAMED = 5  # unknown characters in a message
CHARACTERS = 1 << 22  # encoded at once: bounds the memory
PIECE, PIECES = 1 << 16, 64  # the same for byte pairs: characters of a piece at least, and pieces


@dataclass(frozen=True, eq=False)
class Vocabulary:
    pieces: tuple[bytes, ...]  # the UTF-8 bytes of each token; the end of a document has none
    end: int | None  # the token that ends a document, if there is more than one
    codepoints: Array | None  # (n,) int32, ascending: token i is this character; None for byte pairs
    bpe: bytes  # the byte-pair tokenizer as JSON; empty for characters

    @property
    def size(self) -> int:
        return len(self.pieces)

    @cached_property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for name, values in self.arrays().items():
            digest.update(name.encode() + b"\0" + values.tobytes())
        return digest.hexdigest()

    def encode(self, text: str) -> Array:
        """(n,) int32 tokens; characters that have no token are an error that names them."""
        if not isinstance(text, str):
            raise refuse("text", text, "a text")
        return self.encode_all([text])[0].astype(np.int32)

    def encode_all(self, texts: Sequence[str]) -> tuple[Array, Array]:
        """All texts' tokens, one after the other, in the smallest type, and how many each has, int64."""
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            raise refuse("texts", texts, "a list of texts")
        if self.codepoints is None:
            return encode_pairs(self.tokenizer, texts, self.size)
        return encode_characters(self.codepoints, texts), np.array([len(text) for text in texts], np.int64)

    def decode(self, tokens: Any) -> str:
        """Text of tokens; an incomplete character shows as U+FFFD, the end of a document as nothing."""
        found = array("tokens", tokens, "iu", "whole numbers").ravel()
        if found.size and not (found.min() >= 0 and found.max() < self.size):
            wrong = found.max() if found.min() >= 0 else found.min()
            raise SamebitsError(f"tokens: token {wrong} is not in 0 to {self.size - 1}")
        return b"".join([self.pieces[token] for token in found.tolist()]).decode(errors="replace")

    def stream(self) -> Stream:
        """A decoder for tokens that come one at a time."""
        return Stream(self.pieces)

    def arrays(self) -> dict[str, Array]:
        """What a checkpoint keeps of it; −1: no token ends a document."""
        end = np.array([-1 if self.end is None else self.end], np.int32)
        if self.codepoints is None:
            return {BPE: np.frombuffer(self.bpe, np.uint8), END_OF_DOCUMENT: end}
        return {CODEPOINTS: self.codepoints, END_OF_DOCUMENT: end}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Vocabulary:
        """What a checkpoint keeps, which may be anybody's: nothing in it is believed."""
        if END_OF_DOCUMENT not in arrays or not {CODEPOINTS, BPE} & set(arrays):
            raise SamebitsError("there is no vocabulary among the arrays; take them from a checkpoint of a gpt run")
        last = arrays[END_OF_DOCUMENT]
        if last.dtype != np.int32 or last.shape != (1,):
            raise SamebitsError(f"{END_OF_DOCUMENT} is {last.dtype} {last.shape}; it must be int32 (1,)")
        end = None if last[0] < 0 else int(last[0])
        if CODEPOINTS in arrays:
            points = arrays[CODEPOINTS]
            _check_codepoints(points)
            found = from_codepoints(points, end is not None)
        else:
            found = from_json(arrays[BPE].tobytes(), end)
        if end not in (None, found.end):
            raise SamebitsError(f"{END_OF_DOCUMENT} is {end}; the token that ends a document is {found.end}")
        return found

    @cached_property
    def tokenizer(self) -> Any:
        library = package()
        try:
            made = library.Tokenizer.from_str(self.bpe.decode())
        except Exception as error:  # all that its parser raises
            raise SamebitsError(f"{BPE} is not what the package tokenizers writes ({error})") from None
        made.encode_special_tokens = True  # as text: a document that talks about <|eos|> does not end there
        return made


class Stream:
    """Text from tokens one at a time: bytes of a character that is not complete are held back."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces, self.decoder = pieces, codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: int) -> str:
        return self.decoder.decode(self.pieces[token])

    def finish(self) -> str:
        """What was held back, as U+FFFD."""
        return self.decoder.decode(b"", final=True)


def characters(texts: Sequence[str], end: bool) -> Vocabulary:
    """Every character of the texts, by code point; then the end of a document."""
    seen = np.zeros(0x110000, bool)
    for points in codepoints_of(texts):
        seen[points] = True
    return from_codepoints(np.flatnonzero(seen).astype(np.int32), end)


def _check_codepoints(found: Array) -> None:
    if found.dtype != np.int32 or found.ndim != 1 or not found.size:
        raise SamebitsError(f"{CODEPOINTS} is {found.dtype} {found.shape}; it must be int32 (n,)")
    surrogates = (found >= 0xD800) & (found <= 0xDFFF)
    if found[0] < 0 or found[-1] > sys.maxunicode or (np.diff(found) <= 0).any() or surrogates.any():
        raise SamebitsError(f"{CODEPOINTS} must be characters, each once, in their order")


def from_codepoints(codepoints: Array, end: bool) -> Vocabulary:
    pieces = [chr(point).encode() for point in codepoints.tolist()]
    return Vocabulary((*pieces, b"") if end else tuple(pieces), len(pieces) if end else None, codepoints, b"")


def codepoints_of(texts: Sequence[str]) -> Iterator[Array]:
    """All characters of the texts as uint32, some at a time."""
    for text in texts if len(texts) < 2 or max(map(len, texts)) > CHARACTERS else ["".join(texts)]:
        for start in range(0, len(text), CHARACTERS):
            # A lone surrogate can come from a command line that is not UTF-8; it is an unknown character like others.
            yield np.frombuffer(text[start : start + CHARACTERS].encode("utf-32-le", "surrogatepass"), "<u4")


def encode_characters(codepoints: Array, texts: Sequence[str]) -> Array:
    table = np.full(codepoints[-1] + 2, -1, np.int32)  # the last entry stands for everything beyond
    table[codepoints] = np.arange(len(codepoints), dtype=np.int32)
    # As narrow as can be; there may be one more: the end of a document.
    narrow = np.uint8 if len(codepoints) < 1 << 8 else np.uint16 if len(codepoints) < 1 << 16 else np.int32
    found = [np.zeros(0, narrow)]
    for points in codepoints_of(texts):
        tokens = table[np.minimum(points, len(table) - 1)]
        if tokens.size and tokens.min() < 0:
            unknown = [f"{chr(point)!r} (U+{point:04X})" for point in np.unique(points[tokens < 0]).tolist()]
            more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
            raise SamebitsError(
                f"no token for {', '.join(unknown[:NAMED])}{more}; the vocabulary is the {len(codepoints)} characters "
                "of the text it was made from; leave them out (--unknown drop), or train with --set tokenizer=bpe"
            )
        found.append(tokens.astype(narrow))
    return np.concatenate(found)


def known_text(vocabulary: Vocabulary, texts: Sequence[str], unknown: str | None) -> tuple[list[str], int]:
    """The texts with what has no token dropped, or replaced by the character `unknown`; and how many those were.

    Without a wish the texts stay as they are, and encoding them says what is unknown. Byte pairs know every character.
    """
    points = vocabulary.codepoints
    if unknown is None or points is None:
        return list(texts), 0
    known = {chr(point) for point in points.tolist()}
    if unknown != DROP and unknown not in known:
        raise refuse("unknown", unknown, f"{DROP}, or one of the {len(known)} characters the model knows",
                     f"use --unknown {DROP}")  # fmt: skip
    instead = "" if unknown == DROP else unknown
    wrong = {ord(character): instead for character in set("".join(texts)) - known}
    count = sum(text.count(chr(point)) for point in wrong for text in texts)
    return [text.translate(wrong) for text in texts], count


def said(unknown: str | None) -> str:
    """What was done with unknown characters."""
    return "dropped" if unknown == DROP else f"replaced by {unknown!r}"


def package() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise SamebitsError(
            "tokenizer is bpe, which needs the package tokenizers; install it with: pip install tokenizers"
        ) from None
    return tokenizers


def train_bpe(texts: Sequence[str], size: int, end: bool) -> Vocabulary:
    """Byte-level byte pairs, most frequent first, until there are `size` tokens or no pair is left that occurs twice.

    All 256 bytes have a token, so every text can be encoded. The result does not depend on the package's threads: it
    counts pairs in integers and breaks ties by token number.
    """
    smallest = 256 + end
    if not smallest <= size <= MOST_BPE:
        parts = f"256 bytes and {END}" if end else "256 bytes"
        raise SamebitsError(
            f"vocab is {size}; byte pairs start from {parts}, so it must be {smallest} to {MOST_BPE}; use --set vocab=…"
        )
    library = package()
    level = library.pre_tokenizers.ByteLevel
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = level(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        show_progress=False,
        special_tokens=[END] if end else [],
        initial_alphabet=level.alphabet(),
    )
    tokenizer.train_from_iterator((piece for text in texts for piece in cut(text)), trainer)
    return from_json(tokenizer.to_str().encode(), tokenizer.token_to_id(END) if end else None)


def from_json(source: bytes, end: int | None) -> Vocabulary:
    """Byte-level tokens are spelt in the JSON with one visible character for each byte: read those back."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # these bytes stand for themselves
    hidden = sorted(set(range(256)) - set(visible))  # and these follow from U+0100 on
    byte = {chr(code): code for code in visible} | {chr(0x100 + i): code for i, code in enumerate(hidden)}
    ids = _pair_numbers(source, end)
    pieces = [b""] * len(ids)
    for spelling, token in ids.items():
        if token != end:
            strange = next((character for character in spelling if character not in byte), None)
            if strange is not None:
                raise SamebitsError(f"{BPE}: token {token} is spelt with {shown(strange)}, which stands for no byte")
            pieces[token] = bytes(byte[character] for character in spelling)
    return Vocabulary(tuple(pieces), end, None, source)


def _pair_numbers(source: bytes, end: int | None) -> dict[str, int]:
    """Spellings and numbers of tokens, of a tokenizer that does what ours do and nothing else."""
    try:
        made = json.loads(source)
        ids, added = made["model"]["vocab"], {token["id"]: token["content"] for token in made["added_tokens"]}
        level, numbers = made["pre_tokenizer"]["type"], sorted(ids.values())
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        raise SamebitsError(f"{BPE} is not what the package tokenizers writes") from None
    others = [key for key in ("normalizer", "post_processor", "truncation", "padding") if made.get(key) is not None]
    if level != "ByteLevel" or others:
        raise SamebitsError(f"{BPE} has parts that ours have not: {', '.join(others) or 'another pre_tokenizer'}")
    if numbers != list(range(len(ids))) or not all(type(number) is int for number in numbers):
        raise SamebitsError(f"{BPE}: its {len(ids)} tokens are not numbered 0 to {len(ids) - 1}")
    if added != ({} if end is None else {end: END}) or (end is not None and ids.get(END) != end):
        raise SamebitsError(f"{BPE}: its special tokens are {shown(added)}; only {END}, number {end}, may be")
    return dict(ids)


def cut(text: str) -> Iterator[str]:
    """Pieces of a long text whose tokens, joined, are the whole text's: cut before the line break that precedes a word,
    where the tokenizer's own pattern always parts."""
    start = 0
    while len(text) - start > PIECE:
        found = LINE_BREAK.search(text, start + PIECE)
        if not found:
            break
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]


LINE_BREAK = re.compile(r"\n(?=\w)")


def encode_pairs(tokenizer: Any, texts: Sequence[str], size: int) -> tuple[Array, Array]:
    pieces = [(number, piece) for number, text in enumerate(texts) for piece in cut(text)]
    found, lengths = [np.zeros(0, np.uint16)], np.zeros(len(texts), np.int64)
    for start in range(0, len(pieces), PIECES):
        some = pieces[start : start + PIECES]
        try:
            encoded = tokenizer.encode_batch_fast([piece for _, piece in some], add_special_tokens=False)
        except TypeError:  # a lone surrogate
            raise refuse(
                "text", texts[0], "one that can be written as UTF-8", "leave halves of characters out"
            ) from None
        for (number, _), piece in zip(some, encoded, strict=True):
            found.append(np.array(piece.ids, np.uint16))
            lengths[number] += len(piece.ids)
    tokens = np.concatenate(found)
    if tokens.size and tokens.max() >= size:
        raise SamebitsError(f"{BPE} makes token {tokens.max()}; it has {size} of them; take it from a gpt run")
    return tokens, lengths
