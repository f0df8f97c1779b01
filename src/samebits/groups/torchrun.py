"""Several processes as one, on one machine or many: torch.distributed over gloo, started by torchrun.

torchrun sets a few variables for every process it starts; they are how we know. Nothing is encrypted (docs/cluster.md).
Processes of one machine look at each other's memory instead (shared_memory.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array
from samebits.checks import refuse
from samebits.devices.interface import Device
from samebits.errors import GroupLostError, SamebitsError
from samebits.groups.agreement import gather_texts, lost
from samebits.groups.exchange import Links
from samebits.groups.shared_memory import MachineLinks

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SECONDS = 120.0  # to wait for others, at the beginning and in every exchange; $SAMEBITS_TIMEOUT is another number
POLL = 0.05
MOST_RANKS = 1 << 16


def launched() -> bool:
    """Whether torchrun, or somebody who sets the same variables, has started this process."""
    return all(os.environ.get(name) for name in VARIABLES)


def rank_and_size() -> tuple[int, int]:
    """Of this process; alone, it is rank 0 of 1."""
    if not launched():
        return 0, 1
    size = _variable("WORLD_SIZE", 1, MOST_RANKS)
    return _variable("RANK", 0, size - 1), size


def _variable(name: str, least: int, most: int) -> int:
    text = os.environ[name]
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        raise refuse(
            name, text, f"a whole number from {least} to {most}", "torchrun sets it; unset it if it is a stray"
        )
    return int(text)


def job() -> str | None:
    """What torchrun calls this job: the same after a restart. None where there is no name for it."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none") if launched() else "none"
    return None if name == "none" else name


def restarted() -> bool:
    return launched() and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def patience() -> float:
    text = os.environ.get("SAMEBITS_TIMEOUT", str(SECONDS))
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e6:
        raise SamebitsError(f"SAMEBITS_TIMEOUT is {text!r}; it must be a number of seconds above 0; use {SECONDS:g}")
    return found


def package() -> Any:
    try:
        import torch
        import torch.distributed
    except ImportError:
        raise SamebitsError(
            "several processes need PyTorch; install the extra: pip install 'samebits[cluster]'"
        ) from None
    return torch


@contextmanager
def joined() -> Iterator[Links | None]:
    """The links to the other processes of this job; None for one that is alone."""
    if rank_and_size()[1] == 1:
        yield None
        return
    links = TorchLinks()
    try:
        yield MachineLinks.over(links, on_this_machine(), patience()) or links
    finally:
        links.close()


def links_for(device: Device, links: Links | None) -> Links | None:
    """These links, without shared memory where one of the group's devices computes somewhere else."""
    if links is None:
        return None
    everybody = gather_texts(links, "here" if device.shares_memory else "elsewhere")
    return links if set(everybody) == {"here"} else links.far


def on_this_machine() -> bool:
    """Whether one agent has started all of them."""
    return os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]


class TorchLinks(Links):
    """Links of torch.distributed's gloo backend."""

    def __init__(self) -> None:
        self._torch, self.sent = package(), 0
        self.rank, self.size = rank_and_size()
        wait, distributed = timedelta(seconds=patience()), self._torch.distributed
        try:
            # torchrun's agent keeps the store, and it outlives a restart; else rank 0 does.
            kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
            host, port = os.environ["MASTER_ADDR"], _variable("MASTER_PORT", 1, 65_535)
            store = distributed.TCPStore(
                host, port, self.size, self.rank == 0 and not kept, timeout=wait, wait_for_workers=False
            )
            attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            store = distributed.PrefixStore(f"samebits/{attempt}", store)
            self._await_everybody(store)
            distributed.init_process_group("gloo", store=store, rank=self.rank, world_size=self.size, timeout=wait)
        except (RuntimeError, ValueError) as error:  # torch's errors of stores and sockets are RuntimeErrors
            where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
            raise GroupLostError(
                f"this process did not meet the others at {where} within {patience():g} s ({first_line(error)}); look "
                "at the addresses and that every machine was started"
            ) from None

    def _await_everybody(self, store: Any) -> None:
        """Say how many are missing, rather than that something timed out."""
        end, came = time.monotonic() + patience(), store.add("came", 1)
        while came < self.size:
            if time.monotonic() > end:
                raise SamebitsError(
                    f"{came} of {self.size} ranks came within {patience():g} s, {self.size - came} did not; start them "
                    "too, or start fewer; SAMEBITS_TIMEOUT is how many seconds to wait"
                )
            time.sleep(POLL)
            came = store.add("came", 0)

    @property
    def far(self) -> Links:
        return self

    def close(self) -> None:
        self._torch.distributed.destroy_process_group()

    def all_to_all(self, sent: Array, sizes: list[int], received: Array, theirs: list[int]) -> None:
        with self._guarded():
            self._torch.distributed.all_to_all_single(self._tensor(received), self._tensor(sent), theirs, sizes)
        self.sent += (sent.size - sizes[self.rank]) * sent.itemsize

    def all_gather(self, mine: Array, into: Array) -> None:
        """Everybody sends to everybody at once: gloo's own gathering goes around a ring, and waits at every stop."""
        distributed, rows = self._torch.distributed, into.reshape(self.size, -1)
        others = [rank % self.size for rank in range(self.rank + 1, self.rank + self.size)]
        rows[self.rank] = mine.reshape(-1)
        with self._guarded():
            waiting = [distributed.irecv(self._tensor(rows[rank]), rank) for rank in reversed(others)]
            waiting += [distributed.isend(self._tensor(mine), rank) for rank in others]
            for one in waiting:
                one.wait()
        self.sent += mine.nbytes * (self.size - 1)

    def broadcast(self, content: Array) -> None:
        with self._guarded():
            self._torch.distributed.broadcast(self._tensor(content), 0)
        self.sent += content.nbytes if self.rank == 0 else 0

    def share(self, shape: tuple[int, ...], dtype: DTypeLike) -> list[Array] | None:
        return None

    def barrier(self) -> None:
        with self._guarded():
            self._torch.distributed.barrier()

    def _tensor(self, array: Array) -> Any:
        return self._torch.from_numpy(array.reshape(-1))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise lost(first_line(error)) from None


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
