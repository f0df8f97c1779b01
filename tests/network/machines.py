"""Several machines on this one: a network namespace each, and a switch between them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.network.switch import DEVICE, MTU

PORT = 29_400
PROBE = """
import socket, sys
with socket.create_server((sys.argv[1], 29500)) as server:
    print("ready", flush=True)
    for _ in range(2):
        with server.accept()[0] as there:
            there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            size = int.from_bytes(there.recv(8), "big")
            while True:
                left = size
                while left:
                    part = there.recv(min(left, 1 << 20))
                    if not part:
                        break
                    left -= len(part)
                if left:
                    break
                there.sendall(b"x")
"""


class Link(NamedTuple):
    seconds: float  # one way
    bits: float  # a second


class Machines:
    """Inside `with`: machine i is reached at `address(i)`, and `start` runs something on it."""

    def __init__(self, count: int) -> None:
        self.count, self.names = count, [f"samebits-{os.getpid()}-{index}" for index in range(count)]

    def __enter__(self) -> Self:
        try:
            for name in self.names:
                ip("netns", "add", name)
            command = [sys.executable, "-m", "tests.network.switch", *self.names]
            root = Path(__file__).parents[2]
            self._switch = subprocess.Popen(
                command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
            assert self._switch.stdout is not None
            if self._switch.stdout.readline() != "ready\n":
                raise OSError("the switch did not start")
            for index, name in enumerate(self.names):
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "address", "add", f"{address(index)}/24", "dev", DEVICE)
                ip("-n", name, "link", "set", DEVICE, "mtu", str(MTU), "up")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "_switch"):
            self._switch.kill()
            self._switch.communicate()
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)

    def _order(self, word: str) -> None:
        assert self._switch.stdin is not None
        self._switch.stdin.write(f"{word}\n")

    def cut(self, seconds: float) -> None:
        """All packets between machines are lost for so long."""
        self._order("cut")
        time.sleep(seconds)
        self._order("mend")

    def start(self, index: int, command: list[str], cwd: Path, **more: str) -> subprocess.Popen[str]:
        env = {**os.environ, "GLOO_SOCKET_IFNAME": DEVICE, **more}
        return subprocess.Popen(
            ["ip", "netns", "exec", self.names[index], *command], cwd=cwd, env=env,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def torchrun(self, words: list[str], cwd: Path, job: str, restarts: int = 3) -> list[subprocess.Popen[str]]:
        """What a user types on every machine: torchrun with these words, one process each."""
        found = []
        for index in range(self.count):
            command = [
                sys.executable, "-m", "torch.distributed.run", "--nnodes", str(self.count), "--nproc-per-node", "1",
                "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{address(0)}:{PORT}", "--rdzv-id", job,
                "--local-addr", address(index), "--rdzv-conf", f"is_host={index == 0}",
                "--max-restarts", str(restarts), *words,
            ]  # fmt: skip
            found.append(self.start(index, command, cwd))
        return found

    def measured(self) -> Link:
        """The link between the first two, as a program sees it."""
        server = self.start(0, [sys.executable, "-c", PROBE, address(0)], Path.cwd())
        assert server.stdout is not None
        server.stdout.readline()
        probe = (
            "import sys; from tests.network.machines import probe; "
            "print(probe(sys.argv[1], 1, 300), probe(sys.argv[1], 1 << 25, 3))"
        )
        client = self.start(1, [sys.executable, "-c", probe, address(0)], Path(__file__).parents[2])
        trip, bulk = map(float, client.communicate(timeout=60)[0].split())
        server.communicate()
        return Link(trip / 2, 8 * (1 << 25) / (bulk - trip))


def probe(host: str, size: int, turns: int) -> float:
    """Seconds, the median, to send so many bytes and hear that they came."""
    times = []
    with socket.create_connection((host, 29_500)) as there:
        there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        there.sendall(size.to_bytes(8, "big"))
        content = bytes(size)
        for _ in range(turns):
            begin = time.perf_counter()
            there.sendall(content)
            there.recv(1)
            times.append(time.perf_counter() - begin)
    return sorted(times)[turns // 2]


def address(index: int) -> str:
    return f"10.77.0.{index + 1}"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def ended(group: list[subprocess.Popen[str]], timeout: float) -> list[tuple[int, str, str]]:
    """(exit code, output, problems) of each; they are read side by side, for a full pipe would stop one."""
    found: list[tuple[int, str, str]] = [(0, "", "")] * len(group)

    def read(index: int) -> None:
        out, problems = group[index].communicate(timeout=timeout)
        found[index] = group[index].returncode, out, problems

    threads = [threading.Thread(target=read, args=(index,)) for index in range(len(group))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
