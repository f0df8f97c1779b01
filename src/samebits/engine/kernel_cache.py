"""Where machine code is kept, in a folder of ours: the caches of other users of Numba in the same program are theirs.

Numba's disk cache does not notice a changed callee in another file, so the folder is keyed by a hash of the sources, of
ours and of every package that brings a family: a changed kernel can never be mixed with a stale one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numba.core import caching

KEPT_CACHES = 3
PACKAGE = Path(__file__).resolve().parents[1]
FAMILIES = "samebits.families"  # the entry points by which a package brings a family


def sources() -> Iterator[tuple[str, Path]]:
    """(name, file) of the sources that compiled functions, or the constants compiled into them, may come from."""
    for part in ("engine", "families", "distance", "bench"):
        for path in sorted((PACKAGE / part).rglob("*.py")):
            yield path.relative_to(PACKAGE).as_posix(), path
    for name in sorted({entry.module.partition(".")[0] for entry in entry_points(group=FAMILIES)}):
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder).rglob("*.py")):
                yield f"{name}:{path.relative_to(folder).as_posix()}", path
        if spec and spec.origin and spec.submodule_search_locations is None:  # a module, not a package
            yield f"{name}.py", Path(spec.origin)


def source_hash() -> str:
    digest = hashlib.sha256()
    for name, path in sources():
        digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_bases() -> list[Path]:
    """Where caches may be kept, best first: $SAMEBITS_CACHE_DIR, the user's cache, a temporary folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "samebits"
    temporary = Path(tempfile.gettempdir()) / f"samebits-{os.getuid()}"
    bases = [Path(os.environ["SAMEBITS_CACHE_DIR"])] if os.environ.get("SAMEBITS_CACHE_DIR") else []
    bases += [home] if home.is_absolute() else []  # a user without a home keeps its ~
    return bases + ([temporary] if _is_ours(temporary) else [])


def _is_ours(folder: Path) -> bool:
    """Machine code is run as it is read: a folder whose name anybody can guess must be one only we can write to."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        return found.st_uid == os.getuid() and not found.st_mode & 0o022
    return False


def cache_folder() -> Path | None:
    """A folder that keeps this version's machine code; None where none can be written."""
    for base in cache_bases():
        folder = base / f"kernels-{source_hash()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            continue
        os.utime(folder)
        _drop_old_caches(base)
        return folder
    return None


def _drop_old_caches(base: Path) -> None:
    with contextlib.suppress(OSError):  # another process may be doing the same
        found = sorted(base.glob("kernels-*"), key=lambda p: p.stat().st_mtime, reverse=True)
        for stale in found[KEPT_CACHES:]:
            shutil.rmtree(stale, ignore_errors=True)


KEPT_IN = cache_folder()


class _Locator(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):  # type: ignore[misc]  # no types
    """Where the machine code of one function lies."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self._cache_path = os.path.join(str(KEPT_IN), self.get_suitable_cache_subpath(py_file))

    def get_cache_path(self) -> str:
        return self._cache_path


class _Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class CacheFile(caching.IndexDataCacheFile):  # type: ignore[misc]
    """An index of a function's versions and a file for each, written by one process at a time.

    Numba's own would let two processes that compile two versions at once give both the same file: one of them would
    later be called with the arguments of the other.
    """

    def save(self, key: Any, data: Any) -> None:
        with open(f"{self._index_path}.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            super().save(key, data)


class KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, in our folder."""

    _impl_class = _Implementation

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = CacheFile(self._cache_path, self._impl.filename_base, stamp)
