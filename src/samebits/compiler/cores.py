"""How many cores this process may use."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path


def available_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Those it may run on, or the time a container grants it, if that is less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        granted, period = quota.read_text().split()
        if granted != "max":
            return max(1, min(cores, math.ceil(int(granted) / int(period))))
    return cores
