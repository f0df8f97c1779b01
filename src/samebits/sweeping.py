"""A sweep: the same task trained with every combination of some settings, side by side, one worker each.

All that a sweep knows is in its folder: sweep.toml, and a run folder for every combination. So it can be stopped or
killed at any moment, and the same command goes on. What is given up, stopped or best follows from the runs' metrics at
fixed steps, never from who was faster: the result does not depend on the number of jobs.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from samebits import api, checks, files
from samebits.compiler.cores import available_cores
from samebits.conditions import Condition, condition_of
from samebits.config import MOST_TOML, TrainConfig, outside_hash, parse_setting, read_toml, to_toml
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.metrics import read_columns
from samebits.printing import shown
from samebits.report.comparison import plot_runs
from samebits.runs import checkpoint as checkpoints
from samebits.runs.loop import latest_weights
from samebits.runs.runfolder import CONFIG, METRICS, RunFolder
from samebits.side_by_side import Answer, Jobs
from samebits.training.ahead import compile_ahead
from samebits.training.contract import Family
from samebits.training.params import weights_hash
from samebits.training.trainer import resolve

SWEEP, TABLE, CURVES = "sweep.toml", "sweep.csv", "curves.png"
MOST_RUNS, MOST_JOBS = 10_000, 1024
RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")
RUNGS = (8, 4, 2)  # --halve looks after these parts of the steps
WAITING, DONE, STOPPED, GIVEN_UP, FAILED = "waiting", "done", "stopped", "given up", "failed"


@dataclass(frozen=True)
class Sweep:
    """What is trained, and how it is judged."""

    path: Path
    task: str
    preset: str
    runs: tuple[dict[str, Any], ...]  # settings of each
    steps: int
    condition: Condition | None
    halve: bool
    family: Family

    @property
    def judged_by(self) -> str:
        return f"eval_{self.family.metrics.best}"

    @property
    def varied(self) -> list[str]:
        """The keys in which runs differ."""
        return [key for key in self.runs[0] if len({repr(settings[key]) for settings in self.runs}) > 1]

    def folder(self, index: int) -> Path:
        return self.path / f"{index:03d}"

    def rungs(self) -> list[int]:
        """The steps where runs are looked at; the last is the end."""
        parts = [self.steps // part for part in RUNGS] if self.halve else []
        return [*dict.fromkeys(step for step in parts if step > 0), self.steps]


@dataclass
class Standing:
    """Where one run of a sweep stands."""

    index: int
    settings: dict[str, Any]
    state: str = WAITING
    step: int = 0
    value: float = math.nan  # of what the sweep is judged by, the best so far
    weights: str = ""
    problem: str = ""


def job_count(asked: str | int) -> int:
    """auto, every core, or a number."""
    if isinstance(asked, str) and asked == "auto":
        return available_cores()
    found = int(asked) if isinstance(asked, str) and asked.isdecimal() and len(asked) < 9 else checks.index_of(asked)
    if found is None or not 1 <= found <= MOST_JOBS:
        raise checks.refuse("jobs", asked, f"auto or a whole number from 1 to {MOST_JOBS}")
    return found


def values_of(text: str) -> list[Any]:
    """0..9, or values with commas between them, as --set takes them."""
    if found := RANGE.fullmatch(text.strip()):
        first, last = int(found[1]), int(found[2])
        if last < first:
            raise SamebitsError(f"{text} is a range that ends before it begins; write {last}..{first}")
        if last - first >= MOST_RUNS:
            raise SamebitsError(f"{text} has {last - first + 1} values; a sweep has at most {MOST_RUNS} runs")
        return list(range(first, last + 1))
    return [parse_setting(f"value={part}")[1] for part in text.split(",")]


def combinations(choices: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], ...]:
    """Every combination, the last key changing fastest."""
    for key, values in choices.items():
        if len({repr(value) for value in values}) != len(values) or not values:
            raise SamebitsError(f"{key} is {list(values)}; a sweep needs values, each once; leave out what is twice")
    if (count := math.prod(len(values) for values in choices.values())) > MOST_RUNS:
        raise SamebitsError(f"that makes {count} runs; a sweep has at most {MOST_RUNS}; take fewer values")
    return tuple(dict(zip(choices, picked, strict=True)) for picked in itertools.product(*choices.values()))


def plan(
    task: str,
    choices: Mapping[str, Sequence[Any]],
    preset: str | None = None,
    out: Path | None = None,
    stop_when: str | None = None,
    halve: bool = False,
) -> Sweep:
    """A sweep, every config of it checked; nothing is written yet."""
    runs = combinations(choices)
    configs: list[TrainConfig] = []
    for settings in runs:
        family, chosen, config = api.configure(task, preset, settings)
        configs.append(config)
    if len({config.steps for config in configs}) > 1 and halve:
        raise SamebitsError("halve compares runs at the same steps, and these have different steps; leave one out")
    condition = None if stop_when is None else condition_of(stop_when, family)
    found = Sweep(Path(), task, chosen, runs, max(config.steps for config in configs), condition, halve, family)
    if (halve or (condition and condition.column.startswith("eval_"))) and any(not c.eval_every for c in configs):
        raise SamebitsError("eval_every is 0, so nothing is evaluated on the way; set eval_every")
    if halve and any(config.eval_every > found.rungs()[0] for config in configs):
        raise SamebitsError(
            f"halve looks at step {found.rungs()[0]}, and eval_every is {configs[0].eval_every}; "
            f"set eval_every to at most {found.rungs()[0]}, or train for more steps"
        )
    name = hashlib.sha256(_table(found).encode()).hexdigest()[:8]
    return replace(found, path=out or api.RUNS / f"{task}-sweep-{name}")


def _table(sweep: Sweep) -> str:
    """sweep.toml: what makes two sweeps the same."""
    condition = sweep.condition
    text = f"{condition.column} {condition.sign} {condition.number!r}" if condition else ""
    head = {"task": sweep.task, "preset": sweep.preset, "steps": sweep.steps, "stop_when": text, "halve": sweep.halve}
    return to_toml({"sweep": {**head, "runs": [json.dumps(settings) for settings in sweep.runs]}})


def begin(sweep: Sweep) -> None:
    """Make the folder, or go on in it; one that holds anything else is refused."""
    record = sweep.path / SWEEP
    if record.is_file():
        if files.read(record, MOST_TOML, sweep.path) != _table(sweep).encode():
            raise SamebitsError(f"{sweep.path} is another sweep; choose another --out, or give the same command again")
        return
    if sweep.path.exists() and (not sweep.path.is_dir() or any(sweep.path.iterdir())):
        raise SamebitsError(f"--out {sweep.path} exists and is not empty, and no sweep either; choose another name")
    try:
        sweep.path.mkdir(parents=True, exist_ok=True)
        files.write(record, _table(sweep).encode(), sweep.path)
    except OSError as error:
        raise SamebitsError(f"--out {sweep.path} cannot be written ({error.strerror}); choose another folder") from None


def reopen(path: Path) -> Sweep:
    """The sweep of a folder."""
    table = read_toml(path / SWEEP, path).get("sweep")
    try:
        assert isinstance(table, dict)
        runs = tuple(json.loads(text) for text in table["runs"])
        family, _, _ = api.configure(table["task"], table["preset"], runs[0])
        condition = condition_of(table["stop_when"], family) if table["stop_when"] else None
        return Sweep(
            path, table["task"], table["preset"], runs, table["steps"], condition, table["halve"], family
        )  # fmt: skip
    except (AssertionError, KeyError, TypeError, ValueError, IndexError):
        raise SamebitsError(f"{path / SWEEP} was altered; put it back as samebits wrote it") from None


def check_run(sweep: Sweep, index: int) -> None:
    """Refuse what lies where a run of the sweep belongs and is another run, or none.

    All keys of the config hash are compared, and what the sweep varies besides; `resume` may have raised `steps`. What
    a family reads off its data follows from the other keys.
    """
    folder = sweep.folder(index)
    remedy = "move it away, and give the same command again"
    files.check_folder(folder, sweep.path)
    if not (folder / CONFIG).is_file():
        return
    run = api.open_run(folder)
    if (run.family.name, run.task) != (sweep.family.name, sweep.task):
        raise SamebitsError(f"{folder} is a run of {run.task}, and the sweep is of {sweep.task}; {remedy}")
    config = api.configure(sweep.task, sweep.preset, sweep.runs[index])[2]
    # Reading the data takes time: only where the config as it was given does not say enough.
    if _other_key(sweep, run, config) is not None and (found := _other_key(sweep, run, resolve(sweep.family, config))):
        key, trained, wanted = found
        raise SamebitsError(
            f"{folder} was trained with {key} {shown(trained)}, and this run of the sweep has {shown(wanted)}; {remedy}"
        )


def _other_key(sweep: Sweep, run: RunFolder, config: TrainConfig) -> tuple[str, Any, Any] | None:
    """The first key that a run has another value of than this config, with both values."""
    wanted, trained = config.model_dump(mode="json"), run.config.model_dump(mode="json")
    wanted["schedule_steps"] = wanted["schedule_steps"] or wanted["steps"]
    free = (outside_hash(type(config)) - set(sweep.varied)) | {*sweep.family.derived(trained)}
    for key, value in wanted.items():
        enough = key == "steps" and trained[key] >= value
        if key not in free and trained[key] != value and not enough:
            return key, trained[key], value
    return None


def look(sweep: Sweep, index: int, until: int) -> Standing:
    """Where a run stands, judged by its metrics up to a step; failed, with the reason, where it is another run."""
    found = Standing(index, sweep.runs[index])
    try:
        check_run(sweep, index)
        _judge(sweep, found, until)
    except SamebitsError as error:
        found.state, found.problem = FAILED, str(error)
    return found


def _judge(sweep: Sweep, found: Standing, until: int) -> None:
    """Fill in how far a run has come, and its value."""
    folder = sweep.folder(found.index)
    saved = checkpoints.steps_saved(folder / "checkpoints") if (folder / CONFIG).is_file() else []
    if not (saved and (folder / METRICS).is_file()):
        return
    columns = read_columns(folder / METRICS, folder)
    needed = {"step", sweep.judged_by, *([sweep.condition.column] if sweep.condition else [])}
    if lacking := needed - set(columns):
        raise SamebitsError(
            f"{folder / METRICS} has no column {min(lacking)}; put it back as samebits wrote it, or move {folder} away"
        )
    stop = sweep.condition.first(columns, until) if sweep.condition else None
    end = min(until, api.open_run(folder).config.steps) if stop is None else stop
    seen = columns["step"] <= end
    values = columns[sweep.judged_by][seen]
    found.value = float(np.nanmin(values)) if np.isfinite(values).any() else math.nan
    found.step = min(saved[-1], end)
    if stop is not None and saved[-1] >= stop:
        found.state = STOPPED
    elif saved[-1] >= end:
        found.state = DONE


def survivors(standings: Sequence[Standing]) -> set[int]:
    """The better half at a rung, rounded up, and all that have reached what was asked; ties go to the earlier run."""
    racing = [one for one in standings if one.state == DONE]
    ranked = sorted(racing, key=lambda one: (math.isnan(one.value), one.value, one.index))
    kept = {one.index for one in ranked[: math.ceil(len(ranked) / 2)]}
    return kept | {one.index for one in standings if one.state == STOPPED}


def write_table(sweep: Sweep, standings: Sequence[Standing]) -> Path:
    """sweep.csv: a row a run."""
    path = sweep.path / TABLE
    keys = list(sweep.runs[0])
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["run", *keys, "state", "step", sweep.judged_by, "weights"])
    for one in standings:
        cells = (one.settings[key] for key in keys)
        writer.writerow([f"{one.index:03d}", *cells, one.state, one.step, repr(one.value), one.weights])
    return files.write(path, text.getvalue().encode(), sweep.path)


def ranked(standings: Iterable[Standing]) -> list[Standing]:
    """Best first."""
    return sorted(standings, key=lambda one: (math.isnan(one.value), one.value, one.step, one.index))


def label(one: Standing, varied: Sequence[str]) -> str:
    return " ".join(f"{key}={one.settings[key]}" for key in varied) or f"{one.index:03d}"


def draw(sweep: Sweep, standings: Sequence[Standing]) -> Path | None:
    """curves.png: what the sweep is judged by, of all runs that have begun; None where none of them has it."""
    folders = {label(one, sweep.varied): sweep.folder(one.index) for one in ranked(standings) if one.step}
    return plot_runs(sweep.path / CURVES, folders, sweep.judged_by)


def run_sweep(sweep: Sweep, jobs: int, watch: Callable[[Sequence[Standing]], None]) -> tuple[list[Standing], bool]:
    """Train what is left of a sweep; where every run stands, and whether all of it is done.

    `watch` is called now and then, also when nothing happened.
    """
    begin(sweep)
    config = api.configure(sweep.task, sweep.preset, sweep.runs[0])[2]
    compile_ahead(sweep.family, resolve(sweep.family, config), Workers(1))  # once, instead of in every process
    pool = Jobs(jobs)
    standings = [Standing(index, settings) for index, settings in enumerate(sweep.runs)]
    alive = set(range(len(standings)))
    for rung in sweep.rungs():
        _train_to(sweep, rung, alive, standings, pool, watch)
        if pool.stopping:
            break
        if rung != sweep.steps:
            kept = survivors([standings[index] for index in sorted(alive)])
            for index in alive - kept:
                if standings[index].state == DONE:
                    standings[index].state = GIVEN_UP
            alive = kept
    for one in standings:
        run = sweep.folder(one.index)
        if one.state in (DONE, STOPPED, GIVEN_UP) and one.step in checkpoints.steps_saved(run / "checkpoints"):
            try:
                one.weights = weights_hash(latest_weights(api.open_run(run), str(one.step))[0])
            except SamebitsError as error:
                one.state, one.problem = FAILED, str(error)
    write_table(sweep, standings)
    return standings, not pool.stopping


def _train_to(
    sweep: Sweep, rung: int, alive: set[int], standings: list[Standing], pool: Jobs,
    watch: Callable[[Sequence[Standing]], None],
) -> None:  # fmt: skip
    """Bring all that are alive to a step."""
    for index in alive:
        standings[index] = look(sweep, index, rung)
    left = [index for index in sorted(alive) if standings[index].state == WAITING]
    condition = sweep.condition
    shared = {
        "task": sweep.task, "preset": sweep.preset, "until": rung,
        "condition": (condition.column, condition.sign, condition.number) if condition else None,
    }  # fmt: skip

    def answered(number: int, answer: Answer) -> None:
        index = left[number]
        standings[index] = look(sweep, index, rung)
        if "problem" in answer:
            standings[index].state, standings[index].problem = FAILED, answer["problem"]

    jobs = [{**shared, "settings": sweep.runs[index], "path": str(sweep.folder(index))} for index in left]
    pool.run(jobs, answered, lambda: watch(standings))


def progress(sweep: Sweep, index: int) -> tuple[int, float]:
    """The step a run has logged last, and the newest of what it is judged by: for the eye, while it trains."""
    try:
        columns = read_columns(sweep.folder(index) / METRICS)
        values = columns[sweep.judged_by]
    except (OSError, SamebitsError, KeyError):  # not there yet, or half a line of it
        return 0, math.nan
    seen = values[np.isfinite(values)]
    return int(columns["step"][-1]) if len(columns["step"]) else 0, float(seen[-1]) if seen.size else math.nan
