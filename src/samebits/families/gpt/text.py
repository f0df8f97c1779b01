"""Documents to train on: a file, the text files of a folder, the standard library that every Python has, or a text made
up here, the same everywhere (generated.py)."""

from __future__ import annotations

import hashlib
import os
import platform
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from samebits import checks
from samebits.errors import SamebitsError
from samebits.families.gpt.generated import documents

GENERATED = "generated"  # what --data says for it; ./generated is a file of that name
SUFFIXES = (".txt", ".md", ".rst", ".tex", ".html", ".json", ".py", ".c", ".h", ".rs", ".js", ".ts")
LARGEST = 1_000_000_000  # bytes of text: it is read into memory whole, and needs several times that
STANDARD_LIBRARY = 4_000_000  # bytes taken of it: enough for a small model, and read in a moment


class Corpus(NamedTuple):
    """Documents in a fixed order, none of them empty; `sha256` is over their contents and where each ends."""

    name: str  # for messages
    documents: tuple[str, ...]
    sha256: str


def read(data: str) -> Corpus:
    """The documents that `data` names; the empty string names the standard library."""
    if data == GENERATED:
        return collect("the generated text", documents())
    if not data:
        return collect(f"the standard library of Python {platform.python_version()}", standard_library())
    path = checks.path("data", data)
    files = text_files(path)
    try:
        size = sum(file.stat().st_size for file in files)
    except OSError as error:
        raise SamebitsError(
            f"data {error.filename} cannot be read ({error.strerror}); fix it or leave it out"
        ) from None
    if size > LARGEST:
        raise SamebitsError(f"data {data} has {size:,} bytes of text; at most {LARGEST:,} are read; name a part of it")
    corpus = collect(str(path), (contents(file) for file in files))
    if not corpus.documents:
        raise SamebitsError(f"data {data} is empty; there is nothing to learn from; name a file with text in it")
    return corpus


def collect(name: str, raw: Iterable[bytes]) -> Corpus:
    digest, documents = hashlib.sha256(), []
    for document in raw:
        if document:
            digest.update(len(document).to_bytes(8, "little") + document)
            documents.append(document.decode())
    return Corpus(name, tuple(documents), digest.hexdigest())


def text_files(path: Path) -> list[Path]:
    """The file itself, or what a folder holds below it, by relative path; hidden names are left out."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        state = "is neither a file nor a folder" if path.exists() else "does not exist"
        raise SamebitsError(
            f"data {path} {state}; it must be a text file or a folder of them; name one with --data; if it has moved "
            "since a run began: samebits resume DIR --set data=PATH"
        )
    found = []
    for folder, folders, names in os.walk(path, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(folder, name) for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
    found = sorted((file for file in found if file.is_file()), key=lambda file: file.relative_to(path).as_posix())
    if not found:
        raise SamebitsError(
            f"data {path} is a folder without text files; looked for {' '.join(SUFFIXES)}; name another"
        )
    return found


def _refuse(error: OSError) -> None:
    raise SamebitsError(f"data {error.filename} cannot be read ({error.strerror}); fix it or leave it out")


def contents(file: Path) -> bytes:
    """A file's bytes, which are UTF-8 text, or an error that says where they are not."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise SamebitsError(f"data {file} cannot be read ({error.strerror}); fix it or leave it out") from None
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        remedy = "it looks like UTF-16: convert it to UTF-8" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "convert it"
        wrong = f"byte 0x{raw[error.start]:02x} at position {error.start}"
        raise SamebitsError(f"data {file} is not UTF-8 text ({wrong}); {remedy}, or leave it out") from None
    zero = raw.find(0)
    if zero >= 0:
        raise SamebitsError(f"data {file} is binary, not text (a zero byte at position {zero}); leave it out")
    return raw


def standard_library() -> Iterator[bytes]:
    """Its public top-level modules, by name, up to a few megabytes. Another Python version has another text.

    Private modules differ between builds of one version; the few modules outside ASCII would more than half again the
    number of characters, for letters that hardly occur.
    """
    folder, total = Path(sysconfig.get_paths()["stdlib"]), 0
    for file in sorted(folder.glob("[!_]*.py")):
        raw = contents(file) if file.is_file() else b""
        if raw.isascii() and total + len(raw) <= STANDARD_LIBRARY:
            total += len(raw)
            yield raw
    if not total:
        raise SamebitsError(f"there is no Python source in {folder} to train on; name a text file with --data")
