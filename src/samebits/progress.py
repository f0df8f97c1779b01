"""Progress of training from Python: a bar at a terminal, in a notebook a line that renews itself, elsewhere nothing."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from samebits.compiler.compile_workers import Progress, watched_by
from samebits.config import TrainConfig
from samebits.runs.loop import SAMPLE, Observer
from samebits.training.contract import Family

SECONDS_BETWEEN_LOOKS = 0.25


class Line:
    """What a notebook shows: a bar and the newest figures."""

    def __init__(self, step: int, total: int, note: str, unit: str = "step") -> None:
        self.step, self.total, self.note, self.unit = step, total, note, unit

    def __repr__(self) -> str:
        return f"{self.unit} {self.step}/{self.total}  {self.note}"

    def _repr_html_(self) -> str:
        return f'<progress value="{self.step}" max="{self.total}"></progress> <code>{html.escape(repr(self))}</code>'


class NotebookView:
    """Training in a notebook, on one line of its output."""

    def __init__(self, total: int) -> None:
        from IPython.display import display

        self.total, self.start, self.began, self.last = total, 0, 0.0, 0.0
        self.figures: dict[str, Any] = {}
        self.handle = display(Line(0, total, "starting"), display_id=True)

    def __call__(self, step: int, row: Mapping[str, Any]) -> None:
        now = time.perf_counter()
        if self.start == 0:
            self.start, self.began = step, now  # the first step compiles
        self.figures |= {name: value for name, value in row.items() if name != "step" and value is not None}
        if step < self.total and now - self.last < SECONDS_BETWEEN_LOOKS:
            return
        self.last = now
        parts = [f"{name} {value:.5g}" for name, value in self.figures.items()]
        if step > self.start:
            pace = (now - self.began) / (step - self.start)
            parts += [f"{1e3 * pace:.1f} ms/step", f"{pace * (self.total - step):.0f} s left"]
        self.handle.update(Line(step, self.total, "  ".join(parts)))


class NotebookCompiling:
    """What is being compiled, on a line of its own, if anything is."""

    def __init__(self) -> None:
        self.handle: Any = None

    def __call__(self, progress: Progress | None) -> None:
        if progress is None:
            return
        note = f"compiled, once on this machine; now {', '.join(progress.names)}; {progress.seconds:.0f} s"
        line = Line(progress.done, progress.total, note, "kernel")
        if self.handle is None:
            from IPython.display import display

            self.handle = display(line, display_id=True)
        else:
            self.handle.update(line)


class NotebookSweep:
    """A sweep in a notebook, on one line of its output."""

    def __init__(self, total: int, judged_by: str) -> None:
        from IPython.display import display

        self.total, self.judged_by, self.ended = total, judged_by, -1
        self.handle = display(Line(0, total, "starting", "run"), display_id=True)

    def __call__(self, standings: Sequence[Any]) -> None:
        """What sweeping.py tells whoever watches."""
        ended = [one for one in standings if one.state != "waiting"]
        if len(ended) != self.ended:
            self.ended = len(ended)
            best = min((one.value for one in ended if one.value == one.value), default=None)
            note = f"best {self.judged_by} {best:.5g}" if best is not None else ""
            self.handle.update(Line(self.ended, self.total, note, "run"))


def in_notebook() -> bool:
    """Whether whoever called us is a notebook's kernel: IPython at a terminal has none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def with_samples(view: Observer, say: Callable[[str], None]) -> Observer:
    """What the model writes on the way is said; the rest is for the view."""

    def told(step: int, row: dict[str, Any]) -> None:
        view(step, {name: value for name, value in row.items() if name != SAMPLE})
        if SAMPLE in row:
            say(f"--- step {step} ---\n{row[SAMPLE]}")

    return told


def at_terminal(show: bool | None) -> bool:
    """Whether progress is shown on standard error: if asked to, or unasked where somebody can see it."""
    return bool(show or (show is None and sys.stderr is not None and sys.stderr.isatty()))


@contextmanager
def shown_compiling(show: bool | None) -> Iterator[None]:
    """Says what is being compiled, once on a machine, while nothing else happens."""
    if show is False:
        yield
    elif in_notebook():
        with watched_by(NotebookCompiling()):
            yield
    elif at_terminal(show):
        from samebits.cli.waiting import notice

        with watched_by(notice(0)):
            yield
    else:
        yield


@contextmanager
def watched(show: bool | None, family: Family, config: TrainConfig, observe: Observer | None) -> Iterator[Observer]:
    """Tells the caller's function of every step, and shows it: if asked to, or unasked where somebody can see it."""
    others: list[Observer] = [] if observe is None else [observe]

    def tell(step: int, row: dict[str, Any]) -> None:
        for one in others:
            one(step, row)

    if show is not False and in_notebook():
        others.append(with_samples(NotebookView(config.steps), print))
    elif at_terminal(show):
        from samebits.cli.common import ProgressView, work_of
        from samebits.cli.terminal import say

        with ProgressView(config.steps, work=work_of(family, config)) as view:
            others.append(with_samples(view, say))
            yield tell
        return
    yield tell
