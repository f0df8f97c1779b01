"""Half an hour of bad luck: python -m tests.soak --minutes 30 (or: make soak).

Every task of every family is trained undisturbed once, then again and again with kill -9 at random moments and resumes
at random worker counts, until its steps are done. At the end weights, metrics.csv and every checkpoint left must be
those of the undisturbed run, byte for byte. The memory of every process is sampled while it trains: it may not grow.
All choices come from --seed; only the moments of the kills depend on the machine's speed. The log is Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from samebits.bench.records import machine
from samebits.families import discover
from tests.helpers import sets, start, weights_line

WORKERS = (1, 2, 3, 5)
# Checkpoints and evaluations often enough that a kill meets one now and then.
CADENCE = {"checkpoint_every": 10, "eval_every": 20, "log_every": 1, "keep": 2}
SAMPLE_SECONDS = 0.2
GROWTH = 1.10  # the last third of a process's samples against the middle third
LEAST_SAMPLES = 30  # below this a process is too short-lived to be judged
LONGEST_LIFE = 8.0  # seconds until a kill, at most


class Life(NamedTuple):
    """One process: how long it lived, whether it was killed, and its resident megabytes over time."""

    workers: int
    seconds: float
    killed: bool
    memory: list[float]
    output: str


class Trial(NamedTuple):
    task: str
    steps: int
    lives: list[Life]
    same: bool
    flat: bool

    @property
    def kills(self) -> int:
        return sum(life.killed for life in self.lives)


def resident(pid: int) -> float | None:
    """Megabytes, where the system tells."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
    return None


def last_step(metrics: Path) -> int:
    """The step of the last whole row; 0 where there is none."""
    whole = metrics.read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[2].partition(b",")[0]
    return int(whole) if whole.isdigit() else 0


def live(words: list[object], workers: int, run: Path, until: float | None, steps: int) -> Life:
    """Run samebits on the folder `run` until it is done or, after `until` seconds, killed. Memory is that of training:
    the last of its `steps` ends it."""
    began, clock = time.monotonic(), time.time()
    metrics = run / "metrics.csv"
    process = start(*words, "--workers", workers, cwd=run.parent)
    memory: list[float] = []
    killed = False
    while True:
        try:
            out, problems = process.communicate(timeout=SAMPLE_SECONDS)
            break
        except subprocess.TimeoutExpired:
            # On a busy machine starting takes seconds; and at its end a run loads what draws its plots.
            training = metrics.exists() and metrics.stat().st_mtime > clock and last_step(metrics) < steps
            if training and (now := resident(process.pid)) is not None:
                memory.append(now)
            if until is not None and not killed and time.monotonic() - began > until:
                process.send_signal(signal.SIGKILL)
                killed = True
    if process.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"samebits {' '.join(map(str, words))} ended with {process.returncode}:\n{problems}")
    return Life(workers, time.monotonic() - began, process.returncode != 0, memory, out)


def is_flat(life: Life) -> bool:
    """After the first third of its training (buffers, one evaluation) a process holds what it holds."""
    third = len(life.memory) // 3
    if third < LEAST_SAMPLES // 3:
        return True
    return statistics.median(life.memory[-third:]) <= GROWTH * statistics.median(life.memory[third : 2 * third])


def disturbed(run: Path, words: list[object], draw: random.Random, steps: int) -> list[Life]:
    """Train `run` to its end through random kills."""
    lives = []
    until = draw.uniform(0.3, LONGEST_LIFE)
    while not lives or lives[-1].killed:
        # Killed before config.toml was there, a run begins anew; later it resumes.
        begun = (run / "config.toml").exists()
        command = ["resume", run.name] if begun else [*words, "--out", run.name]
        lives.append(live(command, draw.choice(WORKERS), run, until, steps))
        # Ever longer lives: in the end every run gets through, however slow the machine.
        until = draw.uniform(0.3, LONGEST_LIFE) + 0.5 * len(lives)
    return lives


def left_behind(run: Path) -> dict[str, bytes]:
    """What the promise covers: metrics and checkpoint vectors."""
    files = [run / "metrics.csv", *sorted(run.glob("checkpoints/step-*/*.safetensors"))]
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in files}


def trial(task: str, steps: int, seed: int, folder: Path) -> Trial:
    draw = random.Random(f"{seed} {task}")
    chosen = {**CADENCE, "seed": draw.randrange(1000)}
    words = ["train", task, "--preset", "small", "--steps", steps, *sets(**chosen)]
    straight = live([*words, "--out", "straight"], draw.choice(WORKERS), folder / "straight", None, steps)
    lives = disturbed(folder / "run", words, draw, steps)
    same = weights_line(lives[-1].output) == weights_line(straight.output)
    same = same and left_behind(folder / "run") == left_behind(folder / "straight")
    return Trial(task, steps, lives, same, all(is_flat(life) for life in [straight, *lives]))


def pace(task: str, folder: Path) -> float:
    """Steps a second of the small preset, roughly, start-up left out."""
    done = []
    for steps in (5, 55):
        run = folder / f"pace-{steps}"
        life = live(["train", task, "--preset", "small", "--steps", steps, "--out", run.name], 1, run, None, steps)
        done.append(life.seconds)
    return 50 / max(0.05, done[1] - done[0])


def soak(minutes: float, seed: int, tasks: list[str], work: float) -> bool:
    facts = machine()
    print(
        f"Soak of {minutes:g} minutes, seed {seed}, {facts['cpu']}, {facts['cores']} cores, commit {facts['commit']}.\n"
    )
    print("| task | steps | processes | killed | workers in turn | seconds | peak MB | bits | memory |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    end, good, rounds, kills = time.monotonic() + 60 * minutes, True, 0, 0
    paces: dict[str, float] = {}
    while time.monotonic() < end or rounds == 0:
        for task in tasks:
            if rounds and time.monotonic() >= end:
                break
            with tempfile.TemporaryDirectory(prefix="samebits-soak-") as name:
                paces[task] = paces.get(task) or pace(task, Path(name))
                steps = max(40, min(5000, int(work * paces[task])))
                for leftover in Path(name).iterdir():
                    shutil.rmtree(leftover)
                found = trial(task, steps, seed + rounds, Path(name))
            good, kills = good and found.same and found.flat, kills + found.kills
            counts = ", ".join(str(life.workers) for life in found.lives)
            peak = max(max(life.memory, default=0) for life in found.lives)
            seconds = sum(life.seconds for life in found.lives)
            bits, memory = "equal" if found.same else "**DIFFERENT**", "flat" if found.flat else "**GROWS**"
            print(
                f"| {task} | {found.steps} | {len(found.lives)} | {found.kills} | {counts} | {seconds:.0f} "
                f"| {peak:.0f} | {bits} | {memory} |",
                flush=True,
            )
        rounds += 1
    print(f"\n{kills} kills; {'every run ended with the bits of an undisturbed one' if good else 'A RUN FAILED'}.")
    return good


def main() -> None:
    every = [task for family in discover().values() for task in family.tasks]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=float, default=15, help="seconds of undisturbed training a run; several kills")
    parser.add_argument("--tasks", nargs="+", choices=every, default=every)
    given = parser.parse_args()
    sys.exit(0 if soak(given.minutes, given.seed, given.tasks, given.work) else 1)


if __name__ == "__main__":
    main()
