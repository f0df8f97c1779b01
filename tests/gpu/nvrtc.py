"""NVIDIA's compiler, which needs no GPU."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

FUNCTION = re.compile(r"Function properties for (\w+)\s+ptxas\W+\d+ bytes stack frame, (\d+) bytes spill stores")


@dataclass
class Compiled:
    good: bool
    log: str

    @property
    def spills(self) -> dict[str, int]:
        """Bytes of registers that a kernel puts into memory for want of room."""
        return {name: int(count) for name, count in FUNCTION.findall(self.log)}


@cache
def library() -> Any:
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return ctypes.CDLL(load_nvidia_dynamic_lib("nvrtc").abs_path)


def compiled(text: str, chip: str, options: tuple[str, ...]) -> Compiled:
    nvrtc, program, size = library(), ctypes.c_void_p(), ctypes.c_size_t()
    words = [*options, f"-arch={chip}", "--ptxas-options=-v"]
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"program.cu", 0, None, None)
    given = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    failed = nvrtc.nvrtcCompileProgram(program, len(words), given)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return Compiled(not failed, log.value.decode())
