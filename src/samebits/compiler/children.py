"""How we start programs of our own, beside us: not forks, for whoever calls us may have threads, or a script without
`if __name__ == "__main__"`, which they never see."""

from __future__ import annotations

import os
import sys


def command(module: str, *args: str) -> list[str]:
    """One of our modules as a program; -P: nothing that lies about in the current folder is taken for a module."""
    return [sys.executable, "-P", "-m", module, *args]


def environment(**changes: str) -> dict[str, str]:
    """Ours; they find what we find, wherever we found it."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path), **changes}
