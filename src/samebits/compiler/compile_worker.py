"""A process that compiles what it is asked to and leaves it on disk.

Started by compile_workers.py as: python -m samebits.compiler.compile_worker DESCRIPTOR.

It may be ended at any moment: only while it writes it asks to wait. When nobody wants anything for a while, or whoever
started it is gone, it goes as well.
"""

from __future__ import annotations

import importlib
import signal
import sys
import warnings
from functools import reduce
from multiprocessing.connection import Connection
from typing import Any

from samebits.compiler import compile_workers as aside
from samebits.compiler.children import end_with_parent
from samebits.compiler.compiled import Compiled
from samebits.compiler.kernel_cache import KernelCache

IDLE = 5.0  # seconds after which nobody is expected to want more


def compile_one(order: aside.Order) -> bool:
    """Whether there was such a function, and it could be compiled."""
    try:
        function: Any = reduce(getattr, order.name.split("."), importlib.import_module(order.module))
        if not isinstance(function, Compiled):
            return False
        if order.form == "entered":
            function.entered(order.kinds)
        else:
            function.compile(order.kinds)
    except Exception:  # whoever asked compiles it himself, and sees what is wrong with it
        return False
    return True


def _save_undisturbed(save: Any) -> Any:
    """What is half written would stay for ever."""

    def saved(*args: Any) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            save(*args)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    return saved


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(with_thread=False)  # any thread of our parent may have started us
    warnings.simplefilter("ignore")
    KernelCache.ask = None
    KernelCache.save_overload = _save_undisturbed(KernelCache.save_overload)  # type: ignore[method-assign]
    line: Connection[Any, Any] = Connection(int(sys.argv[1]))
    try:
        while line.poll(IDLE):
            line.send(compile_one(line.recv()))
    except (OSError, EOFError):
        pass


if __name__ == "__main__":
    main()
