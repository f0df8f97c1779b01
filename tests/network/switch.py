"""A switch of so many ports: packets of a port leave at its rate, arrive after a delay, and get lost while it is cut.

A kernel with netem can do that by itself; not every kernel has it, and TUN devices nearly all have. Every port is a TUN
device in a network namespace of its own. Run as a program, it says `ready`, obeys `cut` and `mend`, and ends with its
input: python -m tests.network.switch NAMESPACE… (machines.py).
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import select
import struct
import sys
import time

RATE = 1e9  # bits a second, of every port and direction
DELAY = 0.2e-3  # seconds, one way
MTU = 32_000  # large, so that a program in Python keeps up with four ports
DEVICE = "tun0"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET, PR_SET_TIMERSLACK = 0x40000000, 29
LIBC = ctypes.CDLL(None, use_errno=True)


def open_port(namespace: str) -> int:
    """A TUN device inside a namespace; the file stays with us."""
    with open("/proc/self/ns/net") as home, open(f"/run/netns/{namespace}") as there:
        try:
            if LIBC.setns(there.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter the namespace {namespace}")
            port = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(port, TUNSETIFF, struct.pack("16sH", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
        finally:
            LIBC.setns(home.fileno(), CLONE_NEWNET)
    return port


class Switch:
    def __init__(self, ports: list[int]) -> None:
        self.ports, self.cut = ports, False
        self._out, self._in = [0.0] * len(ports), [0.0] * len(ports)  # when a port is free again
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._count = 0

    def run(self) -> None:
        while True:
            wait = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            ready, _, _ = select.select([0, *self.ports], [], [], wait)
            for port in ready:
                if port == 0:
                    order = os.read(0, 100).decode().split()
                    if not order:
                        return
                    self.cut = order[-1] == "cut"
                else:
                    self._take(self.ports.index(port))
            now = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                _, _, target, packet = heapq.heappop(self._waiting)
                os.write(self.ports[target], packet)

    def _take(self, source: int) -> None:
        try:
            packet = os.read(self.ports[source], MTU + 100)
        except BlockingIOError:
            return
        target = packet[19] - 1  # the last byte of an IPv4 destination, from 1
        if self.cut or packet[0] >> 4 != 4 or not 0 <= target < len(self.ports):
            return
        took = 8 * len(packet) / RATE
        self._out[source] = max(time.monotonic(), self._out[source]) + took
        self._in[target] = max(self._out[source], self._in[target] + took)
        self._count += 1
        heapq.heappush(self._waiting, (self._in[target] + DELAY, self._count, target, packet))


if __name__ == "__main__":
    LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)  # nanoseconds: the delay is short
    switch = Switch([open_port(name) for name in sys.argv[1:]])
    print("ready", flush=True)
    switch.run()
