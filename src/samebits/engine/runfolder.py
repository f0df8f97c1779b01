"""A run folder: config.toml, metrics.csv (inside the promise), timing.csv (outside it), checkpoints/, and a lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import platform
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

from samebits.bits import BITS
from samebits.config import TrainConfig, build, config_hash, outside_hash, override, read_toml, to_toml
from samebits.engine.family import Family
from samebits.engine.kernel_cache import PACKAGE
from samebits.engine.pool import available_cores
from samebits.errors import SamebitsError

FIRST_BITS = 1  # of versions that did not say
CONFIG, METRICS, TIMING, LOCK = "config.toml", "metrics.csv", "timing.csv", ".lock"
RECORDED_VERSIONS = ("samebits", "numpy", "numba", "llvmlite", "scipy", "safetensors")


class RunFolder:
    """Paths and small files of one run."""

    def __init__(
        self, path: Path, family: Family, task: str, preset: str, config: TrainConfig, values: Mapping[str, Any]
    ) -> None:
        self.path, self.family, self.task, self.preset, self.config = path, family, task, preset, config
        self.values = dict(values)  # what config.toml holds
        self.bits = [BITS]  # of the versions that trained it, in their order
        self.changed = False

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def hash(self) -> str:
        return config_hash(self.family.config, self.family.name, self.task, self.values)

    @classmethod
    def create(cls, path: Path, family: Family, task: str, preset: str, config: TrainConfig) -> RunFolder:
        """A new folder; refuses one that holds anything."""
        try:
            if path.exists() and not path.is_dir():
                raise SamebitsError(f"--out {path} is a file; it must be a new or empty folder; choose another name")
            refuse_occupied(path)
            path.mkdir(parents=True, exist_ok=True)
            run = cls(path, family, task, preset, config, config.model_dump(mode="json"))
            with run.lock():
                refuse_occupied(path)  # now that nobody else can fill it
                run.checkpoints.mkdir(exist_ok=True)
                run.write_config()
        except OSError as error:
            raise SamebitsError(
                f"--out {path} cannot be written ({error.strerror or error}); choose another folder"
            ) from None
        return run

    @classmethod
    def open(cls, path: Path, families: Mapping[str, Family]) -> RunFolder:
        """An existing run folder, its config checked."""
        if not path.exists():
            raise SamebitsError(f"{path} does not exist; name a folder that samebits train made")
        if not (path / CONFIG).is_file():
            raise SamebitsError(
                f"{path} is not a run folder (it has no {CONFIG}); name a folder that samebits train made"
            )
        tables = read_toml(path / CONFIG)
        head = tables.get("run", {})
        if head.get("family") not in families:
            raise SamebitsError(f"{path / CONFIG} names family {head.get('family')!r}; known: {', '.join(families)}")
        family = families[head["family"]]
        values = tables.get("config", {})
        config = build(family.config, values)
        run = cls(path, family, str(head.get("task")), str(head.get("preset")), config, values)
        run.bits = tables.get("made_with", {}).get("bits", [FIRST_BITS])
        return run

    def change(self, settings: Mapping[str, Any]) -> None:
        """Change keys that are outside the hash, such as steps; training writes them down once it has resumed."""
        outside = outside_hash(type(self.config))
        for key in settings:
            if key in type(self.config).model_fields and key not in outside:
                raise SamebitsError(
                    f"{key} decides the result, so a run cannot change it on the way; resume can change "
                    f"{', '.join(sorted(outside))}; for another {key} train anew"
                )
        self.config = override(self.config, settings)
        self.values |= settings
        self.changed = True

    def continue_bits(self, allowed: bool) -> None:
        """Refuse to go on with a run of a version that computes other bits, unless told to; then its folder says so."""
        if self.bits[-1] == BITS:
            return
        begun = any(self.checkpoints.glob("step-*"))
        if begun and not allowed:
            raise SamebitsError(
                f"{self.path} was trained by a version with bits number {self.bits[-1]}; this one computes number "
                f"{BITS}, so what follows would be nobody's run from the beginning; train it anew, or go on all the "
                "same with --other-bits (config.toml will say so)"
            )
        self.bits = [*self.bits, BITS] if begun else [BITS]
        self.changed = True

    def write_config(self) -> None:
        """config.toml, replaced in one move."""
        tables = {
            "run": {"family": self.family.name, "task": self.task, "preset": self.preset},
            "config": self.values,
            "made_with": {"bits": self.bits, **made_with()},
        }
        partial = self.path / f".{CONFIG}.partial"
        with partial.open("w", encoding="utf-8") as file:
            file.write(to_toml(tables))
            file.flush()
            os.fsync(file.fileno())
        partial.rename(self.path / CONFIG)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder: a second process is refused, and a killed one lets go by itself."""
        with (self.path / LOCK).open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
                raise SamebitsError(
                    f"{self.path} is in use by another samebits process; wait for it or stop it; for a new run, choose "
                    "another --out"
                ) from None
            yield


