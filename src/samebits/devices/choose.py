"""--device: who computes. A device that cannot keep the promise is refused by name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from samebits.checks import refuse
from samebits.devices.cpu.workers import Workers
from samebits.devices.gpu import cuda, opencl
from samebits.devices.gpu.opened import OpenedGpu
from samebits.devices.interface import Device
from samebits.errors import DeviceError
from samebits.printing import shown

NAMED = re.compile(r"(cpu|gpu|cuda|opencl)(?::([0-9]{1,3}))?")
RULE = "cpu, gpu, cuda or opencl, the last two perhaps with a number, as in cuda:1"


def device_for(
    asked: str | Device, workers: int | str | Workers = "auto", inexact: bool = False
) -> AbstractContextManager[Device]:
    """What --device asks for, or the caller's own, left open; `workers` are the CPU's."""
    if isinstance(asked, Workers | OpenedGpu):
        return nullcontext(asked)
    match = NAMED.fullmatch(asked) if isinstance(asked, str) else None
    if match is None or (match[1] in ("cpu", "gpu") and match[2]):
        raise refuse("device", asked, RULE, "use --device cpu")
    team = nullcontext(workers) if isinstance(workers, Workers) else Workers(workers)
    return team if match[1] == "cpu" else open_gpu(match[1], int(match[2]) if match[2] else None, team, inexact)


@contextmanager
def open_gpu(
    kind: str, number: int | None, workers: AbstractContextManager[Workers], inexact: bool
) -> Iterator[OpenedGpu]:
    """The number-th device of a kind, or with None whichever is next, as it is used."""
    backend = backend_of(kind, number)
    with workers as team:
        device = OpenedGpu(backend, team)
        try:
            device.probe()
            if device.lacks and not inexact:
                raise DeviceError(
                    f"{device.name} cannot keep the promise: {', '.join(device.lacks)} "
                    f"{'is' if len(device.lacks) == 1 else 'are'} not as on the CPU; use --device cpu, or --inexact to "
                    "use it all the same"
                )
            yield device
            device.join()
        except Exception as error:
            told = device.problem(error)
            if told is None:
                raise
            raise told from error


def backend_of(kind: str, number: int | None) -> Any:
    """The number-th device of a kind; without a number, the first there is, or of several processes on this machine to
    each the next. `gpu` prefers NVIDIA's own way."""
    turn = int(place) if (place := os.environ.get("LOCAL_RANK", "0")).isdecimal() and len(place) < 6 else 0
    if kind == "gpu":
        if many := cuda.count():
            return cuda.Cuda(turn % many)
        found = [device for device in opencl.there() if opencl.is_gpu(device)]
        if not found:
            raise DeviceError(
                "no GPU was found; it takes a driver, and CuPy (pip install 'samebits[cuda]') or PyOpenCL "
                "(pip install 'samebits[opencl]'); use --device cpu"
            )
        return _opencl(found[turn % len(found)])
    if kind == "cuda":
        cuda.package()
        return cuda.Cuda(_checked(kind, number, turn, *cuda.found()))
    found = opencl.devices()
    return _opencl(found[_checked(kind, number, turn, len(found))])


def _opencl(device: Any) -> opencl.OpenCL:
    if not device.double_fp_config:
        raise DeviceError(
            f"{str(device.name).strip()} has no float64 numbers, and sums of losses need them; use --device cpu"
        )
    return opencl.OpenCL(device)


def _checked(kind: str, number: int | None, turn: int, many: int, because: str = "") -> int:
    if many == 0 or (number is not None and number >= many):
        have = f"{many} {kind} device{'s' if many != 1 else ''}" + (f" ({shown(because)})" if because else "")
        raise DeviceError(
            f"device is {kind}:{number or 0}; this machine has {have}; samebits doctor lists them; use --device cpu"
        )
    return turn % many if number is None else number


def every_gpu() -> list[tuple[str, int]]:
    """Kind and number, as --device takes them, of what this machine has beside the CPU."""
    return [
        *(("cuda", number) for number in range(cuda.count())),
        *(("opencl", number) for number in range(len(opencl.there()))),
    ]
