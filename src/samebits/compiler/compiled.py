"""Functions compiled by Numba, each in the forms that are needed and no other: most of a first start is compiling.

A function may be called from Python, entered by workers at its address (dispatch.py), or be a part of other compiled
functions. Numba would compile all of that at once: machine code even of what is only ever inlined, and with it two
wrappers, each with a copy of the whole function inlined. Here every use is a form of its own, compiled when it is asked
for, and kept on disk as such.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import compiler
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.environment import lookup_environment
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering

from samebits.compiler import compile_workers as aside
from samebits.compiler.kernel_cache import CALLED, ENTERED, KEPT_IN, PART, Implementation, KernelCache

# Another CPU to compile for may be named in the environment, as tests do.
_FEATURES = numba.config.CPU_FEATURES
WIDE_VECTORS = "+avx512f" in _FEATURES if _FEATURES is not None else bool(llvm.get_host_cpu_features().get("avx512f"))
KernelCache.ask = staticmethod(aside.ask)
ENVIRONMENT = "_ZN08NumbaEnv"  # how the names of Numba's environments begin


class _WideLower(Lower):  # type: ignore[misc]  # numba has no types
    """LLVM halves 512-bit vectors unless told otherwise; kernels that ask for them mean it (docs/LOG.md)."""

    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        set.add(
            self.function.attributes, '"prefer-vector-width"="512"'
        )  # llvmlite knows only attributes without values


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):  # type: ignore[misc]
    _name = "samebits_lowering"
    lowering_class = _WideLower if WIDE_VECTORS else Lower

    def run_pass(self, state: Any) -> bool:
        super().run_pass(state)
        # Parts have no machine code of their own, so theirs are set where they are used.
        for variable in state.library._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith(ENVIRONMENT) else None
            if environment is not None:
                state.library.codegen.set_env(variable.name, environment)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):  # type: ignore[misc]
    _name = "samebits_part_lowering"
    lowering_class = _WideLower if WIDE_VECTORS else Lower

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        state.reload_init.extend(state.library._reload_init)
        lowered, key = state["cr"], object()  # what others know it by, where Numba takes the function for Python
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=key)
        return True


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """To be linked into others, and never made machine code.

    Optimised is what calls no other part: inner loops become vectors before they are inlined. The rest is optimised
    where it is used, once, and not again at every level above it.
    """

    def _optimize_final_module(self) -> None:
        if not any(isinstance(library, _PartLibrary) for library in self._linking_libraries):
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


def _compiler(lowering: type[NativeLowering]) -> type[CompilerBase]:
    class KernelCompiler(CompilerBase):  # type: ignore[misc]
        """Numba's own passes, with our lowering: what is said of our functions is said of no others in the program."""

        def define_pipelines(self) -> list[PassManager]:
            builder, passes = DefaultPassBuilder, PassManager("samebits")
            for part in (
                builder.define_untyped_pipeline(self.state),
                builder.define_typed_pipeline(self.state),
                builder.define_nopython_lowering_pipeline(self.state),
            ):
                passes.passes += [(lowering if step is NativeLowering else step, told) for step, told in part.passes]
            passes.finalize()
            return [passes]

    return KernelCompiler


_COMPILER, _PART_COMPILER = _compiler(_Lowering), _compiler(_PartLowering)
_OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


class _KeptPart(Implementation):
    """Parts are kept as LLVM's bitcode."""

    def reduce(self, found: Any) -> tuple[Any, ...]:
        description, library = found.fndesc, found.library
        description.typemap = description.calltypes = None  # not needed, and may not be picklable
        bitcode = library._get_module_for_linking().as_bitcode()
        return library.name, bitcode, description, found.environment, found.signature, found.reload_init

    def rebuild(self, context: Any, kept: tuple[Any, ...]) -> Any:
        name, bitcode, description, environment, signature, reload_init = kept
        for function in reload_init:
            function()
        library = _PartLibrary(context.codegen(), name)
        library._final_module = llvm.parse_bitcode(bitcode)
        library._finalize_final_module()
        return compiler.compile_result(
            typing_context=context.typing_context, target_context=context, library=library, fndesc=description,
            entry_point=object(), environment=environment, signature=signature, objectmode=False, lifted=(),
            reload_init=reload_init,
        )  # fmt: skip


class _PartCache(KernelCache):
    _impl_class = _KeptPart


class _Part(CPUDispatcher):  # type: ignore[misc]
    """A function as a part of others."""

    def __init__(self, function: Callable[..., Any], forceinline: bool) -> None:
        options = _OPTIONS | {"no_cpython_wrapper": True, "forceinline": forceinline}
        super().__init__(function, targetoptions=options, pipeline_class=_PART_COMPILER)
        if KEPT_IN is not None:
            self._cache = _PartCache(function, PART)

    def add_overload(self, found: Any) -> None:
        self.overloads[tuple(found.signature.args)] = found


class _Entered(CPUDispatcher):  # type: ignore[misc]
    """A function that workers enter at its address."""

    def __init__(self, function: Callable[..., Any]) -> None:
        options = _OPTIONS | {"no_cpython_wrapper": True}
        super().__init__(function, targetoptions=options, pipeline_class=_COMPILER)
        if KEPT_IN is not None:
            self._cache = KernelCache(function, ENTERED)


class Compiled(CPUDispatcher):  # type: ignore[misc]
    """A function as Python calls it, and its other forms."""

    def __init__(self, function: Callable[..., Any], forceinline: bool) -> None:
        super().__init__(function, targetoptions=dict(_OPTIONS), pipeline_class=_COMPILER)
        self.part = _Part(function, forceinline)
        if KEPT_IN is not None:
            self._cache = KernelCache(function, CALLED)

    def other(self, form: str) -> CPUDispatcher:
        """The form of it that is called or entered."""
        if form == CALLED:
            return self
        if "_entered" not in self.__dict__:
            self._entered = _Entered(self.py_func)
        return self._entered

    def entered(self, kinds: tuple[Any, ...]) -> tuple[Any, int]:
        """Its signature for arguments of these types, and its address."""
        form = self.other(ENTERED)
        form.compile(kinds)
        found = form.overloads[kinds]
        return found.signature, found.library.get_pointer_to_function(found.fndesc.llvm_func_name)

    # What the compiler asks when another compiled function calls this one:

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return self.part.get_call_template(args, kws)

    def get_overload(self, signature: Any) -> Any:
        return self.part.get_overload(signature)