def refuse_occupied(path: Path) -> None:
    """A folder may hold what a process left that was killed before its config.toml was written, and nothing else."""
    leftovers = {LOCK, f".{CONFIG}.partial", "checkpoints"}
    if not path.exists():
        return
    if any(entry.name not in leftovers for entry in path.iterdir()) or any(path.glob("checkpoints/*")):
        if (path / CONFIG).exists():
            raise SamebitsError(
                f"--out {path} is a run already, and samebits never writes over one; "
                f"continue it with: samebits resume {shlex.quote(str(path))}, or choose another name"
            )
        raise SamebitsError(f"--out {path} exists and is not empty, and no run either; choose another name")


class Table:
    """A CSV file that grows a flushed row at a time and can be cut back to a known length."""

    def __init__(self, path: Path, columns: Sequence[str], length: int | None = None) -> None:
        self.columns = tuple(columns)
        if length is not None and check_length(path, length):
            os.truncate(path, length)
        self._file: BinaryIO = path.open("ab")
        if self._file.tell() == 0:
            self._file.write((",".join(self.columns) + "\n").encode())
            self._file.flush()

    def append(self, row: Mapping[str, Any]) -> None:
        self._file.write((",".join(_cell(row.get(name)) for name in self.columns) + "\n").encode())
        self._file.flush()

    def sync(self) -> int:
        """Make sure that the rows are on disk; their length in bytes."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


def check_length(path: Path, length: int) -> bool:
    """Refuse a table that has lost rows; True if there is one."""
    size = path.stat().st_size if path.exists() else 0
    if size < length:
        raise SamebitsError(
            f"{path} is shorter than its checkpoint says ({size} of {length} bytes); rows were lost; "
            "put the file back, or resume from an earlier --checkpoint"
        )
    return size > 0


def _cell(value: Any) -> str:
    return "" if value is None else repr(float(value)) if isinstance(value, float) else str(value)


def made_with() -> dict[str, Any]:
    """Machine and versions, for the record."""
    found = {name: _version(name) for name in RECORDED_VERSIONS}
    return {
        **found,
        "python": platform.python_version(),
        "commit": commit(),
        "cpu": cpu_name(),
        "cores": available_cores(),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from a checkout that was not installed
        return "not installed"


def commit() -> str:
    """The commit of the checkout samebits runs from; $SAMEBITS_COMMIT for a copy without history; else "release"."""
    if os.environ.get("SAMEBITS_COMMIT"):
        return os.environ["SAMEBITS_COMMIT"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        git = ["git", "-C", str(PACKAGE)]
        settings: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 5, "check": True}
        # Fails where samebits merely lies inside somebody else's repository.
        subprocess.run([*git, "ls-files", "--error-unmatch", "errors.py"], **settings)
        answer = subprocess.run([*git, "describe", "--always", "--dirty", "--exclude=*"], **settings)
        return str(answer.stdout).strip()
    return "release"


def cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
