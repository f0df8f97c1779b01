"""Where machine code is kept, in a folder of ours: the caches of other users of Numba in the same program are theirs.

Numba's disk cache does not notice a changed callee in another file, so the folder is keyed by a hash of all sources
that compiled functions can be made from, of ours and of every package that brings a family: a changed kernel can never
be mixed with a stale one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from numba.core import caching

from samebits.compiler.cache_folder import cache_bases, drop_old, hold, own_folder, read_sealed, write_sealed

KEPT_CACHES = 3
KERNELS = "kernels-[0-9a-f]{16}"  # names of our folders
PACKAGE = Path(__file__).resolve().parents[1]
HAS_COMPILED = re.compile(r"^\s*@(kernel|routine|fragment|wrapping|intrinsic)\b", re.MULTILINE)
IMPORT = re.compile(r"^[^\S\n]*(from|import) +(?P<module>[\w.]+)( +import +(?P<names>\([^)]*\)|.*))?", re.MULTILINE)
# What can change a bit of a run; what prints, serves, draws or measures cannot.
DECIDES_BITS = frozenset(
    ["arithmetic", "compiler", "config.py", "devices", "distance", "families", "groups", "runs", "training"]
)
SOURCES = (".py", ".cl")
ONLY_MEASURES = ("peer_", "measure_")
# … of a family: what judges it, and what is done with a model that is trained.
ONLY_USES = frozenset(
    [
        *("reference", "verbs", "options", "serving", "hugging_face", "load_in_pytorch", "experiments"),
        *("circuit_report", "export", "on_fpga", "page", "proving", "sizes", "specification"),
    ]
)
CALLED, ENTERED, PART = "called", "entered", "part"  # forms of a compiled function (compiled.py)
FAMILIES = "samebits.families"  # the entry points by which a package brings a family


def sources(package: Path = PACKAGE) -> Iterator[tuple[str, Path]]:
    """(name, file) of all sources that can change a bit: ours, and those of packages that bring a family.

    Text of GPU kernels is among them. What only measures (bench/, peers of a family), judges, or uses a trained model
    is not.
    """
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package)
        if name.parts[0] not in DECIDES_BITS or path.suffix not in SOURCES:
            continue
        of_a_family = name.parts[0] == "families"
        if not (of_a_family and (path.stem.startswith(ONLY_MEASURES) or path.stem in ONLY_USES)):
            yield name.as_posix(), path
    yield from outside_sources()


def outside_sources() -> Iterator[tuple[str, Path]]:
    for name in sorted({entry.module.partition(".")[0] for entry in entry_points(group=FAMILIES)}):
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder).rglob("*")):
                if path.suffix in SOURCES:
                    yield f"{name}:{path.relative_to(folder).as_posix()}", path
        if spec and spec.origin and spec.submodule_search_locations is None:  # a module, not a package
            yield f"{name}.py", Path(spec.origin)


def kernel_sources(package: Path = PACKAGE) -> Iterator[tuple[str, Path]]:
    """(name, file) of what compiled functions, or the constants compiled into them, may come from.

    The modules that have any, and all that these import, and so on. What only trains, prints or draws is not among
    them: a change there leaves machine code as it is.
    """
    files = {_module(path.relative_to(package), package.name): path for path in package.rglob("*.py")}
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    wanted = [name for name, text in texts.items() if HAS_COMPILED.search(text)]
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            wanted += _imported(texts[name], files, package.name)
    for name in sorted(found):
        yield name, files[name]


def _module(path: Path, package: str) -> str:
    parts = path.with_suffix("").parts
    return ".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))


def _imported(text: str, files: Mapping[str, Path], package: str) -> Iterator[str]:
    """The modules among `files` that a source imports, anywhere in it. The package's own list of names is all of it."""
    for statement in IMPORT.finditer(text):
        module, names = statement["module"], re.findall(r"\w+", statement["names"] or "")
        inside = [f"{module}.{name}" for name in names]
        if module != package:
            yield from (name for name in (module, *inside) if name in files)
        else:
            yield from inside if inside and all(name in files for name in inside) else files


def source_hash(package: Path = PACKAGE) -> str:
    """Of everything that decides a bit: what processes of a group must have in common."""
    return _hash(sources(package))


def kernel_hash() -> str:
    """Of everything that machine code is made from."""
    return _hash([*kernel_sources(), *outside_sources()])


def _hash(files: Iterable[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path | None:
    """A folder that keeps this version's machine code; None where none can be written."""
    for base in cache_bases():
        folder = own_folder(base, f"kernels-{kernel_hash()}")
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


class Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
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

    _impl_class = Implementation
    full = False  # of all functions: the disk
    ask: ClassVar[Callable[[Any, str, Any], None] | None] = None  # has somebody else compile it (aside.py)

    def __init__(self, py_func: Any, form: str) -> None:
        super().__init__(py_func)
        self.form = form
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = CacheFile(self._cache_path, f"{self._impl.filename_base}.{form}", stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None and KernelCache.ask is not None and self.form != PART:
            KernelCache.ask(self._py_func, self.form, sig)
            found = super().load_overload(sig, target_context)
        return found

    def keeps(self, kinds: tuple[Any, ...], target_context: Any) -> bool:
        """Whether it is there, as far as the index knows."""
        target_context.refresh()
        return self._index_key(kinds, target_context.codegen()) in self._cache_file._load_index()

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
