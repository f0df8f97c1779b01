"""Bad luck of several processes: python -m tests.soak_groups --kills 48 (or: make soak-cluster).

A task of every family is trained by one process, undisturbed, and then by groups whose processes are killed at random
moments: any rank, rank 0, rank 0 while it writes a checkpoint, or the whole machine with the agent that would have
started them again. After a machine was lost, or an agent gave up, the run is resumed by another number of processes. At
the end weights, metrics.csv and every checkpoint left must be those of the undisturbed run, byte for byte. All choices
come from --seed; only the moments depend on the machine's speed. The log is Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from samebits.bench.records import machine
from tests.helpers import TIMEOUT, sets, weights_line
from tests.soak import CADENCE, left_behind, live

SIZES, WORKERS = (1, 2, 3, 4, 5), (1, 2)
STEPS = {"checkerboard": 400, "boolean": 150, "gpt": 400}  # some ten seconds each, checkpoints included
HARM = ("a rank", "rank 0", "rank 0, writing", "machine")
MARK = "SAMEBITS_TEST"  # a variable that tells the processes of one group from all others


def ranks_of(mark: str) -> dict[int, int]:
    """Processes that an agent has started with this mark, by rank."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            items = (item.partition(b"=")[::2] for item in path.read_bytes().split(b"\0"))
            variables = {name.decode(): value.decode() for name, value in items if name in (MARK.encode(), b"RANK")}
            if variables.get(MARK) == mark and "RANK" in variables:
                found[int(variables["RANK"])] = int(path.parent.name)
    return found


class Life(NamedTuple):
    """One group: its size, what was done to it, and how it ended."""

    size: int
    harm: list[str]
    code: int
    output: str


def begins_to_write(run: Path) -> bool:
    """Whether a checkpoint is being written, at this moment."""
    return any(run.glob("checkpoints/.step-*.partial"))


def harm(process: subprocess.Popen[str], run: Path, mark: str, draw: random.Random, kind: str) -> bool:
    """Wait for a moment, and do it; False where there was nobody left to harm."""
    end = time.monotonic() + TIMEOUT
    delay = draw.choice((draw.uniform(0, 0.3), draw.uniform(0, 3)))
    wants = 0 if kind.startswith("rank 0") else None
    while process.poll() is None and time.monotonic() < end:
        there = ranks_of(mark)
        if there and kind == "machine":
            time.sleep(delay)
            os.killpg(process.pid, signal.SIGKILL)
            for pid in ranks_of(mark).values():  # they have groups of their own
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return True
        if there and (wants is None or wants in there):
            victim = draw.choice(sorted(there)) if wants is None else wants
            if kind == "rank 0, writing":
                if not begins_to_write(run):
                    time.sleep(0.0005)
                    continue
            else:
                time.sleep(delay)
            with contextlib.suppress(ProcessLookupError):
                os.kill(there[victim], signal.SIGKILL)
                return True
        time.sleep(0.02)
    return False


def live_as_group(
    words: list[object], size: int, workers: int, run: Path, draw: random.Random, kinds: list[str]
) -> Life:
    mark = f"{os.getpid()}-{draw.random()}"
    command = [sys.executable, "-m", "samebits", *map(str, words), "--workers", str(workers), "--processes", str(size)]
    process = subprocess.Popen(
        command, cwd=run.parent, env={**os.environ, MARK: mark}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    done = []
    for kind in kinds:
        if harm(process, run, mark, draw, kind):
            done.append(kind)
        if kind == "machine":
            break
    out, problems = process.communicate(timeout=TIMEOUT)
    if process.returncode not in (0, 1, -signal.SIGKILL):
        raise SystemExit(f"samebits {' '.join(map(str, words))} ended with {process.returncode}:\n{problems}")
    return Life(size, done, process.returncode, out)


def trial(task: str, steps: int, seed: int, folder: Path) -> tuple[list[Life], bool]:
    draw = random.Random(f"{seed} {task}")
    chosen = {**CADENCE, "checkpoint_every": 3, "seed": draw.randrange(1000)}
    chosen |= {"data": "generated"} if task == "gpt" else {}
    words: list[object] = ["train", task, "--preset", "small", "--steps", steps, *sets(**chosen)]
    straight = live([*words, "--out", "straight"], 1, folder / "straight", None, steps)
    run, lives = folder / "run", []
    while not lives or lives[-1].code:
        begun = (run / "config.toml").exists()
        command: list[object] = ["resume", run.name] if begun else [*words, "--out", run.name]
        kinds = draw.choices(HARM, k=draw.randint(1, 4)) if len(lives) < 4 else []
        lives.append(live_as_group(command, draw.choice(SIZES), draw.choice(WORKERS), run, draw, kinds))
    same = weights_line(lives[-1].output) == weights_line(straight.output)
    return lives, same and left_behind(run) == left_behind(folder / "straight")


def soak(kills: int, seed: int) -> bool:
    facts = machine()
    print(f"{kills} kills, seed {seed}, {facts['cpu']}, {facts['cores']} cores, commit {facts['commit']}.\n")
    print(f"| task | steps | processes in turn | {' | '.join(HARM)} | bits |")
    print("|---" * (4 + len(HARM)) + "|", flush=True)
    good, total, rounds = True, 0, 0
    while total < kills:
        for task, steps in STEPS.items():
            with tempfile.TemporaryDirectory(prefix="samebits-soak-") as name:
                lives, same = trial(task, steps, seed + rounds, Path(name))
            counted = Counter(kind for life in lives for kind in life.harm)
            good, total = good and same, total + counted.total()
            cells = [task, steps, ", ".join(str(life.size) for life in lives), *(counted[kind] for kind in HARM)]
            print(f"| {' | '.join(map(str, cells))} | {'equal' if same else '**DIFFERENT**'} |", flush=True)
        rounds += 1
    print(f"\n{total} kills; {'every run ended with the bits of an undisturbed one' if good else 'A RUN FAILED'}.")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=48, help="at least so many")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sys.exit(0 if soak(given.kills, given.seed) else 1)


if __name__ == "__main__":
    main()
