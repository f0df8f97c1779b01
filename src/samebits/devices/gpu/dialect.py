"""Kernels in a small language that is CUDA C++ and OpenCL C at once.

A source is written with the words of the headers below: KERNEL, GLOBAL, SHARED, DEVICE, GROUP, LANE, BARRIER, FMA … 32
lanes in a row are a warp; only CUDA can look ACROSS it, so sums over lanes are written twice (lanes.cl), in one order.

An array that a kernel is given may begin anywhere in its memory. CUDA adds that up on the host; OpenCL hands out whole
buffers, so there every pointer gets a number beside it, which is added in front of the body. A kernel's parameters, by
which its arguments are converted, are read off the same line; one may be a record of numbers, all of 32 bits or all of
64, declared as `typedef struct {…} Name;`, by value. A last one, ROOM name, is a group's memory on the chip,
as much as is asked for where the kernel is posted. ALIKE(threads, groups) in front of a kernel says that all its groups
have so many threads, and how many of them a processor should find room for. SEND_FOUR copies a float4 to shared memory
without waiting for it, where that can be done: what is sent until END_OF_LOT is a lot, WAIT_FOR_LOT(n) waits for all
but the n latest. FETCH_FOUR loads a float4 here and now, where compilers would wait until it is used. ANEW(x): what
follows from the integer x is worked out from here on, not before, where it would take registers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array

KERNEL = re.compile(r"KERNEL (ALIKE\(.*?\) )?void (\w+|OF_TILE\(\w+\))\(([^)]*?)(?:, ROOM (\w+))?\) \{")
TILE = re.compile(r"#define TILE (\w+)")
RECORD = re.compile(r"typedef struct \{([^{}]*)\} (\w+);")
MOST_THREADS = 256  # of a group, unless a program says more
Part = str | tuple[Any, ...]  # a path; or a path and (word, value) …, macros that are defined for this text alone
TYPES = {"int": "int32", "long": "int64", "float": "float32", "double": "float64"}

CUDA = """
typedef unsigned char uchar; typedef unsigned int u32; typedef unsigned long long u64; typedef long long i64;
#define long i64  // 64 bits, on Windows too
#define KERNEL extern "C" __global__
#define ALIKE __launch_bounds__
#define DEVICE __device__ __forceinline__
#define GLOBAL
#define SHARED __shared__
#define LOCAL
#define CONSTANT __device__ const
#define GROUP ((int)blockIdx.x)
#define GROUP_Y ((int)blockIdx.y)
#define GROUPS ((int)gridDim.x)
#define LANE ((int)threadIdx.x)
#define GROUP_SIZE ((int)blockDim.x)
#define BARRIER __syncthreads()
#define FMA __fmaf_rn
#define FMA64 __fma_rn
#define SQRT __fsqrt_rn
#define SQRT64 __dsqrt_rn
#define DIVIDE __fdiv_rn
#define FLOOR floorf
#define FLOAT_OF __int_as_float
#define DOUBLE_OF __longlong_as_double
#define BITS_OF __float_as_int
#define BITS64_OF __double_as_longlong
#define IS_FINITE(x) (isfinite(x) != 0)
#define HIGH __umul64hi
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define CUDA
#define UNROLL _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")
#define NO_UNROLL _Pragma("unroll 1")
#define IN_FOURS(x, stride) (((stride) & 3) == 0 && ((u64)(x) & 15) == 0)  // float4s can be read
#define ON_CHIP(to) "r"((u32)__cvta_generic_to_shared(to))
#define INTO(to) "=f"((to).x), "=f"((to).y), "=f"((to).z), "=f"((to).w)
#define FETCH_FOUR(to, from) \\
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : INTO(to) : "l"(from) : "memory")
#if __CUDA_ARCH__ >= 800
#define SEND_FOUR(to, from) \\
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::ON_CHIP(to), "l"(from) : "memory")
#define END_OF_LOT asm volatile("cp.async.commit_group;")
#define WAIT_FOR_LOT(later) asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory")
#else
#define SEND_FOUR(to, from) (*(float4*)(to) = *(const float4*)(from))
#define END_OF_LOT
#define WAIT_FOR_LOT(later)
#endif
#define ANEW(x) asm volatile("" : "+r"(x))
#define ACROSS(x, distance) __shfl_xor_sync(0xffffffffu, x, distance)
"""

OPENCL = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
typedef uint u32; typedef ulong u64; typedef long i64;
#define KERNEL __kernel
#define ALIKE(threads, groups)
#define DEVICE inline
#define GLOBAL __global
#define SHARED __local
#define LOCAL __local
#define CONSTANT __constant
#define GROUP ((int)get_group_id(0))
#define GROUP_Y ((int)get_group_id(1))
#define GROUPS ((int)get_num_groups(0))
#define LANE ((int)get_local_id(0))
#define GROUP_SIZE ((int)get_local_size(0))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define FMA fma
#define FMA64 fma
#define SQRT sqrt
#define SQRT64 sqrt
#define DIVIDE(x, y) ((x) / (y))
#define FLOOR floor
#define FLOAT_OF as_float
#define DOUBLE_OF as_double
#define BITS_OF as_int
#define BITS64_OF as_long
#define IS_FINITE(x) (isfinite(x) != 0)
#define HIGH mul_hi
#define NO_UNROLL _Pragma("unroll 1")
#define IN_FOURS(x, stride) (((stride) & 3) == 0 && ((u64)(x) & 15) == 0)
#define SEND_FOUR(to, from) (*(__local float4*)(to) = *(__global const float4*)(from))
#define FETCH_FOUR(to, from) ((to) = *(__global const float4*)(from))
#define END_OF_LOT
#define ANEW(x)
#define WAIT_FOR_LOT(later)
"""


