"""The decorators for compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

from samebits.compiler.compiled import Compiled

F = TypeVar("F", bound=Callable[..., Any])


def _compiled(function: F, forceinline: bool) -> F:
    if numba.config.DISABLE_JIT:
        return function
    compiled: Any = Compiled(function, forceinline)
    found: F = compiled
    return found


def kernel(function: F) -> F:
    """Compile a function: no GIL, cached on disk, inlined into kernels that call it.

    No fast-math: every number is the chain of IEEE operations that the source says, on every CPU. Where a multiply and
    an add shall be one operation, the source says `fused`; where a sum shall be vectors, `total`, `dot` (simd.py).
    """
    return _compiled(function, forceinline=True)


def routine(function: F) -> F:
    """A kernel that is called, not inlined: a large one that several call."""
    return _compiled(function, forceinline=False)


def fragment(function: F) -> F:
    """A large piece of a kernel: pasted into its callers as source, so that it is not compiled by itself as well."""
    pasted: F = numba.njit(nogil=True, inline="always")(function)
    return pasted
