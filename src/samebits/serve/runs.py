"""The runs in some folders: found, named, and said in a line each. Nothing outside the folders is looked at.

A page names a run by its id, which is looked up in what was found: no path is ever made from what somebody sends.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from samebits import files
from samebits.bits import BITS
from samebits.checks import can_be_written
from samebits.errors import SamebitsError
from samebits.families import discover
from samebits.metrics import last_row
from samebits.runs import checkpoint as checkpoints
from samebits.runs.record import folder_name, read_record
from samebits.runs.runfolder import CONFIG, LOCK, METRICS, RunFolder
from samebits.serve.metrics import plain

DEEPEST = 4  # levels of folders below the ones given
MOST_FOLDERS = 20_000  # looked into
PICTURES = {".png": "image/png", ".gif": "image/gif", ".svg": "image/svg+xml", ".jpg": "image/jpeg"}
MOST_PICTURES = 100
FRESH = 10.0  # seconds after which a run that wrote nothing is not called live, where locks cannot be seen


@dataclass
class Summary:
    """A line of the table of runs."""

    id: str
    path: str
    family: str = ""
    task: str = ""
    preset: str = ""
    step: int = 0
    steps: int = 0
    loss: float | None = None
    loss_name: str = ""
    best: float | None = None
    best_name: str = ""
    best_step: int | None = None
    hash: str = ""
    live: bool = False
    changed: float = 0.0
    problem: str = ""  # why it cannot be used, in words
    note: str = ""  # what to know about it though it can

    def as_json(self) -> dict[str, Any]:
        """As a JSON response can hold it, whatever the files of the run say."""
        return {key: json_value(value) for key, value in asdict(self).items()}


@dataclass
class Found:
    """A run folder, and what was read from it as long as its files are the same."""

    id: str
    path: Path
    seen: tuple[Any, ...] = ()
    summary: Summary = field(default_factory=lambda: Summary("", ""))


class Library:
    """The runs of the folders given. For any thread."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = [folder.resolve() for folder in folders]
        self.shown = [str(folder) for folder in folders]
        self.runs: dict[str, Found] = {}
        self._scanning, self._scans = threading.Lock(), 0

    def scan(self) -> list[Summary]:
        """Look for runs, and what is new about them; what is there when this is called is in the result.

        One thread scans at a time. Others wait, and share the next scan that begins.
        """
        begun = self._scans
        with self._scanning:
            if self._scans == begun:
                self._scans += 1
                self._scan()
            return [run.summary for run in self.runs.values()]

    def _scan(self) -> None:
        held, now = held_locks(), time.time()
        found: dict[str, Found] = {}
        for folder, shown in zip(self.folders, self.shown, strict=True):
            for path in run_folders(folder):
                inside = path.relative_to(folder).as_posix()
                name = escaped(folder.name if inside == "." else inside)
                known = free_name(found, name, escaped(folder.name))
                run = self.runs.get(known)
                if run is None or run.path != path:
                    run = Found(known, path)
                look(run, shown if inside == "." else f"{shown.rstrip('/')}/{inside}", held, now)
                found[known] = run
        self.runs = found

    def find(self, name: str) -> Path:
        """The folder of a run, or an error that says what to do. A run that is new is looked for."""
        run = self.runs.get(name)
        if run is None:
            self.scan()
            run = self.runs.get(name)
        if run is None:
            raise LookupError(f"there is no run {name[:80]!r} in the folders served; look at the page of runs")
        if not inside(run.path, self.folders):
            raise LookupError(f"the run {name[:80]!r} has been moved out of the folders served")
        if not run.path.is_dir():
            raise LookupError(f"the run {name[:80]!r} has been deleted; look at the page of runs")
        return run.path

    def summary(self, name: str) -> Summary:
        return self._known(name).summary

    def refresh(self, name: str) -> Summary:
        """The line of one run, of this moment."""
        run = self._known(name)
        look(run, run.summary.path, held_locks(), time.time())
        return run.summary

    def _known(self, name: str) -> Found:
        self.find(name)
        run = self.runs.get(name)  # another thread's scan may have noticed that it has gone
        if run is None:
            raise LookupError(f"the run {name[:80]!r} has been deleted; look at the page of runs")
        return run


