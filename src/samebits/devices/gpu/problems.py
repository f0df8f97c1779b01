"""What an exception of CuPy or PyOpenCL means for whoever asked for the device."""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from pathlib import Path

from samebits.compiler.cache_folder import cache_bases
from samebits.errors import DeviceError, DeviceMemoryError, SamebitsError
from samebits.printing import shown

PACKAGES = ("cupy", "cupy_backends", "pyopencl")
LOG = "gpu-compiler.log"
FULL = ("outofmemory", "out of memory", "memoryallocation", "mem_object_allocation_failure", "out_of_host_memory",
        "invalid_buffer_size")  # fmt: skip
NO_COMPILER = re.compile("libnvrtc|nvrtc64", re.IGNORECASE)
UNCOMPILED = ("compileexception", "nvrtc", "build_program_failure", "clbuildprogram")


def explained(error: Exception, name: str) -> SamebitsError | None:
    """In our words; None for an exception that is not a device's."""
    told = f"{type(error).__name__}: {error}"
    if isinstance(error, RuntimeError) and NO_COMPILER.search(told):  # of CuPy's helpers, or of Python's own kind
        return DeviceError(
            f"CuPy does not find NVRTC, the compiler of kernels for {name}; pip install 'samebits[cuda]' brings it, "
            "and so does NVIDIA's toolkit; use --device cpu meanwhile"
        )
    if type(error).__module__.partition(".")[0] not in PACKAGES:
        return None
    if any(word in told.lower() for word in UNCOMPILED):
        return DeviceError(
            f"a kernel does not compile for {name}; what its compiler says is in {keep_log(told)}; use --device cpu, "
            "or another driver"
        )
    if any(word in told.lower() for word in FULL):
        return DeviceMemoryError(f"{name} has too little memory for this")
    first = next(iter(str(error).strip().splitlines()), "")
    return DeviceError(f"{name} stopped working ({shown(f'{type(error).__name__}: {first}')})")


def keep_log(text: str) -> Path:
    """Where a compiler's log is, from now on."""
    for folder in cache_bases():
        with suppress(OSError):
            (folder / LOG).write_text(text, encoding="utf-8", errors="backslashreplace")
            return folder / LOG
    with tempfile.NamedTemporaryFile("w", prefix="samebits-", suffix=f"-{LOG}", delete=False) as file:
        file.write(text)
    return Path(file.name)
