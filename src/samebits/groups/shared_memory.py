"""Memory that the processes of one machine share (Linux): what others need lies where they can read it.

A piece of memory has no name in any file system, so nothing is left behind, however a process ends: the others open it
through the list of open files of the process that made it. Waiting is a counter a rank, looked at; whoever waits long
also looks whether the others still live.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import time

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array
from samebits.compiler.jit import kernel
from samebits.devices.cpu.sync import PAD, SPINS_BEFORE_YIELD, fetch_add, load_acquire, relax, sched_yield
from samebits.groups.agreement import gather_texts, lost
from samebits.groups.exchange import Links

LOOKS = 20 * SPINS_BEFORE_YIELD  # at the counters, before a look at the clock and at the others: milliseconds
ROOM = 1 << 14  # bytes that everybody can say at once without asking for more


@kernel
def arrive(counters: Array, rank: int) -> int:
    """Count one more arrival; how many there are now."""
    return fetch_add(counters, rank * PAD, 1) + 1


@kernel
def all_came(counters: Array, arrivals: int, looks: int) -> bool:
    """Whether every rank has arrived so often, after so many looks at most."""
    for look in range(looks):
        came = True
        for rank in range(counters.size // PAD):
            came = came and load_acquire(counters, rank * PAD) >= arrivals
        if came:
            return True
        relax()
        if look > SPINS_BEFORE_YIELD:
            sched_yield()
    return False


class MachineLinks(Links):
    """Links of processes that see each other's memory, over others that bring them together."""

    def __init__(self, far: Links, patience: float) -> None:
        self._far, self.rank, self.size, self.sent = far, far.rank, far.size, 0
        self._patience = patience
        self._turn, self._said = 0, self._shared((2, ROOM), np.dtype(np.uint8))
        self._counters = self._shared((self.size * PAD,), np.dtype(np.int64))[0]
        others = [int(pid) for pid in gather_texts(far, str(os.getpid()))]
        self._lives = select.poll()
        for pid in others:
            if pid != os.getpid():
                self._lives.register(os.pidfd_open(pid), select.POLLIN)  # readable once it has ended

    @property
    def far(self) -> Links:
        return self._far

    @classmethod
    def over(cls, far: Links, near: bool, patience: float) -> MachineLinks | None:
        """None where processes are said to live apart, or cannot see each other."""
        able = near and hasattr(os, "memfd_create") and hasattr(os, "pidfd_open")
        return cls(far, patience) if able and _see_each_other(far) else None

    def all_to_all(self, sent: Array, sizes: list[int], received: Array, theirs: list[int]) -> None:
        self._far.all_to_all(sent, sizes, received, theirs)

    def broadcast(self, content: Array) -> None:
        self._far.broadcast(content)

    def all_gather(self, mine: Array, into: Array) -> None:
        """Everybody reads what the others say. There are two places in turns: nobody is two ahead of anybody."""
        if mine.nbytes > self._said[0].shape[1]:
            self._said = self._shared((2, 2 * mine.nbytes), np.dtype(np.uint8))
        self._turn = 1 - self._turn
        self._said[self.rank][self._turn, : mine.nbytes] = mine.reshape(-1).view(np.uint8)
        self.barrier()
        whole = into.reshape(self.size, -1).view(np.uint8)
        for rank, said in enumerate(self._said):
            whole[rank] = said[self._turn, : mine.nbytes]
        self.sent += mine.nbytes * (self.size - 1)

    def share(self, shape: tuple[int, ...], dtype: DTypeLike) -> list[Array] | None:
        return self._shared(shape, np.dtype(dtype))

    def barrier(self) -> None:
        arrivals = arrive(self._counters, self.rank)
        end = time.monotonic() + self._patience
        while not all_came(self._counters, arrivals, LOOKS):
            ended = bool(self._lives.poll(0))
            if all_came(self._counters, arrivals, 1):  # it may have ended because all is done
                break
            if ended:
                raise lost("a process of this machine ended")
            if time.monotonic() > end:
                raise lost(f"they did not come within {self._patience:g} s")

    def _shared(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> list[Array]:
        size = max(1, int(np.prod(shape)) * dtype.itemsize)
        own = os.memfd_create("samebits", os.MFD_CLOEXEC)
        try:
            os.ftruncate(own, size)
            places = gather_texts(self._far, f"/proc/{os.getpid()}/fd/{own}")
            found = []
            for place in places:
                with open(place, "r+b") as file:
                    found.append(np.frombuffer(mmap.mmap(file.fileno(), size), dtype).reshape(shape))
            gather_texts(self._far, "")  # all have opened it
        finally:
            os.close(own)
        return found


def _see_each_other(far: Links) -> bool:
    """Whether every process can open what another one has open: the same user, the same list of processes."""
    own = os.memfd_create("samebits", os.MFD_CLOEXEC)
    try:
        mark = os.urandom(16)
        os.write(own, mark)
        told = [text.split() for text in gather_texts(far, f"/proc/{os.getpid()}/fd/{own} {mark.hex()}")]
        able = True
        for place, wanted in told:
            found = b""
            with contextlib.suppress(OSError), open(place, "rb") as file:
                found = file.read(len(mark))
            able = able and found.hex() == wanted
        return all(text == "yes" for text in gather_texts(far, "yes" if able else "no"))
    finally:
        os.close(own)