def escaped(text: str) -> str:
    r"""The text with what no UTF-8 can hold spelt out: the byte FF of a file's name as \udcff."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def json_value(value: Any) -> Any:
    if isinstance(value, str):
        return escaped(value)
    return plain(value) if isinstance(value, float) else value


def inside(path: Path, folders: Sequence[Path]) -> bool:
    """Whether what a path leads to lies in one of the folders, links followed."""
    real = path.resolve()
    return any(real == folder or folder in real.parents for folder in folders)


def run_folders(folder: Path) -> Iterator[Path]:
    """The run folders in a folder, in the order of their names. Links that lead out of it are left alone."""
    left, waiting = MOST_FOLDERS, [(folder, 0)]
    while waiting and left:
        left -= 1
        path, depth = waiting.pop()
        try:
            with os.scandir(path) as entries:
                names = {entry.name: is_folder(entry) for entry in entries}
        except OSError:
            continue
        if CONFIG in names or {"checkpoints", LOCK} <= set(names):
            yield path
        elif depth < DEEPEST:
            below = [path / name for name, folder_there in names.items() if folder_there and not name.startswith(".")]
            below = [one for one in below if not one.is_symlink() or inside(one, [folder])]
            waiting += [(one, depth + 1) for one in sorted(below, key=natural, reverse=True)]


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder or leads to one; a link in a loop is none, and hides nothing else."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def natural(path: Path) -> list[Any]:
    """life-2 before life-10."""
    parts = "".join(c if c.isdecimal() else f" {c} " for c in path.name).split()
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def free_name(taken: dict[str, Found], name: str, folder: str) -> str:
    """The same name in two folders: the second is told with its folder's, then with a number."""
    names = [name, f"{folder}/{name}", *(f"{folder}/{name} ({number})" for number in range(2, len(taken) + 3))]
    return next(one for one in names if one not in taken)


def held_locks() -> set[tuple[int, int]] | None:
    """(device, inode) of the files that are locked now. Seen without touching them: trying would disturb a run."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
        held = set()
        for line in lines:
            words = line.split()
            if "FLOCK" in words:
                major, minor, inode = words[-3].split(":")
                held.add((os.makedev(int(major, 16), int(minor, 16)), int(inode)))
    except (OSError, ValueError, IndexError):
        return None
    return held


def stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def look(run: Found, shown: str, held: set[tuple[int, int]] | None, now: float) -> None:
    """Fill in a run's line; files that are as they were are not read again."""
    path = run.path
    seen = shown, stamp(path / CONFIG), stamp(path / METRICS), stamp(path / "checkpoints")
    if seen != run.seen:
        run.summary, run.seen = read_summary(run.id, path, shown), seen
    summary = run.summary
    summary.live = not summary.problem and is_live(path, summary, held, now)


def is_live(path: Path, summary: Summary, held: set[tuple[int, int]] | None, now: float) -> bool:
    if held is not None:
        try:
            found = (path / LOCK).stat()
        except OSError:
            return False
        if (found.st_dev, found.st_ino) in held:
            return True
    return 0 < summary.step < summary.steps and now - summary.changed < FRESH


def read_summary(name: str, path: Path, shown: str) -> Summary:
    found = Summary(name, shown, changed=max(stamp(path / METRICS)[0], stamp(path / CONFIG)[0]) / 1e9)
    try:
        if not can_be_written(str(path)):
            raise SamebitsError(f"its path {shown} is no UTF-8, and no command of samebits takes it; rename it")
        if not (path / CONFIG).is_file():
            raise SamebitsError(f"half written: it has no {CONFIG}; samebits was stopped before it began; delete it")
        run = RunFolder.open(path, discover())
        found.family, found.task, found.preset = run.family.name, run.task, run.preset
        found.steps, found.loss_name = run.config.steps, run.family.metrics.loss
        found.best_name = f"eval_{run.family.metrics.best}"
        if run.bits[-1] != BITS:
            found.note = (
                f"trained by a version with bits number {run.bits[-1]}; this one computes number {BITS}, so it would "
                "train it to other weights"
            )
        _read_progress(found, run)
    except (SamebitsError, OSError) as error:
        found.problem = str(error).replace(str(path), shown)
    except Exception as error:  # files of anybody's: one run that cannot be read must not hide the others
        found.problem = f"it cannot be read ({type(error).__name__}: {error}); please report this as a bug"
    return found


def _read_progress(found: Summary, run: RunFolder) -> None:
    with suppress(FileNotFoundError):
        row = last_row(run.path / METRICS, run.path)
        found.step, found.loss = int(row.get("step", 0)), plain(row.get(found.loss_name, float("nan")))
    steps = checkpoints.steps_saved(run.checkpoints)
    if steps:
        record = read_record(run.checkpoints / folder_name(steps[-1]))
        found.hash, found.best, found.best_step = (
            record.weights_sha256,
            record.state.best_value,
            record.state.best_step,
        )
        found.step = max(found.step, record.state.step)


def pictures(path: Path) -> dict[str, str]:
    """The pictures of a run: names as they are shown → names below its folder."""
    names: list[str] = []
    folders = [name for name, kind in files.listed(path).items() if kind == files.A_FOLDER and name != "checkpoints"]
    for folder in ("", *folders):
        with suppress(SamebitsError, OSError):
            plain_files = [name for name, kind in files.listed(path / folder, path).items() if kind == files.A_FILE]
            names += [f"{folder}/{name}" if folder else name for name in plain_files if kind_of_picture(name)]
    return {escaped(name): name for name in names[:MOST_PICTURES]}


def kind_of_picture(name: str) -> str:
    """The media type of a file of this name; empty: it is no picture."""
    return PICTURES.get(Path(name).suffix.lower(), "")
