"""Children, one a core: what each is doing, what it found, and what happens when one dies or hangs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.child import Finding

ROOT = Path(__file__).parents[2]
START = 240.0  # seconds that a child may take to begin: it may have to load what others compile
BEFORE = 100  # inputs that are named beside one that killed a child: one of them may have done it
FRAME = re.compile(r'File ".*?/src/samebits/([^"]+)", line (\d+) in (\S+)')


@dataclass
class Tally:
    """A row of the table."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    sorts: Counter[str] = field(default_factory=Counter)


@dataclass
class Found:
    """What a run of the fuzzer found: rows by kind, and every distinct finding with how often it came."""

    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    findings: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    times: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def inputs(self) -> int:
        return sum(tally.inputs for tally in self.tallies.values())

    def add(self, finding: Finding) -> None:
        kind = finding.input.partition(":")[0]
        self.tallies[kind].sorts[finding.sort] += 1
        self.times[finding[:3]] += 1
        if self.findings.setdefault(finding[:3], finding) is finding:
            print(
                f"{finding.sort} {finding.what} at {finding.where}: --once {finding.input}", file=sys.stderr, flush=True
            )


class Child:
    """A process that works through seeds, and what it said last."""

    def __init__(self, plan: Plan, first: int) -> None:
        self.plan, self.next = plan, first
        self.doing: tuple[str, int] | None = None
        self.done: deque[str] = deque(maxlen=BEFORE)
        self.since = time.monotonic()
        self.heard = b""
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `end`
        self.pipe, theirs = os.pipe()
        words = [plan.bases, theirs, plan.until, first, plan.stride, plan.last]
        words += [",".join(plan.kinds), ",".join(plan.also)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.child", *map(str, words)],
            env={**os.environ, "TMPDIR": str(plan.bases)},  # what a killed child leaves goes with the bases
            cwd=ROOT, pass_fds=[theirs], stdout=subprocess.DEVNULL, stderr=self.errors,
        )  # fmt: skip
        os.close(theirs)

    def listen(self, found: Found) -> bool:
        """Take in what it said; False when it will say no more."""
        said = os.read(self.pipe, 1 << 16)
        self.heard += said
        *lines, self.heard = self.heard.split(b"\n")
        for line in lines:
            self._take(json.loads(line), found)
        return bool(said)

    def _take(self, said: dict[str, Any], found: Found) -> None:
        self.since = time.monotonic()
        if "begin" in said:
            self.doing = (said["begin"][0], said["begin"][1])
            self.next = self.doing[1] + self.plan.stride
            return
        assert self.doing is not None
        tally = found.tallies[self.doing[0]]
        accepted, refused = said["end"]
        tally.inputs += max(1, accepted + refused)
        tally.accepted, tally.refused = tally.accepted + accepted, tally.refused + refused
        tally.seconds += said["seconds"]
        if said["finding"]:
            found.add(Finding(**said["finding"]))
        self.done.append(":".join(map(str, self.doing)))
        self.doing = None

    def late(self) -> bool:
        return time.monotonic() - self.since > (self.plan.limit if self.doing else START)

    def end(self, hung: bool) -> Finding | None:
        """Wait for it, by force if it hangs; what it died of, if of anything."""
        if hung:
            self.process.send_signal(signal.SIGUSR1)  # says where it is
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(2)
            self.process.kill()
        code = self.process.wait()
        os.close(self.pipe)
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace")
        self.errors.close()
        if code == 0 and not hung:
            return None
        label = ":".join(map(str, self.doing)) if self.doing else self.done[-1] if self.done else ""
        what = "no end" if hung else signal.Signals(-code).name if code < 0 else f"exit {code}"
        told = f"{said[-3000:]}\nbefore it: {' '.join(self.done)}"
        return Finding("hang" if hung else "crash", what, innermost(said, hung), label, told)


def innermost(dump: str, hung: bool) -> str:
    """The first frame of samebits in what faulthandler wrote, of the main thread where it can be told.

    Of a process that hangs, one further out: it may be seen anywhere inside the loop that does not end.
    """
    parts = [part for part in [*dump.split("Current thread")[1:], dump] if FRAME.search(part)]
    if not parts:
        return "outside samebits"
    frames = FRAME.findall(parts[0])
    if hung:
        return "{} in {}".format(*frames[max(0, len(frames) - 5)][::2])
    return "{}:{} in {}".format(*frames[0])


@dataclass(frozen=True)
class Plan:
    """What every child is told. `limit`: seconds an input may take; `last`: a seed to stop at before it is time."""

    bases: Path
    until: float
    stride: int
    limit: float
    kinds: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    last: int = sys.maxsize - 1


def fuzz(plan: Plan, first: int) -> Found:
    """Keep as many children as the stride is wide working until it is time."""
    found, began = Found(), time.monotonic()
    with selectors.DefaultSelector() as selector:
        for index in range(plan.stride):
            _start(selector, plan, first + index)
        try:
            while selector.get_map():
                _round(selector, plan, found)
        finally:
            for key in list(selector.get_map().values()):
                key.data.process.kill()
                key.data.end(hung=False)
    found.seconds = time.monotonic() - began
    return found


def _round(selector: selectors.BaseSelector, plan: Plan, found: Found) -> None:
    ready = {key.fd for key, _ in selector.select(timeout=0.2)}
    for key in list(selector.get_map().values()):
        child: Child = key.data
        hung = key.fd not in ready and child.late()
        if not hung and (key.fd not in ready or child.listen(found)):
            continue
        selector.unregister(key.fd)
        finding = child.end(hung)
        if finding:
            _lost(child, found, finding)
            if time.time() < plan.until and child.next <= plan.last:
                _start(selector, plan, child.next)


def _lost(child: Child, found: Found, finding: Finding) -> None:
    """A child is gone: of the input that it was at, or, when it was at none, of one that it had done."""
    if not finding.input:
        raise SystemExit(f"a child died before its first input: {finding.what}\n{finding.told}")
    if child.doing:
        found.tallies[child.doing[0]].inputs += 1
    found.add(finding)


def _start(selector: selectors.BaseSelector, plan: Plan, first: int) -> None:
    child = Child(plan, first)
    selector.register(child.pipe, selectors.EVENT_READ, child)
