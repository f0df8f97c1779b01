"""Runs of a sweep, trained side by side: a few processes, each of which trains one run after another with one worker.

A process takes a job as a line of JSON and answers with one. It is a program of its own, not a fork (children.py). When
its parent dies, it goes too.
"""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from samebits import api
from samebits.compiler.children import command, end_with_parent, environment
from samebits.conditions import Condition
from samebits.errors import SamebitsError
from samebits.runs.loop import Interrupts
from samebits.runs.runfolder import CONFIG

Answer = dict[str, Any]
SECONDS = 0.5  # between two looks at who is ready


class Jobs:
    """At most `count` processes at once."""

    def __init__(self, count: int) -> None:
        self.count, self._children, self._lock = count, set[subprocess.Popen[str]](), threading.Lock()
        self._loading = set[subprocess.Popen[str]]()  # those of the children that have not said that they are ready
        self.stopping = False

    def run(
        self, jobs: Iterable[dict[str, Any]], answered: Callable[[int, Answer], None], idle: Callable[[], None]
    ) -> None:
        """Do all jobs, in their order; `answered(number, answer)` when one is, `idle()` now and then.

        After `stop`, those that run save and answer, and no other begins.
        """
        waiting: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        answers: queue.SimpleQueue[tuple[int, Answer]] = queue.SimpleQueue()
        for numbered in enumerate(jobs):
            waiting.put(numbered)
        left = waiting.qsize()
        threads = [threading.Thread(target=self._serve, args=(waiting, answers)) for _ in range(min(self.count, left))]
        with Interrupts() as interrupts:
            try:
                for thread in threads:
                    thread.start()
                while any(thread.is_alive() for thread in threads) or not answers.empty():
                    with contextlib.suppress(queue.Empty):
                        answered(*answers.get(timeout=SECONDS))
                    if interrupts.asked and not self.stopping:
                        self.stop()
                    idle()
            except BaseException:  # a second Ctrl-C, or an error: nobody waits for them any more
                self.stopping = True
                self._signal(signal.SIGKILL)
                raise

    def stop(self) -> None:
        """Have everybody save and end."""
        self.stopping = True
        self._signal(signal.SIGINT)

    def _signal(self, number: int) -> None:
        """To every child. One that still loads could not handle Ctrl-C, and has nothing to save: it is killed."""
        with self._lock:
            for child in self._children:
                child.send_signal(signal.SIGKILL if child in self._loading else number)

    def _serve(self, waiting: Any, answers: Any) -> None:
        child: subprocess.Popen[str] | None = None
        while not self.stopping:
            try:
                number, job = waiting.get_nowait()
            except queue.Empty:
                break
            if child is None or child.poll() is not None:
                self._end(child)
                child = self._start()
            assert child.stdin is not None
            assert child.stdout is not None
            ready = self._is_ready(child)
            if self.stopping and not ready:
                break
            try:
                child.stdin.write(json.dumps(job) + "\n")
                child.stdin.flush()
                line = child.stdout.readline()
            except BrokenPipeError:
                line = ""
            if self.stopping and not line:  # Ctrl-C came while it had nothing to save: the run waits to be trained
                break
            ended = {"problem": f"its process ended with {child.wait()}"} if not line else json.loads(line)
            answers.put((number, ended))
        self._end(child)

    def _is_ready(self, child: subprocess.Popen[str]) -> bool:
        """Wait until a child can handle signals, which it says once, by a line; False: it ended before."""
        if child not in self._loading:
            return True
        assert child.stdout is not None
        line = child.stdout.readline()
        with self._lock:
            self._loading.discard(child)
        return bool(line)

    def _end(self, child: subprocess.Popen[str] | None) -> None:
        """It leaves when there is nothing more to read."""
        if child is not None:
            child.communicate()
            with self._lock:
                self._children.discard(child)
                self._loading.discard(child)

    def _start(self) -> subprocess.Popen[str]:
        # In a session of its own: Ctrl-C reaches us alone, and we pass it on once.
        child = subprocess.Popen(
            command("samebits.side_by_side"), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
        with self._lock:
            self._children.add(child)
            self._loading.add(child)
            if self.stopping:
                child.kill()
        return child


def train_until(job: dict[str, Any]) -> Answer:
    """Begin a run or go on with it, up to a step, or to where its condition holds."""
    path, until = Path(job["path"]), int(job["until"])
    condition = Condition(*job["condition"]) if job["condition"] else None
    interrupts = Interrupts()

    def observe(step: int, row: dict[str, Any]) -> None:
        if step >= until or (condition is not None and condition.holds(row)):
            interrupts.asked = True

    shared: dict[str, Any] = {"workers": 1, "observe": observe, "interrupts": interrupts, "progress": False}
    if (path / CONFIG).is_file():
        run = api.resume(path, **shared)
    else:
        run = api.train(job["task"], preset=job["preset"], out=path, **shared, **job["settings"])
    return {"step": run.outcome.step, "weights": run.outcome.weights}


def main() -> None:
    end_with_parent(with_thread=True)  # Jobs waits for us in the thread that started us
    try:
        print(flush=True)  # from here on Ctrl-C ends us without a traceback
        for line in sys.stdin:
            try:
                answer = train_until(json.loads(line))
            except SamebitsError as error:
                answer = {"problem": str(error)}
            print(json.dumps(answer), flush=True)
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)


if __name__ == "__main__":
    main()
