"""Processes of a group on this machine, started as torchrun starts them."""

from __future__ import annotations

import os
import sys
import uuid
from typing import Any

from samebits.compiler.children import PARENT
from samebits.groups.torchrun import package

RESTARTS = 3  # after a process was killed


def run_group(count: int, words: list[str]) -> int:
    """Run Python with these arguments on so many processes; the exit code of the first that fails."""
    package()
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    settings: dict[str, Any] = {
        "min_nodes": 1, "max_nodes": 1, "nproc_per_node": count, "run_id": uuid.uuid4().hex, "rdzv_backend": "c10d",
        "rdzv_endpoint": "localhost:0", "max_restarts": RESTARTS, "monitor_interval": 0.1,
    }  # fmt: skip
    os.environ[PARENT] = str(os.getpid())  # orphans.py
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does; we have threads of our own
    try:
        elastic_launch(LaunchConfig(**settings), sys.executable)(*words)
    except ChildFailedError as error:
        codes = [failure.exitcode for failure in error.failures.values()]
        return 2 if 2 in codes else 130 if 130 in codes else 1
    except SignalException:  # Ctrl-C, which they were told of, and have saved what they had
        return 130
    return 0
