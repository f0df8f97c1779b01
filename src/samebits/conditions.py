"""What ends a run early: a metric, a comparison and a number, such as `eval_hard_loss == 0`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import SamebitsError
from samebits.printing import shown
from samebits.runs.loop import metric_columns
from samebits.training.contract import Family

CONDITION = re.compile(r"\s*(\w+)\s*(==|!=|<=|>=|<|>)\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*")
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """What ends a run: a column of metrics.csv, compared with a number."""

    column: str
    sign: str
    number: float

    def holds(self, row: Mapping[str, Any]) -> bool:
        value = row.get(self.column)
        return value is not None and not math.isnan(value) and bool(COMPARISONS[self.sign](value, self.number))

    def first(self, columns: Mapping[str, Any], until: int) -> int | None:
        """The first step up to `until` where it holds."""
        steps = columns["step"]
        held = COMPARISONS[self.sign](columns[self.column], self.number) & ~np.isnan(columns[self.column])
        seen = np.flatnonzero(held & (steps <= until))
        return int(steps[seen[0]]) if seen.size else None


def condition_of(text: str, family: Family) -> Condition:
    found = CONDITION.fullmatch(text)
    try:
        if found and found[1] in metric_columns(family):
            return Condition(found[1], found[2], float(found[3]))
    except ValueError:
        found = None
    if found:
        known = ", ".join(metric_columns(family))
        raise SamebitsError(f"stop-when names {shown(found[1])}; {family.name} measures {known}; use one of them")
    raise SamebitsError(
        f"stop-when is {shown(text)}; it must be a metric, a comparison and a number; for example: eval_loss < 0.1"
    )
