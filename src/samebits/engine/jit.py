"""The decorators for compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

from samebits.engine.kernel_cache import KEPT_IN, KernelCache

F = TypeVar("F", bound=Callable[..., Any])

# Another CPU to compile for may be named in the environment, as tests do.
_FEATURES = numba.config.CPU_FEATURES
WIDE_VECTORS = "+avx512f" in _FEATURES if _FEATURES is not None else bool(llvm.get_host_cpu_features().get("avx512f"))


class _WideLower(Lower):  # type: ignore[misc]  # numba has no types
    """LLVM halves 512-bit vectors unless told otherwise; kernels that ask for them mean it (docs/LOG.md)."""

    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        set.add(
            self.function.attributes, '"prefer-vector-width"="512"'
        )  # llvmlite knows only attributes without values


@register_pass(mutates_CFG=True, analysis_only=False)
class _WideLowering(NativeLowering):  # type: ignore[misc]
    _name = "samebits_wide_lowering"
    lowering_class = _WideLower


class _KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's own passes, with our lowering: what is said of our functions is said of no others in the program."""

    def define_pipelines(self) -> list[PassManager]:
        builder, passes = DefaultPassBuilder, PassManager("samebits")
        for part in (
            builder.define_untyped_pipeline(self.state),
            builder.define_typed_pipeline(self.state),
            builder.define_nopython_lowering_pipeline(self.state),
        ):
            passes.passes += [(_WideLowering if step is NativeLowering else step, told) for step, told in part.passes]
        passes.finalize()
        return [passes]


def _compiled(function: F, forceinline: bool) -> F:
    if numba.config.DISABLE_JIT:
        return function
    options: dict[str, Any] = {"pipeline_class": _KernelCompiler} if WIDE_VECTORS else {}
    found = numba.njit(nogil=True, error_model="numpy", forceinline=forceinline, **options)(function)
    if KEPT_IN is not None:
        found._cache = KernelCache(function)
    compiled: F = found
    return compiled


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
