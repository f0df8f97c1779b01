"""What training writes into its run folder: rows of metrics, and checkpoints. Of several processes one writes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self

from samebits import files
from samebits.runs import checkpoint as checkpoints
from samebits.runs.runfolder import METRICS, TIMING, RunFolder
from samebits.runs.table import Table
from samebits.training.contract import Layout
from samebits.training.state import Checkpoint, TrainState


class Writer:
    """Writes nothing: for a process that only computes."""

    writes = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def log(self, row: Mapping[str, Any], passing: bool = False) -> None:
        """A row of metrics; a passing one goes when the run goes on."""

    def save(self, found: Checkpoint, layout: Layout) -> None:
        """A checkpoint."""


class RunWriter(Writer):
    """Writes to a run folder, which is held (RunFolder.lock)."""

    writes = True

    def __init__(self, run: RunFolder, columns: Sequence[str], state: TrainState) -> None:
        self.run, self._columns, self._length = run, columns, state.metrics_bytes
        self._lasting: tuple[int, str] | None = None  # what of metrics.csv stays, where its last row is a passing one

    def __enter__(self) -> Self:
        run = self.run
        files.make_folder(run.checkpoints, run.path)
        if run.changed:
            run.write_config()
        with ExitStack() as opened:
            self._metrics = Table(run.path / METRICS, self._columns, self._length)
            opened.callback(self._metrics.close)
            self._timing = Table(run.path / TIMING, ("step", "seconds"))
            opened.callback(self._timing.close)
            self._opened = opened.pop_all()
        self._started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._opened.close()

    def log(self, row: Mapping[str, Any], passing: bool = False) -> None:
        self._lasting = self._metrics.sync() if passing else None
        self._metrics.append(row)
        self._timing.append({"step": row["step"], "seconds": time.perf_counter() - self._started})

    def save(self, found: Checkpoint, layout: Layout) -> None:
        self.run.check_there()
        written = self._metrics.sync()
        found.state.metrics_bytes, found.state.metrics_sha256 = self._lasting or written
        checkpoints.save(self.run.checkpoints, found, layout)
        checkpoints.prune(self.run.checkpoints, self.run.config.keep, found.state.best_step)
