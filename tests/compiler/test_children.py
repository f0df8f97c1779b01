"""Processes that we start end with us, however we end, and whatever they do at that moment."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from samebits.compiler.children import PARENT

PROGRAM = """
import os, subprocess, sys
from samebits.compiler.children import environment
subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=environment(), stdin=subprocess.DEVNULL).wait()
"""
CHILD = """
import ctypes, os, time
from samebits.compiler.children import end_with_parent
{call}
print(os.getpid(), flush=True)
{work}
"""
FREE = "while True: time.sleep(60)"
BUSY = "ctypes.PyDLL(None).pause()"  # C code that keeps the interpreter's lock: no thread of Python's can run


CASES = [(False, FREE), (True, FREE)]
if sys.platform == "linux":  # whose kernel ends a process that cannot look itself
    CASES.append((True, BUSY))


@pytest.mark.parametrize(("with_thread", "work"), CASES)
def test_a_child_ends_when_its_parent_is_killed(with_thread, work):
    code = CHILD.format(call=f"end_with_parent(with_thread={with_thread})", work=work)
    parent = subprocess.Popen([sys.executable, "-c", PROGRAM, code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    try:
        parent.communicate(timeout=30)  # until nobody has its output open: the child has ended as well
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_a_parent_that_has_ended_before_is_noticed():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    code = CHILD.format(call="end_with_parent(with_thread=True)", work=FREE)
    env = {**os.environ, PARENT: str(gone.pid)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=30)
    assert done.returncode == 1
