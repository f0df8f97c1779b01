"""A training step on a GPU: ours among the peers, what the GPU is called, and what bounds a step there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from samebits.bench.peers import OnGpu
from samebits.config import TrainConfig
from samebits.devices.choose import backend_of
from samebits.errors import SamebitsError
from samebits.training.contract import Family, parameter_count
from samebits.training.trainer import Trainer

DRIVER = Path("/proc/driver/nvidia/version")
MOVED = 24  # bytes a parameter: it and its two moments are read and written, whatever the model


class Peak(NamedTuple):
    """What a GPU can do in a second at most, as its maker says."""

    flops: float  # float32, a multiply-add is two, outside tensor cores: they compute with fewer digits
    bandwidth: float  # bytes, to and from its memory


PEAKS = {"NVIDIA H200": Peak(67e12, 4.3e12)}


class Bound(NamedTuple):
    """Milliseconds that a step cannot go below: the larger of the two."""

    arithmetic: float
    memory: float

    @property
    def most(self) -> float:
        return max(self)


def bound_on(gpu: str, family: Family, config: TrainConfig) -> Bound | None:
    """None where we do not know the GPU, or the family does not count."""
    if gpu not in PEAKS or family.bench.flops is None:
        return None
    peak, moved = PEAKS[gpu], MOVED * parameter_count(family, config)
    return Bound(1e3 * family.bench.flops(config) / peak.flops, 1e3 * moved / peak.bandwidth)


def wait_for(trainer: Trainer) -> None:
    """Until all steps are done: a look at what the last one wrote."""
    trainer.device.download(trainer.params[:1])


def ours_on_gpu(trainer: Trainer) -> OnGpu:
    def no_loss() -> float:
        raise AssertionError("our first steps are logged, and told by `step`")

    held: Any = trainer.device
    return OnGpu(no_loss, lambda: wait_for(trainer), lambda: held.backend.held() / 1e6)


def describe(device: Any) -> dict[str, str]:
    """Of a device that is a GPU: its name, who drives it, and the driver's version where it can be had."""
    backend = device.backend
    found = {"name": backend.name, "through": type(backend).__name__}
    if hasattr(backend, "device"):
        return {**found, "driver": str(backend.device.driver_version)}
    words = DRIVER.read_text().splitlines()[0].split() if DRIVER.exists() else []
    numbers = [word for word in words if word[0].isdigit() and "." in word]
    return {**found, **({"driver": numbers[0]} if numbers else {})}


def cuda_name(asked: str) -> str:
    """What PyTorch and JAX call the device that --device names."""
    kind, _, number = asked.partition(":")
    if kind in ("gpu", "cuda"):
        return f"cuda:{number or 0}"
    raise SamebitsError(
        f"device is {asked}; the peers run on NVIDIA's GPUs alone; use --device cuda, or leave --peers out"
    )


def require_cuda_peers(asked: str) -> None:
    """Before anything is measured: that PyTorch is there, and sees the GPU that we would use."""
    name = cuda_name(asked)
    try:
        import torch
    except ImportError:
        raise SamebitsError(
            "the peers on a GPU need PyTorch; pip install 'samebits[peers]' where PyTorch's CUDA builds are found, or "
            "leave --peers out"
        ) from None
    many = torch.cuda.device_count()
    if int(name.removeprefix("cuda:")) >= many:
        built = "" if torch.version.cuda else " and is built without CUDA"
        raise SamebitsError(
            f"device is {asked}; PyTorch {torch.__version__} sees {many} GPUs{built}; install a build of it for CUDA "
            "(pytorch.org says which), or leave --peers out"
        )
    if type(backend_of(*_parts(asked))).__name__ != "Cuda":
        raise SamebitsError(
            f"device is {asked}, which is no NVIDIA GPU by way of CuPy here; the peers use CUDA; "
            "pip install 'samebits[cuda]', or leave --peers out"
        )


def _parts(asked: str) -> tuple[str, int]:
    kind, _, number = asked.partition(":")
    return kind, int(number or 0)
