"""How we start programs of our own, beside us: not forks, for whoever calls us may have threads, or a script without
`if __name__ == "__main__"`, which they never see."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time

PARENT = "SAMEBITS_PARENT"  # in the environment of a child: the process that started it
PR_SET_PDEATHSIG = 1  # of Linux's prctl
SECONDS = 0.2  # between two looks at the parent


def command(module: str, *args: str) -> list[str]:
    """One of our modules as a program; -P: nothing that lies about in the current folder is taken for a module."""
    return [sys.executable, "-P", "-m", module, *args]


def environment(**changes: str) -> dict[str, str]:
    """Ours; they find what we find, wherever we found it, and know who started them."""
    path = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    return {**os.environ, "PYTHONPATH": path, PARENT: str(os.getpid()), **changes}


def end_with_parent(*, with_thread: bool) -> None:
    """End this process, without any cleaning up, as soon as the process that started it has ended, however it ended.

    A thread compares the parent's process number with that in $SAMEBITS_PARENT, so a parent that ended before this call
    is noticed, too.

    Args:
        with_thread: Linux also kills this process when the parent's *thread* that started it ends, at once and whatever
            this process does. False where that thread may end before its process.
    """
    parent = int(os.environ.get(PARENT, os.getppid()))
    if with_thread and sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # the C library has no prctl: the thread remains
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_wait_for_end, args=(parent,), name="end with parent", daemon=True).start()


def _wait_for_end(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS)
    os._exit(1)
