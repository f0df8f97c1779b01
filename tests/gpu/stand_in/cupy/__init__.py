"""Stands in for CuPy where there is no NVIDIA GPU: as much of it as samebits uses, over a CPU that plays one.

Kernels are the texts that NVRTC would get, compiled by the system's C++ compiler (../threads.h). Streams keep what they
are given until somebody waits; where two of them may run in any order, `choice` says which goes first. Memory is never
as clean as one would like: what is allocated is full of NaNs, and has a fence on both sides.
"""

from __future__ import annotations

from . import cuda
from .programs import RawModule

__all__ = ["RawModule", "cuda", "get_default_memory_pool"]


def get_default_memory_pool() -> cuda.Pool:
    return cuda.POOL
