"""Names of devices, the place of a process that picks one, and exceptions that devices might raise."""

from __future__ import annotations

import os
import random
from pathlib import Path
from unittest.mock import patch

from samebits.devices.choose import backend_of, device_for
from samebits.devices.gpu.problems import explained
from samebits.errors import SamebitsError
from tests.fuzz.bases import Bases
from tests.fuzz.judge import attempt
from tests.fuzz.kinds import BrokenRuleError, Outcome, kind
from tests.fuzz.values import argument_text, odd_number

NAMES = ("cpu", "gpu", "cuda", "opencl", "cuda:0", "opencl:0", "opencl:1", "metal")
PLACES = ("0", "1", "7", "-1", "", "x", "9" * 5000, "٣")
SAID = (
    "clCreateBuffer failed: MEM_OBJECT_ALLOCATION_FAILURE", "cudaErrorMemoryAllocation: out of memory", "",
    "clBuildProgram failed: BUILD_PROGRAM_FAILURE", "cudaErrorIllegalAddress", "\n\n",
)  # fmt: skip


def name(draw: random.Random) -> object:
    """A device's, one of a few letters changed, or something else altogether."""
    sort, found = draw.random(), draw.choice(NAMES)
    if sort < 0.3:
        return found
    if sort < 0.7:
        at = draw.randrange(len(found) + 1)
        return found[:at] + draw.choice((":", "1", " ", "\0", "A", "٣", "-", "")) + found[at + draw.randrange(2) :]
    return draw.choice((argument_text(draw), odd_number(draw), None, [], b"cpu", "opencl:" + "9" * 4000))


@kind("devices", 0.5)
def devices(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    if draw.random() < 0.3:
        return _exception(draw, place)
    if draw.random() < 0.5:
        which, number = draw.choice(("gpu", "cuda", "opencl")), draw.choice((None, 0, 1, 99, 10**9))
        with patch.dict(os.environ, {"LOCAL_RANK": draw.choice(PLACES)}):
            return attempt(f"backend_of({which!r}, {number})", [], lambda: backend_of(which, number))
    asked = name(draw)
    return attempt(f"device_for({asked!r})", [], lambda: device_for(asked, 1))  # type: ignore[arg-type]


def _exception(draw: random.Random, place: Path) -> Outcome:
    """What comes out of a device is told in one line; what does not is not ours to tell."""
    module = draw.choice(("pyopencl._cl", "cupy.cuda.memory", "cupy_backends.cuda.api.runtime", "numpy", "cupyx"))
    kinds = "RuntimeError", "MemoryError", "OutOfMemoryError", "CompileException", "CUDARuntimeError"
    made = type(draw.choice(kinds), (Exception,), {"__module__": module})
    error = made(draw.choice(SAID) + draw.choice(("", argument_text(draw))))
    with patch.dict(os.environ, {"SAMEBITS_CACHE_DIR": str(place)}):
        found = explained(error, argument_text(draw))
    theirs = module.partition(".")[0] in ("pyopencl", "cupy", "cupy_backends")
    if theirs != isinstance(found, SamebitsError) or (found is not None and not str(found).isprintable()):
        raise BrokenRuleError("a device's exception is told in a line", "explained", f"{error!r}: {found!r}")
    return Outcome(1, 0, str(found))
