"""A run folder: config.toml, metrics.csv (inside the promise), timing.csv (outside it), checkpoints/, and a lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import platform
import shlex
import subprocess
from collections.abc import Collection, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from samebits import files
from samebits.bits import BITS
from samebits.checks import MOST
from samebits.compiler.cores import available_cores
from samebits.compiler.kernel_cache import PACKAGE
from samebits.config import TrainConfig, build, config_hash, outside_hash, override, problems, read_tables, to_toml
from samebits.errors import RunLostError, SamebitsError
from samebits.printing import shown
from samebits.runs.record import Expected, check_same
from samebits.training.contract import Constants, Family

FIRST_BITS = 1  # of versions that did not say
CONFIG, METRICS, TIMING, LOCK = "config.toml", "metrics.csv", "timing.csv", ".lock"
STRICT = ConfigDict(strict=True, extra="forbid")
RECORDED_VERSIONS = ("samebits", "numpy", "numba", "llvmlite", "scipy", "safetensors")


class Names(BaseModel):
    model_config = STRICT

    family: str
    task: str
    preset: str


class MadeWith(BaseModel):
    """For the record; of all it says, the bits number and what was inexact alone count."""

    model_config = ConfigDict(strict=True, extra="allow")

    bits: Annotated[list[Annotated[int, Field(ge=1, le=MOST)]], Field(min_length=1)] = [FIRST_BITS]
    inexact: list[str] = []


class Head(BaseModel):
    """config.toml; the family's own model reads its config."""

    model_config = STRICT

    run: Names
    config: dict[str, Any]
    made_with: MadeWith = MadeWith()


class RunFolder:
    """Paths and small files of one run."""

    def __init__(
        self, path: Path, family: Family, task: str, preset: str, config: TrainConfig, values: Mapping[str, Any]
    ) -> None:
        self.path, self.family, self.task, self.preset, self.config = path, family, task, preset, config
        self.values = dict(values)  # what config.toml holds
        self.bits = [BITS]  # of the versions that trained it, in their order
        self.inexact: list[str] = []  # devices that could not keep the promise, and what they lack; never forgotten
        self.changed = False
        self._lock = -1  # its descriptor, while we hold the folder

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
                files.make_folder(run.checkpoints, path)
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
        tables = read_tables(path / CONFIG, path)
        try:
            head = Head.model_validate(tables)
        except ValidationError as error:
            told = "; ".join(f"{key} is {value}; it must be {rule}" for key, value, rule in problems(error))
            raise SamebitsError(f"{path / CONFIG} was altered: {told}; put it back as samebits wrote it") from None
        if head.run.family not in families:
            raise SamebitsError(
                f"{path / CONFIG} names family {shown(head.run.family)}; known: {', '.join(families)}; "
                "install the package that brings it"
            )
        family = families[head.run.family]
        try:
            config = build(family.config, head.config)
            family.layout(config)
        except SamebitsError as error:
            raise SamebitsError(f"{path / CONFIG}: {error}") from None
        if config.schedule_steps is None:
            raise SamebitsError(f"{path / CONFIG} has no schedule_steps; samebits train wrote it; put it back")
        run = cls(path, family, head.run.task, head.run.preset, config, head.config)
        run.bits, run.inexact = head.made_with.bits, head.made_with.inexact
        return run

    @property
    def expected(self) -> Expected:
        """What its checkpoints must be like."""
        family, config = self.family, self.config

        def check(found: Constants) -> None:
            if family.check_constants is not None:
                family.check_constants(config, found)
            else:
                check_same(found, family.constants(config))

        return Expected(self.hash, family.layout(config), check, family.state(config))

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
        dumped = self.config.model_dump(mode="json")
        self.values |= {key: dumped[key] for key in settings}
        self.changed = True

    def continue_bits(self, allowed: bool) -> None:
        """Refuse to go on with a run of a version that computes other bits, unless told to; then its folder says so."""
        if self.bits[-1] == BITS:
            return
        begun = any(name.startswith("step-") for name in files.listed(self.checkpoints, self.path))
        if begun and not allowed:
            raise SamebitsError(
                f"{self.path} was trained by a version with bits number {self.bits[-1]}; this one computes number "
                f"{BITS}, so what follows would be nobody's run from the beginning; train it anew, or go on all the "
                "same with --other-bits (config.toml will say so)"
            )
        self.bits = [*self.bits, BITS] if begun else [BITS]
        self.changed = True

    def mark_inexact(self, device: str, lacks: Collection[str]) -> None:
        """Where a device cannot keep the promise, the folder says so from now on."""
        told = f"{device}: {', '.join(lacks)}"
        if lacks and told not in self.inexact:
            self.inexact = [*self.inexact, told]
            self.changed = True

    @property
    def doubts(self) -> str:
        """A line for whoever looks at its results; empty where they are everybody's."""
        told = "; ".join(self.inexact)
        return (
            f"inexact: trained with --inexact ({told} not as on the CPU), so a CPU may get other bits" if told else ""
        )

    def write_config(self) -> None:
        """config.toml, replaced in one move."""
        tables = {
            "run": {"family": self.family.name, "task": self.task, "preset": self.preset},
            "config": self.values,
            "made_with": {"bits": self.bits, **({"inexact": self.inexact} if self.inexact else {}), **made_with()},
        }
        files.remove_partials(self.path / CONFIG)
        files.write(self.path / CONFIG, to_toml(tables).encode(), self.path, sync=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder: a second run on it is refused, and a killed process lets go by itself."""
        descriptor = files.open_lock(self.path / LOCK)
        LOCKS.add(descriptor)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
                raise SamebitsError(
                    f"{self.path} is in use by another samebits process; wait for it or stop it; for a new run, choose "
                    "another --out"
                ) from None
            self._lock = descriptor
            yield
        finally:
            if descriptor in LOCKS:  # else we are a child that was forked meanwhile, and have let go of it
                # Said, not left to closing: a program that another thread is just starting still has it open.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                LOCKS.discard(descriptor)
                os.close(descriptor)

    def check_there(self) -> None:
        """Stop where the folder we hold was deleted, or another one lies in its place."""
        held = os.fstat(self._lock)
        try:
            found = (self.path / LOCK).lstat()
            gone = (found.st_dev, found.st_ino) != (held.st_dev, held.st_ino) or not self.checkpoints.is_dir()
        except FileNotFoundError:
            gone = True
        if gone:
            raise RunLostError(
                f"{self.path} was deleted or replaced while its run was training, so nothing more can be saved, and "
                "training stopped; train anew, and leave its folder alone meanwhile"
            )


LOCKS: set[int] = set()  # what this process holds: no child that it forks may keep it


def _let_go() -> None:
    """In a forked child: a lock lives until its last copy is closed."""
    for descriptor in LOCKS:
        os.close(descriptor)
    LOCKS.clear()


os.register_at_fork(after_in_child=_let_go)


def refuse_occupied(path: Path) -> None:
    """A folder may hold what a process left that was killed before its config.toml was written, and nothing else."""
    leftovers = {LOCK, f".{CONFIG}{files.PARTIAL}", "checkpoints"}
    if not path.exists():
        return
    others = (name for name in os.listdir(path) if name not in leftovers and not files.is_partial(name, CONFIG))
    if any(others) or files.listed(path / "checkpoints", path):
        if (path / CONFIG).exists():
            raise SamebitsError(
                f"--out {path} is a run already, and samebits never writes over one; "
                f"continue it with: samebits resume {shlex.quote(str(path))}, or choose another name"
            )
        raise SamebitsError(f"--out {path} exists and is not empty, and no run either; choose another name")


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
