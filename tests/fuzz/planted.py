"""What the fuzzer must see, planted: known only to those who ask for this module (tests/test_fuzz.py)."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from samebits.config import config_hash
from tests.fuzz.bases import Bases
from tests.fuzz.kinds import Outcome, kind


@kind("planted-traceback", 1)
def escape(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    config_hash(None, "", "", {})  # type: ignore[arg-type]  # an AttributeError inside samebits
    return Outcome(1, 0)


@kind("planted-crash", 1)
def crash(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    os.abort()


@kind("planted-hang", 1)
def hang(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    time.sleep(600)
    return Outcome(1, 0)


@kind("planted-good", 1)
def good(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    return Outcome(1, 0)
