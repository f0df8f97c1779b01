"""The record of sampling: nothing is timed before both ways have written the same text."""

from __future__ import annotations

import numpy as np
import pytest

from samebits.config import override
from samebits.errors import SamebitsError
from samebits.families.gpt import measure_sampling
from samebits.families.gpt.config import TASKS

TINY = {"tiny": override(TASKS["gpt"].presets["small"], {"context": 40})}


def test_sampling_both_ways():
    found = measure_sampling.sampling([1], TINY)
    case = "gpt tiny writing, context 40"
    systems = [(row["case"], row["system"], row["threads"]) for row in found.rows]
    assert systems == [(case, "samebits", 1), (case, "without the cache", 1)]
    ours, theirs = found.rows
    assert theirs["times_slower"] == ours["median"] / theirs["median"]


def test_no_time_is_recorded_for_other_texts(monkeypatch):
    monkeypatch.setattr(measure_sampling, "full_forward", lambda model, prompt, count, team: np.full(count, -1))
    with pytest.raises(SamebitsError, match="different texts"):
        measure_sampling.sampling([1], TINY)
