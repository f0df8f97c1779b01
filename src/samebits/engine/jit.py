"""The one decorator for compiled functions, and where their machine code is kept.

Numba's disk cache does not notice a changed callee in another file, so the cache folder is keyed by a hash of the
sources: a changed kernel can never be mixed with a stale one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba
from numba.core.codegen import get_host_cpu_features

KEPT_CACHES = 3

PACKAGE = Path(__file__).resolve().parents[1]
F = TypeVar("F", bound=Callable[..., Any])


def source_hash() -> str:
    """A hash over the sources that compiled functions, or the constants compiled into them, may come from."""
    digest = hashlib.sha256()
    for part in ("engine", "families", "distance", "bench"):
        for path in sorted((PACKAGE / part).rglob("*.py")):
            digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
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
numba.config.CACHE_DIR = str(KEPT_IN or tempfile.mkdtemp(prefix="samebits-kernels-"))
# LLVM halves 512-bit vectors unless told otherwise; kernels that ask for them mean it (docs/LOG.md).
_GIVEN = numba.config.CPU_FEATURES  # another CPU to compile for, in tests
WIDE_VECTORS = "+avx512f" in _GIVEN if _GIVEN is not None else bool(llvm.get_host_cpu_features().get("avx512f"))
if WIDE_VECTORS and numba.config.CPU_FEATURES is None:
    numba.config.CPU_FEATURES = get_host_cpu_features() + ",-prefer-256-bit"


def kernel(function: F) -> F:
    """Compile a function: no GIL, cached on disk, inlined into kernels that call it.

    No fast-math: every number is the chain of IEEE operations that the source says, on every CPU. Where a multiply and
    an add shall be one operation, the source says `fused`; where a sum shall be vectors, `total`, `dot` (vectors.py).
    """
    return numba.njit(nogil=True, cache=True, fastmath=False, error_model="numpy", forceinline=True)(function)


def routine(function: F) -> F:
    """A kernel that is called, not inlined. Only where every number is one fixed chain of operations, whatever the
    optimiser does around it; sums that may be reordered belong into a `kernel`."""
    return numba.njit(nogil=True, cache=True, fastmath=False, error_model="numpy", forceinline=False)(function)


def fragment(function: F) -> F:
    """A large piece of a kernel: pasted into its callers as source, so that it is not compiled by itself as well."""
    return numba.njit(nogil=True, inline="always")(function)
