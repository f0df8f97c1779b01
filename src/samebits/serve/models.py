"""Models of the runs served: loaded when asked for, a few of them kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from samebits import api
from samebits.runs import checkpoint as checkpoints
from samebits.runs.record import STATE
from samebits.serve.runs import Library, stamp
from samebits.training.contract import Family
from samebits.training.params import weights_hash
from samebits.training.parts import TextModel, find

KEPT = 8  # models in memory
AT = "@"  # between a run and a checkpoint: gpt-1@best, gpt-1@500


@dataclass
class Loaded:
    key: Hashable
    model: Any
    hash: str
    step: int
    family: Family

    @cached_property
    def texts(self) -> TextModel:
        """The model as one that writes text; of a family that has Page.texts."""
        made: TextModel = find(self.family.page.texts)(self.model)
        return made


class Models:
    """By run and checkpoint. A file that was changed since is read anew. For any thread."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.kept: OrderedDict[Hashable, Loaded] = OrderedDict()
        self.lock = Lock()

    def load(self, name: str, which: str = "last") -> Loaded:
        """Raises LookupError where there is no such run or checkpoint, SamebitsError where it cannot be used."""
        path = self.library.find(name)
        run = api.open_run(path)
        folder = checkpoints.choose(run.checkpoints, which)
        key = str(folder), stamp(folder / STATE)
        with self.lock:
            if key not in self.kept:
                model = api.load(path, folder.name.removeprefix("step-"))
                self.kept[key] = Loaded(key, model, weights_hash(model.weights), step_of(folder), run.family)
                while len(self.kept) > KEPT:
                    self.kept.popitem(last=False)
            self.kept.move_to_end(key)
            return self.kept[key]

    def split(self, name: str) -> tuple[str, str]:
        """A model's name as clients give it: a run's, or a run's with a checkpoint."""
        if not {name, name.rpartition(AT)[0]} & set(self.library.runs):
            self.library.scan()  # it may be new, and its name may contain the sign
        if name in self.library.runs or AT not in name:
            return name, "last"
        run, _, which = name.rpartition(AT)
        return run, which


def step_of(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))
