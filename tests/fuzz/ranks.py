"""The variables by which torchrun tells a process its place, and the numbers of processes that people ask for."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from samebits.cli.launch import process_count
from samebits.devices.cpu.pool import worker_count
from samebits.groups.torchrun import job, patience, rank_and_size, restarted
from tests.fuzz.bases import Bases
from tests.fuzz.judge import attempt
from tests.fuzz.kinds import Outcome, kind
from tests.fuzz.values import argument_text, odd_number

USUAL = {
    "RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29400",
    "TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "1", "SAMEBITS_TIMEOUT": "5",
}  # fmt: skip
ASKED: dict[str, Callable[[], Any]] = {
    "rank_and_size": rank_and_size,
    "job": job,
    "restarted": restarted,
    "patience": patience,
    "worker_count": lambda: worker_count("auto"),
}


def text(draw: random.Random) -> str:
    return draw.choice((str(draw.randrange(-1, 9)), str(odd_number(draw)), argument_text(draw), "9" * 5000, "٣", " 1"))


@kind("ranks", 0.5)
def ranks(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    if draw.random() < 0.3:
        asked = text(draw)
        return attempt(f"process_count({asked!r})", [], lambda: process_count(asked))
    given = dict(USUAL)
    for name in draw.sample(sorted(given), draw.randrange(3)):
        given[name] = text(draw)
    for name in draw.sample(sorted(given), draw.choice((0, 0, 1))):
        del given[name]
    name = draw.choice(sorted(ASKED))
    kept = {key: value for key, value in os.environ.items() if key not in USUAL}
    with patch.dict(os.environ, {**kept, **given}, clear=True):
        return attempt(f"{name}() with {given}", [], ASKED[name])
