"""Where machine code is kept, in a folder of ours: the caches of other users of Numba in the same program are theirs.

Numba's disk cache does not notice a changed callee in another file, so the folder is keyed by a hash of the sources, of
ours and of every package that brings a family: a changed kernel can never be mixed with a stale one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
import warnings
from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numba.core import caching

from samebits.engine.cache_folder import cache_bases, drop_old, hold, own_folder, read_sealed, write_sealed

KEPT_CACHES = 3
KERNELS = "kernels-[0-9a-f]{16}"  # names of our folders
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


def cache_folder() -> Path | None:
    """A folder that keeps this version's machine code; None where none can be written."""
    for base in cache_bases():
        folder = own_folder(base, f"kernels-{source_hash()}")
        if folder is not None:
            hold(folder)
            os.utime(folder)
            drop_old(base, KERNELS, KEPT_CACHES)
            return folder
    return None


KEPT_IN = cache_folder()


class CacheWarning(UserWarning):
    """Kernels are compiled, and cannot be kept."""


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
    """An index of a function's versions and a file for each, all sealed, written by one process at a time.

    Numba's own would believe a damaged file, and would let two processes that compile two versions at once give both
    the same file: one of them would later be called with the arguments of the other.
    """

    def save(self, key: Any, data: Any) -> None:
        with open(f"{self._index_path}.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            super().save(key, data)

    def _load_index(self) -> dict[Any, str]:
        content = read_sealed(Path(self._index_path))
        version, stamp, overloads = pickle.loads(content) if content else (None, None, {})
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        write_sealed(Path(self._index_path), self._dump((self._version, self._source_stamp, overloads)))

    def _load_data(self, name: str) -> Any:
        content = read_sealed(Path(self._data_path(name)))
        if content is None:
            raise FileNotFoundError(name)  # Numba takes that for a version that was not kept
        return pickle.loads(content)

    def _save_data(self, name: str, data: Any) -> None:
        write_sealed(Path(self._data_path(name)), self._dump(data))


class KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, in our folder. Where nothing more can be kept, all works without."""

    _impl_class = _Implementation
    full = False  # of all functions: the disk

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = CacheFile(self._cache_path, self._impl.filename_base, stamp)

    def save_overload(self, sig: Any, data: Any) -> None:
        if KernelCache.full:
            return
        try:
            super().save_overload(sig, data)
        except OSError as error:
            KernelCache.full = True
            warnings.warn(
                f"compiled kernels cannot be kept in {KEPT_IN} ({error.strerror or error}); all works without, but the "
                "next start compiles again; make room there, or set SAMEBITS_CACHE_DIR to another folder",
                CacheWarning,
                stacklevel=2,
            )
