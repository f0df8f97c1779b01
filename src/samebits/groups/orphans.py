"""A process of a group does not outlive its launcher.

Imports nothing but the standard library: a process calls this before it loads the rest, which takes seconds.
"""

from __future__ import annotations

import os

from samebits.compiler.children import end_with_parent


def end_with_launcher() -> None:
    """In a process of a group: end as soon as the launcher, or torchrun's agent, that started it has ended.

    A group without its launcher would train on and hold its run folder, and Ctrl-C would not reach it.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent(with_thread=True)  # the main thread of the launcher starts processes, and waits for them
