"""What all processes of a group must have in common, and where their one run folder is. Without a group: nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from samebits import files
from samebits.bits import BITS
from samebits.compiler.kernel_cache import source_hash
from samebits.config import TrainConfig, outside_hash
from samebits.devices.interface import Device
from samebits.errors import SamebitsError
from samebits.groups.agreement import agree, by_first
from samebits.groups.exchange import Links
from samebits.groups.torchrun import job, restarted
from samebits.runs import checkpoint as checkpoints
from samebits.runs.record import STATE, STATE_BYTES
from samebits.runs.runfolder import CONFIG, RunFolder, made_with

JOB = ".job"  # in a run folder: which job of torchrun's made it
MOST_MARK = 1 << 12  # bytes of it


def facts(task: str, config: TrainConfig, start: str, device: Device) -> dict[str, str]:
    """Everything that decides a bit, by name; paths do not, what lies there does."""
    from samebits.verify.canary import canary

    outside = outside_hash(type(config)) - {"steps", "log_every", "checkpoint_every"}  # these decide who waits when
    keys = {f"config key {key}": json.dumps(value) for key, value in config.model_dump(mode="json").items()}
    kept = {key: value for key, value in keys.items() if key.removeprefix("config key ") not in outside}
    return {
        "version": made_with()["samebits"],
        "bits number": str(BITS),
        "source hash": source_hash(),
        "task": task,
        **kept,
        "start checkpoint": start,
        "canary": canary(task, device),
    }


def check_alike(links: Links | None, make: Callable[[], dict[str, str]]) -> None:
    """Refuse a group whose processes differ in what `make` finds; an error of one of them is everybody's."""
    if links is None:
        make()
        return
    try:
        found = make()
    except SamebitsError as error:
        found = {"problem": str(error)}
    agree(links, found)


def start_of(run: RunFolder, which: str) -> str:
    """The checkpoint that a run goes on from, as a hash."""
    if which == "last" and not checkpoints.steps_saved(run.checkpoints):
        return "none"
    record = checkpoints.choose(run.checkpoints, which) / STATE
    return f"{record.parent.name}, sha256 {hashlib.sha256(files.read(record, STATE_BYTES, run.path)).hexdigest()[:16]}"


def one_folder(
    links: Links | None,
    folder: Callable[[], Path],
    make: Callable[[Path], RunFolder],
    like: Callable[[Path], RunFolder],
) -> tuple[RunFolder, bool]:
    """The folder of a new run, made by rank 0; and whether it is there already, for the job has been restarted."""
    made: RunFolder | None = None

    def settle() -> dict[str, Any]:
        nonlocal made
        path = folder()
        again = is_ours(path)
        if not again:
            made = make(path)
            if job():
                files.write(path / JOB, str(job()).encode(), path)
        return {"path": str(path), "again": again}

    settled = by_first(links, settle)
    return made or like(Path(settled["path"])), bool(settled["again"])


def is_ours(path: Path) -> bool:
    """Whether a run folder was made by this job, before torchrun started it again."""
    wanted = job()
    named = wanted is not None and _mark_of(path) == wanted.encode()
    return (path / CONFIG).is_file() and (named or (job() is None and restarted()))


def _mark_of(path: Path) -> bytes:
    """What the mark in a run folder says; empty where there is none."""
    with contextlib.suppress(SamebitsError, OSError):
        return files.read(path / JOB, MOST_MARK, path)
    return b""


def folder_of_job(runs: Path, task: str) -> Path | None:
    """The folder that this job made without being told a name."""
    return next((path.parent for path in sorted(runs.glob(f"{task}-*/{JOB}")) if is_ours(path.parent)), None)
