"""Texts in CUDA C++, compiled for the CPU, and their kernels."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from samebits.devices.gpu.dialect import CUDA, kernels_of

from . import cuda

HEADER = Path(__file__).parents[1] / "threads.h"
CACHE = Path(__file__).parents[4] / ".pytest_cache/stand-in"
OPTIONS = (
    "-std=c++17", "-O1", "-march=native", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-gnu-unique",
    "-fvisibility=hidden", "-fPIC", "-shared", "-w", "-U_FORTIFY_SOURCE",
)  # fmt: skip
ROOM = re.compile(r"extern __shared__ float4 (\w+)\[\];")
OTHER_WORDS = """
#undef SEND_FOUR
#undef FETCH_FOUR
#undef END_OF_LOT
#undef WAIT_FOR_LOT
#undef ANEW
#define SEND_FOUR(to, from) stand_in::send(to, from)
#define FETCH_FOUR(to, from) ((to) = *(const float4*)(from))
#define END_OF_LOT stand_in::end_of_lot()
#define WAIT_FOR_LOT(later) stand_in::wait_for_lot(later)
#define ANEW(x)
"""  # those that are instructions of NVIDIA's


class CompileError(Exception):
    """What CuPy calls CompileException."""


CompileError.__name__, CompileError.__module__ = "CompileException", "cupy.cuda.compiler"


def compiled(text: str) -> ctypes.CDLL:
    names = kernels_of(text)
    text = ROOM.sub(r"float4* \1 = (float4*)stand_in::room;", text.replace(CUDA, CUDA + OTHER_WORDS))
    whole = "\n".join([HEADER.read_text(), text, *(f"START({name})" for name in names)])
    path = CACHE / f"{hashlib.sha256(whole.encode()).hexdigest()[:32]}.so"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            source, made = Path(folder) / "program.cc", Path(folder) / "program.so"
            source.write_text(whole)
            words = [os.environ.get("CXX", "c++"), *OPTIONS, "-o", made, source]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                raise CompileError(done.stderr)
            made.replace(path)
    return ctypes.CDLL(str(path))


class RawModule:
    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        assert {"--fmad=false", "-ftz=true", "-prec-div=true", "-prec-sqrt=true"} <= set(options)
        self._library = compiled(code)

    def get_function(self, name: str) -> Kernel:
        found = self._library[f"start_{name}"]
        found.restype = ctypes.c_char_p
        return Kernel(name, found)


class Kernel:
    def __init__(self, name: str, function: Any) -> None:
        self.name, self._function = name, function
        self.max_dynamic_shared_size_bytes = 48 << 10

    def __call__(self, grid: tuple[int, int], block: tuple[int], args: tuple[Any, ...], shared_mem: int = 0) -> None:
        for value in args:  # what CuPy takes: numbers, and arrays of one record
            assert isinstance(value, np.generic) or (value.shape == (1,) and value.dtype.names)
        if shared_mem > self.max_dynamic_shared_size_bytes or shared_mem > cuda.Device(0).room or 0 in (*grid, *block):
            raise cuda.Error(f"CUDA_ERROR_INVALID_VALUE: {self.name} {grid} {block} {shared_mem}")
        values = [np.array(value) for value in args]  # CUDA copies arguments, too
        cuda.current().add(lambda: self._run(grid, block[0], values))

    def _run(self, grid: tuple[int, int], threads: int, values: list[Any]) -> None:
        given = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        problem = self._function(given, *grid, threads, cuda.CHOICE.threads)
        if problem:
            raise cuda.Error(f"{self.name}, {grid} groups of {threads}: {problem.decode()}")
