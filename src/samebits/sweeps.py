"""samebits.sweep: sweeps from Python, by the same engine as the command line's (sweeping.py)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from samebits import checks
from samebits.api import Run
from samebits.errors import SamebitsError
from samebits.progress import NotebookSweep, at_terminal, in_notebook, shown_compiling
from samebits.report.plots import Picture
from samebits.runs.loop import Outcome
from samebits.sweeping import STOPPED, Standing, Sweep, draw, job_count, plan, ranked, run_sweep


@dataclass(eq=False)
class SweepResult:
    """A sweep's folder after training."""

    path: Path
    interrupted: bool  # by Ctrl-C; every run is saved, and the same call goes on
    _sweep: Sweep
    _standings: Sequence[Standing]

    def __repr__(self) -> str:
        best = self.rows[self._best.index]
        settings = ", ".join(f"{key}={best[key]!r}" for key in self._sweep.varied)
        return f"SweepResult({self.path}, {len(self._standings)} runs, best {settings or best['run']})"

    @property
    def judged_by(self) -> str:
        """The column that says which run is best: the lower the better."""
        return self._sweep.judged_by

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A dict a run, as in sweep.csv: its settings, how it ended, and its best; pandas.DataFrame takes them."""
        return [
            {
                "run": f"{one.index:03d}", **one.settings, "state": one.state, "step": one.step,
                self.judged_by: one.value, "weights": one.weights, "problem": one.problem,
            }
            for one in self._standings
        ]  # fmt: skip

    @property
    def best(self) -> Run:
        """The run that came out best; the earlier one of two that are alike."""
        return self._run(self._best)

    @property
    def runs(self) -> list[Run]:
        """All that have trained, best first."""
        return [self._run(one) for one in ranked(self._standings) if one.step]

    @property
    def _best(self) -> Standing:
        return ranked(self._standings)[0]

    def _run(self, one: Standing) -> Run:
        if not one.step:
            raise SamebitsError(
                f"no run of {self.path} has been evaluated{': ' + one.problem if one.problem else ''}; call sweep "
                "again with the same arguments, which goes on"
            )
        return Run(self._sweep.folder(one.index), Outcome(one.weights, one.step, False, one.state == STOPPED))

    def plot(self) -> Picture:
        """What the runs are judged by over their steps, drawn anew as curves.png. A notebook shows it."""
        drawn = draw(self._sweep, self._standings)
        if drawn is None:
            raise SamebitsError(f"no run of {self.path} has been evaluated, so there is no curve; set eval_every")
        return Picture(drawn)


def sweep(
    task: str,
    *,
    preset: str | None = None,
    jobs: int | str = "auto",
    out: str | Path | None = None,
    stop_when: str | None = None,
    halve: bool = False,
    progress: bool | None = None,
    **choices: Any,
) -> SweepResult:
    """Train a task with every combination of some settings, side by side, one worker each, as `samebits sweep` does.

    Choices are config keys. A list, a range or an array has the values to try; anything else, a tuple too, is one
    value for all runs. `jobs` is how many train at once, "auto" one a core, and changes no result. `stop_when`, such as
    "eval_hard_loss == 0", ends a run where it holds; `halve` gives up the worse half after 1/8, 1/4 and 1/2 of the
    steps. Without `out` the folder is named by what is swept; the same call goes on with what is in it. `progress` is
    as in `train`. The first Ctrl-C saves every run and returns, with `interrupted`; the second is a KeyboardInterrupt.
    """
    if progress is not None:
        checks.flag("progress", progress)
    if stop_when is not None:
        checks.text("stop_when", stop_when)
    count, folder = job_count(jobs), None if out is None else checks.path("out", out)
    tried = {key: _values(key, given) for key, given in choices.items()}
    if not tried:
        raise SamebitsError("there is nothing to vary; give a config key a list of values; for example seed=range(5)")
    chosen = plan(task, tried, preset, folder, stop_when, checks.flag("halve", halve))
    with shown_compiling(progress), _watched(progress, chosen) as watch:
        standings, finished = run_sweep(chosen, count, watch)
    return SweepResult(chosen.path, not finished, chosen, standings)


@contextmanager
def _watched(show: bool | None, chosen: Sweep) -> Iterator[Callable[[Sequence[Standing]], None]]:
    if show is not False and in_notebook():
        yield NotebookSweep(len(chosen.runs), chosen.judged_by)
    elif at_terminal(show):
        from samebits.cli.sweep import SweepView

        with SweepView(chosen) as view:
            yield view
    else:
        yield lambda standings: None


def _values(key: str, given: Any) -> list[Any]:
    """The values of a key that are tried."""
    if isinstance(given, np.ndarray) and given.ndim:
        return [_plain(key, value) for value in given.tolist()]
    several = list(given) if isinstance(given, list | range) else [given]
    return [_plain(key, value) for value in several]


def _plain(key: str, value: Any) -> Any:
    """As sweep.toml can hold it."""
    if isinstance(value, os.PathLike):
        return str(checks.path(key, value))
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, list | tuple):
        return [_plain(key, one) for one in value]
    if isinstance(value, str):
        return checks.text(key, value)
    small = isinstance(value, float) or (isinstance(value, int) and abs(value) <= checks.MOST)
    if not (small and math.isfinite(value)):
        raise checks.refuse(key, value, "a number, a text, or a list of such")
    return value
