"""Folders where what can be made anew is kept: machine code, tokens. Machine code is run as it is read, so a folder is
used only where nobody but us can write; a file is believed only if it is whole; and only what we marked is deleted."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

TAG = "CACHEDIR.TAG"  # the name that backup programs know; what it says marks a folder as ours
MARK = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Made by samebits, which makes it anew where it is missing: delete it as you like.\n"
)
DIGEST = 32  # bytes of a SHA-256
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

refused: list[str] = []  # places that were asked for and are not used, with the reason
_used: list[int] = []  # descriptors whose locks say, as long as we live, which folders are in use


def cache_bases() -> list[Path]:
    """Where caches may be kept, best first: $SAMEBITS_CACHE_DIR, the user's cache, a temporary folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "samebits"
    temporary = Path(tempfile.gettempdir()) / f"samebits-{os.getuid()}"
    asked = [Path(os.environ["SAMEBITS_CACHE_DIR"])] if os.environ.get("SAMEBITS_CACHE_DIR") else []
    found = []
    for base in (*asked, *([home] if home.is_absolute() else ()), temporary):  # a user without a home keeps its ~
        with contextlib.suppress(OSError, ValueError):
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
        if problem := why_not_ours(base):
            told = f"{base} is not used as a cache: {problem}"
            if base in asked and told not in refused:
                refused.append(told)
        else:
            found.append(base)
    return found


def why_not_ours(folder: Path) -> str:
    """Why somebody else could put something there for us to run; empty where only we can."""
    try:
        found = folder.stat()
    except (OSError, ValueError) as error:
        return f"it cannot be read or made ({getattr(error, 'strerror', None) or error})"
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder"
    if found.st_uid != os.getuid():
        return "it belongs to another user"
    if found.st_mode & OTHERS_WRITE:
        return f"others can write to it; to use it: chmod go-w {folder}"
    return ""


def own_folder(base: Path, name: str) -> Path | None:
    """A folder of ours in a base, made and marked; None where it cannot be written, or somebody else's lies there."""
    folder = base / name
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or why_not_ours(folder):
            return None
        if not (folder / TAG).exists():
            if any(entry.name != TAG for entry in folder.iterdir()) and not (folder / TAG).exists():
                return None
            (folder / TAG).write_text(MARK, encoding="ascii")
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


def hold(folder: Path) -> None:
    """Say for the rest of this process that the folder is in use."""
    descriptor = os.open(folder / TAG, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    _used.append(descriptor)


def drop_old(base: Path, pattern: str, kept: int) -> None:
    """Delete folders of this name that we made, but for the last used ones and any that is in use."""
    with contextlib.suppress(OSError):  # another process may be doing the same
        found = [folder for folder in base.iterdir() if re.fullmatch(pattern, folder.name) and _is_marked(folder)]
        for stale in sorted(found, key=lambda folder: folder.stat().st_mtime, reverse=True)[kept:]:
            with (stale / TAG).open() as tag, contextlib.suppress(BlockingIOError):
                fcntl.flock(tag, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(stale, ignore_errors=True)


def _is_marked(folder: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return not folder.is_symlink() and (folder / TAG).read_text(encoding="ascii") == MARK
    return False


def write_sealed(path: Path, content: bytes) -> None:
    """Written beside and renamed, its hash first: a file that a full disk or a power cut left half is noticed."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as partial:  # for us alone to read and write
        try:
            partial.write(hashlib.sha256(content).digest())
            partial.write(content)
            partial.close()
            os.replace(partial.name, path)
        except BaseException:
            os.unlink(partial.name)
            raise


def read_sealed(path: Path) -> bytes | None:
    """What was written there by us; None where there is nothing, or anything else."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid == os.getuid() and not found.st_mode & OTHERS_WRITE:
            digest, content = file.read(DIGEST), file.read()
            if hashlib.sha256(content).digest() == digest:
                return content
    return None
