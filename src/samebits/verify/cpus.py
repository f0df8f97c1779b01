"""The same training compiled for other types of CPU: what they would compute, computed here.

A child process is told what CPU to compile for (Numba's CPU name and features, NumPy's own dispatch limited too) and
has a cache of its own. A type whose instructions this machine lacks cannot be tried here, and is said.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding as llvm
import numpy as np

from samebits import api
from samebits.compiler.cache_folder import cache_bases
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError, nearest
from samebits.families import discover
from samebits.training.trainer import resolve
from samebits.verify.bits import trained_hashes
from samebits.verify.canary import canary, names

_AVX512 = ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")
# name LLVM knows → features that its kernels use beyond AVX2 and FMA, which all have
TYPES: dict[str, tuple[str, ...]] = {
    "haswell": (),
    "znver2": (),
    "x86-64-v3": (),
    "skylake-avx512": _AVX512,
    "icelake-server": (*_AVX512, "avx512vbmi", "avx512vnni"),
    "znver4": (*_AVX512, "avx512vbmi", "avx512vnni", "avx512bf16"),
}
WORKERS = 2


class Case(NamedTuple):
    """A training: a task's preset for some steps. No preset: its canary, or that of a kernel."""

    name: str
    preset: str = ""
    steps: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.preset}, {self.steps} steps" if self.preset else f"canary of {self.name}"


def every_case() -> list[Case]:
    """Every task small, one of each family at full size, every canary."""
    families = discover().values()
    tasks = [task for family in families for task in family.tasks]
    full = [Case(next(iter(family.tasks)), "full", 3) for family in families]
    return [*(Case(task, "small", 30) for task in tasks), *full, *(Case(name) for name in names())]


def usable(types: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of the types that this machine can run, and those that it cannot."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        raise SamebitsError(f"--cpus compiles for types of x86-64; this machine is {platform.machine()}; leave it out")
    for name in types:
        if name not in TYPES:
            raise SamebitsError(f"there is no CPU type {name!r} here; {nearest(name, TYPES)}")
    host = llvm.get_host_cpu_features()
    can = [name for name in types if all(host.get(feature) for feature in ("avx2", "fma", *TYPES[name]))]
    return can, [name for name in types if name not in can]


def start(cpu: str, cases: Sequence[Case]) -> subprocess.Popen[str]:
    """A child that computes the cases as this type of CPU would; it prints a hash a line, in their order."""
    base = next(iter(cache_bases()), None)
    env = {
        **os.environ,
        "NUMBA_CPU_NAME": cpu,
        "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in TYPES[cpu]),
        **({"SAMEBITS_CACHE_DIR": str(Path(base) / f"cpu-{cpu}")} if base else {}),
    }
    if not TYPES[cpu]:
        # NumPy is asked for the names: its versions have others, and one that it does not know is passed over.
        found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
        wide = [name for name in found if name.startswith("AVX512") or name == "X86_V4"]
        env["NPY_DISABLE_CPU_FEATURES"] = " ".join(wide)
    command = [sys.executable, "-m", "samebits.verify.cpus", json.dumps(cases)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def collect(child: subprocess.Popen[str]) -> list[str]:
    out, err = child.communicate()
    if child.returncode:
        raise SamebitsError(f"the child process failed: {err.strip().splitlines()[-1] if err.strip() else 'no word'}")
    return [line.removeprefix("hash ") for line in out.splitlines() if line.startswith("hash ")]


def computed(case: Case) -> str:
    """The hash of a case, as this process was compiled."""
    if not case.preset:
        return canary(case.name)
    family, _, config = api.configure(case.name, case.preset, {})
    config = type(config).model_validate({**config.model_dump(), **family.canary})
    with Workers(WORKERS) as team:
        weights, metrics = trained_hashes(family, resolve(family, config), team, case.steps)
    return f"{weights[:32]}{metrics[:32]}"


if __name__ == "__main__":
    for item in json.loads(sys.argv[1]):
        print("hash", computed(Case(*item)), flush=True)
