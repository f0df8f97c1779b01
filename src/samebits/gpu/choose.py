"""--device: who computes. A device that cannot keep the promise is refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from samebits.checks import refuse
from samebits.engine.device import Device
from samebits.engine.workers import Workers
from samebits.errors import SamebitsError
from samebits.gpu import cuda, opencl
from samebits.gpu.device import Gpu
from samebits.gpu.probe import promises

NAMED = re.compile(r"(cpu|gpu|cuda|opencl)(?::([0-9]{1,3}))?")
RULE = "cpu, gpu, cuda or opencl, the last two perhaps with a number, as in cuda:1"


def device_for(asked: str, workers: int | str, inexact: bool = False) -> AbstractContextManager[Device]:
    """What --device asks for; `workers` are the CPU's."""
    match = NAMED.fullmatch(asked) if isinstance(asked, str) else None
    if match is None or (match[1] in ("cpu", "gpu") and match[2]):
        raise refuse("device", asked, RULE, "use --device cpu")
    if match[1] == "cpu":
        return Workers(workers)
    return _gpu(match[1], int(match[2] or 0), inexact)


@contextmanager
def _gpu(kind: str, number: int, inexact: bool) -> Iterator[Gpu]:
    device = Gpu(backend_of(kind, number))
    broken = [name for name, kept in promises(device).items() if not kept]
    if broken and not inexact:
        raise SamebitsError(
            f"{device.backend.name} cannot keep the promise: {', '.join(broken)} {'is' if len(broken) == 1 else 'are'} "
            "not as IEEE says; use --device cpu, or --inexact to train on it all the same"
        )
    yield device
    device.join()


def backend_of(kind: str, number: int) -> Any:
    """The number-th device of a kind; for `gpu` the first there is, NVIDIA's own way preferred."""
    if kind == "gpu":
        if cuda.count():
            return cuda.Cuda(0)
        found = [device for device in opencl.there() if opencl.is_gpu(device)]
        if not found:
            raise SamebitsError(
                "no GPU was found; it takes a driver, and CuPy (pip install 'samebits[cuda]') or PyOpenCL "
                "(pip install 'samebits[opencl]'); use --device cpu"
            )
        return opencl.OpenCL(found[0])
    if kind == "cuda":
        cuda.package()
        many = cuda.count()
        _check(kind, number, many)
        return cuda.Cuda(number)
    found = opencl.devices()
    _check(kind, number, len(found))
    return opencl.OpenCL(found[number])


def _check(kind: str, number: int, many: int) -> None:
    if number >= many:
        have = f"{many} {kind} device{'s' if many != 1 else ''}"
        raise SamebitsError(f"device is {kind}:{number}; this machine has {have}; samebits doctor lists them")
