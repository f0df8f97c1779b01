"""Ours at several worker counts, the peers and the bound, side by side in one run.

Each contestant is a process of its own (runner.py). All train their first steps before anything is timed: ours must
agree with the reference and with itself at every count, and a peer's first losses must be ours. Then they take turns,
round after round, so that a slow moment of the machine hits all alike. Independent single-worker copies side by side
show how much N cores really are: they share caches, memory and clocks, and wait for nothing.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from samebits.bench import bounds
from samebits.bench.cases import OURS, ROUNDS, Row, compared
from samebits.bench.peers import missing
from samebits.bench.runner import Spec
from samebits.compiler.cores import available_cores
from samebits.config import TrainConfig, override
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.training.contract import Family, Task
from samebits.training.parts import Peer
from samebits.training.trainer import Trainer, resolve
from samebits.verify.bits import compare
from samebits.verify.gradients import TOLERANCE, finite_difference_error

LEAST_SECONDS = 0.5  # of a turn, whatever --steps says: training goes on and on, and begins with cold caches but once
MOST_SECONDS = 1.0  # a contestant that needs seconds a step gets fewer steps, but at least one a turn
REFERENCE_TOLERANCE = 1e-4  # float32 against the float64 reference
Note = Callable[[str], None]


def prove(family: Family, task: Task, config: TrainConfig, counts: Sequence[int], steps: int = 2) -> dict[str, Any]:
    """Correct first: one hash for all counts, the reference's loss, and its slopes on the task's small configs."""
    ready = resolve(family, config)
    found = compare(family, ready, counts, steps)
    if len(set(found.values())) != 1:
        raise SamebitsError(f"the worker counts {list(counts)} give different bits; a timing would be meaningless")
    with Workers(1) as team:
        trainer = Trainer(family, ready, team)
        batch = family.batch(ready, trainer.data, 0)
        ours, _ = trainer.loss_and_gradient(batch)
        wanted = family.reference(ready, trainer.constants, trainer.params.astype("float64"), batch)
    if not math.isclose(ours, wanted, rel_tol=REFERENCE_TOLERANCE):
        raise SamebitsError(f"the first loss is {ours}; the reference says {wanted}; a timing would be meaningless")
    slopes = max(finite_difference_error(family, family.prepare(check)) for check in task.checks)
    if slopes > TOLERANCE:
        raise SamebitsError(
            f"gradients are off by {slopes:.1e} against finite differences; a timing would be meaningless"
        )
    weights = next(iter(found.values()))[0]
    return {"weights": weights, "loss": ours, "reference_loss": wanted, "largest_gradient_error": slopes}


class Contestant:
    """A measuring process, waiting for orders."""

    def __init__(self, system: str, spec: Spec) -> None:
        self.system, self.spec = system, spec
        self.turns: list[list[float]] = []
        self.peak_megabytes = 0.0
        self.gpu_megabytes: float | None = None
        self._problems = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "samebits.bench.runner",
                json.dumps({**spec._asdict(), "options": dict(spec.options)}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._problems,
            text=True,
        )

    def first_steps(self) -> dict[str, Any]:
        """Wait for them: losses, weights hash, and how long the first took with everything that comes before it."""
        self.first = self._answer()
        return self.first

    def order(self, steps: int) -> None:
        assert self._process.stdin
        try:
            order = {"steps": steps, "least": LEAST_SECONDS, "most": MOST_SECONDS}
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def collect(self) -> list[float]:
        found = self._answer()
        self.peak_megabytes, self.gpu_megabytes = found["peak_megabytes"], found["gpu_megabytes"]
        return list(found["times"])

    def take_turn(self, steps: int) -> None:
        self.order(steps)
        self.turns.append(self.collect())

    def close(self) -> None:
        """Also a process that is still at work: nobody waits for it any more."""
        self._process.kill()
        self._process.communicate()
        self._problems.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return dict(json.loads(line))

    def _ended(self) -> SamebitsError:
        """It has: with which code, and what it said last."""
        code = self._process.wait()
        self._problems.seek(0)
        last = self._problems.read().strip().splitlines()[-1:] or ["it said nothing"]
        return SamebitsError(f"the measuring process of {self.system} ended with {code}: {last[0]}")

    def row(self) -> Row:
        times = [value for turn in self.turns for value in turn]
        return {
            "system": self.system,
            "threads": self.spec.threads,
            "steps": len(times),
            "median": statistics.median(times),
            "fastest": min(times),
            "slowest": max(times),
            "medians": [statistics.median(turn) for turn in self.turns],
            "first_seconds": self.first["first_seconds"],
            "losses": self.first["losses"],
            "peak_megabytes": self.peak_megabytes,
            **({} if self.gpu_megabytes is None else {"gpu_megabytes": self.gpu_megabytes}),
        }


class Field:
    """Everybody who takes part; all processes end with it, whatever happens."""

    def __init__(self, family: Family, config: TrainConfig, note: Note) -> None:
        self.family, self.config = family.name, config.model_dump(mode="json")
        self.note = note
        self.contestants: list[Contestant] = []

    def enter(self, system: str, threads: int, **more: Any) -> Contestant:
        self.note(f"{system}, {threads}")
        contestant = Contestant(system, Spec(self.family, self.config, threads, **more))
        self.contestants.append(contestant)
        contestant.first_steps()
        return contestant

    def enter_peer(self, peer: Peer, threads: int, ours: Sequence[float], **spec: Any) -> Row | None:
        """None when the peer is ready to be timed; or the row that says why it is not."""
        row: Row = {"system": peer.name, "threads": threads}
        if absent := missing(peer):
            return {**row, "absent": f"{', '.join(absent)} not installed"}
        try:
            more = {"module": peer.module, "options": dict(peer.options), **spec}
            losses = self.enter(peer.name, threads, **more).first["losses"]
        except SamebitsError as error:
            self.contestants.pop().close()
            return {**row, "absent": str(error)}
        if all(math.isclose(a, b, rel_tol=peer.tolerance) for a, b in zip(ours, losses, strict=True)):
            return None
        self.contestants.pop().close()
        return {**row, "absent": f"not the same model: its first losses are {losses}, ours {list(ours)}"}


@contextmanager
def open_field(family: Family, config: TrainConfig, note: Note) -> Iterator[Field]:
    field = Field(family, config, note)
    try:
        yield field
    finally:
        for contestant in field.contestants:
            contestant.close()


def contest(
    family: Family,
    config: TrainConfig,
    counts: Sequence[int],
    steps: int,
    peers: bool = False,
    copies: bool = False,
    note: Note = lambda text: None,
) -> list[Row]:
    """One row a contestant: ours at each count, then the peers at each count that the cores allow, then the bound."""
    cores = available_cores()
    a_turn = -(-steps // ROUNDS)
    absent: list[Row] = []
    with open_field(family, config, note) as field:
        for count in counts:
            field.enter(OURS, count)
        ours = field.contestants[0].first["losses"]
        for peer in family.bench.peers if peers else ():
            for threads in [count for count in counts if count <= cores] or [cores]:
                absent += [row] if (row := field.enter_peer(peer, threads, ours)) else []
        bound = bounds.name(family)
        if bound:
            field.enter(bound, 1, bound=True)
        timed = list(field.contestants)
        extra = [field.enter(OURS, 1) for _ in range(max(counts) if copies else 0)]
        together: dict[int, list[float]] = {count: [] for count in counts}
        for turn in range(ROUNDS):
            note(f"round {turn + 1} of {ROUNDS}")
            for contestant in timed:
                contestant.take_turn(a_turn)
            for count in counts if copies else ():
                together[count].append(side_by_side(extra[:count], a_turn))
        rows = [contestant.row() for contestant in timed]
    for row in compare_with_ideal(compared(rows, bound), bound, cores):
        if copies and row["system"] == OURS:
            row["copies_steps_per_second"] = statistics.median(together[row["threads"]])
            row["of_copies"] = 1e3 / row["median"] / row["copies_steps_per_second"]
    return rows + absent


def side_by_side(copies: Sequence[Contestant], steps: int) -> float:
    """Steps a second of all copies together, told to start at once."""
    for copy in copies:
        copy.order(steps)
    return sum(1e3 / statistics.median(copy.collect()) for copy in copies)


def compare_with_ideal(rows: list[Row], bound: str | None, cores: int) -> list[Row]:
    """Fill in what share of the ideal each reaches, over its own first count, and ours of the bound."""
    least = next((row["median"] for row in rows if row["system"] == bound), None)
    for row in rows:
        own = next(other for other in rows if other["system"] == row["system"])
        row["of_ideal"] = row["speed_up"] * min(own["threads"], cores) / min(row["threads"], cores)
        if row["system"] == OURS and least is not None:
            row["of_bound"] = least / min(row["threads"], cores) / row["median"]
    return rows


def torch_hashes(
    family: Family, config: TrainConfig, threads: Sequence[int], steps: int, note: Note = lambda text: None
) -> dict[int, str]:
    """The weights of the family's PyTorch peer after `steps` steps by thread count, deterministic algorithms on."""
    peer = next((peer for peer in family.bench.peers if "torch" in peer.needs), None)
    if peer is None:
        raise SamebitsError(f"{family.name} has no PyTorch peer; leave --peers out")
    if absent := missing(peer):
        raise SamebitsError(
            f"the PyTorch peer of {family.name} needs {', '.join(absent)}, not installed; install it with: "
            f"pip install {' '.join(package.replace('_', '-') for package in absent)}, or leave --peers out"
        )
    found = {}
    with open_field(family, override(config, dict(family.bench.peers_lack)), note) as field:
        for count in threads:
            more = {"module": peer.module, "options": dict(peer.options), "first_steps": steps, "deterministic": True}
            found[count] = str(field.enter(peer.name, count, **more).first["weights"])
    return found