class Parameter(NamedTuple):
    name: str
    kind: str  # of NumPy, or the name of a record
    is_array: bool
    is_written: bool = False
    record: np.dtype[np.void] | None = None  # how a record lies in memory


class Source(NamedTuple):
    """What a compiler gets, and how its kernels are called."""

    text: str
    kernels: Mapping[str, tuple[Parameter, ...]]


def records_of(text: str) -> dict[str, np.dtype[np.void]]:
    """Records that kernels may take by value: of numbers that all have the same size, so that no compiler pads them."""
    found = {}
    for fields, name in RECORD.findall(text):
        declared = [part.split(None, 1) for part in fields.split(";") if part.strip()]
        if all(len(part) == 2 and part[0] in TYPES for part in declared):
            members = [(one.strip(), TYPES[kind]) for kind, names in declared for one in names.split(",")]
            if all(one.isidentifier() for one, _ in members) and len({kind[-2:] for _, kind in members}) == 1:
                found[name] = np.dtype(members)
    return found


def parameters(text: str, records: Mapping[str, np.dtype[np.void]] = MappingProxyType({})) -> tuple[Parameter, ...]:
    found = []
    for part in filter(None, map(str.strip, text.split(","))):
        words = part.replace("*", " * ").split()
        plain = [word for word in words if word not in ("GLOBAL", "const", "*")]
        kind, name = plain
        is_array = "*" in words
        if not is_array and kind not in TYPES and kind not in records:
            raise ValueError(f"parameter {part}: {kind} is no number, and no record of numbers of one size")
        record = None if is_array else records.get(kind)
        found.append(Parameter(name, TYPES.get(kind, kind), is_array, is_array and "const" not in words, record))
    return tuple(found)


def kernels_of(text: str) -> dict[str, tuple[Parameter, ...]]:
    """Names and parameters. A kernel that is compiled for several tiles (gemm.cl) has the name of each in its own."""
    records, found, tile = records_of(text), {}, ""
    for match in re.finditer(f"{TILE.pattern}|{KERNEL.pattern}", text):
        if match[1]:
            tile = match[1]
            continue
        name = match[3]
        if name.startswith("OF_TILE"):
            name = f"{name[len('OF_TILE(') : -1]}_{tile}"
        found[name] = parameters(match[4], records)
    return found


def packed(parameter: Parameter, value: Any) -> Array:
    """A record's memory, of a NamedTuple with the same fields."""
    assert parameter.record is not None
    if value._fields != parameter.record.names:
        raise TypeError(f"{parameter.name} is a {parameter.kind} of {parameter.record.names}, not of {value._fields}")
    return np.array([tuple(value)], parameter.record)


def for_cuda(text: str, defines: Mapping[str, Any]) -> Source:
    def with_room(match: re.Match[str]) -> str:
        alike, name, given, room = match.groups()
        inside = f"extern __shared__ float4 {room}[];" if room else ""
        return f"KERNEL {alike or 'ALIKE(MOST_THREADS) '}void {name}({given}) {{ {inside}"

    words = {"MOST_THREADS": MOST_THREADS, **defines}
    return Source(CUDA + _defined(words) + KERNEL.sub(with_room, text), kernels_of(text))


def for_opencl(text: str, defines: Mapping[str, Any], unroll: bool = True) -> Source:
    """Without `unroll`, loops stay loops: a CPU that plays GPU gains nothing by it and compiles for minutes."""

    def with_starts(match: re.Match[str]) -> str:
        alike, name, inside, room = match.groups()
        given = [part.strip() for part in inside.split(",") if part.strip()]
        arrays = [one.name for one in parameters(inside, records) if one.is_array]
        starts = "".join(f", long {name}_start" for name in arrays)
        moved = " ".join(f"{name} += {name}_start;" for name in arrays)
        board = f", __local float4* {room}" if room else ""
        return f"KERNEL {alike or ''}void {name}({', '.join(given)}{starts}{board}) {{ {moved}"

    records = records_of(text)
    words = {"UNROLL": '_Pragma("unroll")', "UNROLL_4": '_Pragma("unroll 4")', **defines}
    if not unroll:
        words |= dict.fromkeys(("UNROLL", "UNROLL_4"), '_Pragma("unroll 1")')
    return Source(OPENCL + _defined(words) + KERNEL.sub(with_starts, text), kernels_of(text))


def _defined(values: Mapping[str, Any]) -> str:
    return "".join(f"#define {name} {value}\n" for name, value in sorted(values.items()))


@cache
def read(*parts: Part) -> str:
    """Files of ours, by their paths in the package, in this order; pairs beside a path are macros, defined for it."""
    root = Path(__file__).parents[2]
    texts = []
    for part in parts:
        name, *words = (part,) if isinstance(part, str) else part
        text = (root / name).read_text(encoding="utf-8")
        ends = "".join(f"#undef {word}\n" for word, _ in words)
        texts.append("".join(f"#define {word} {value}\n" for word, value in words) + text + ends)
    return "\n".join(texts)
