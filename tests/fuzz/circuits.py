"""Exported circuits, altered: every reader gives a network that can be compared, or refuses; nothing else escapes."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from samebits.errors import SamebitsError
from samebits.families.logic_ca.circuits import export
from samebits.families.logic_ca.circuits.proving import prove_cell, prove_grid
from samebits.hardware.formats import FORMATS
from samebits.hardware.proof import NotEqualError
from samebits.hardware.readers import verilog
from samebits.hardware.writers import grid
from tests.fuzz.bases import Bases
from tests.fuzz.judge import check_message
from tests.fuzz.kinds import BrokenRuleError, Outcome, kind
from tests.hardware.models import drawn

WORDS = (
    b"0",
    b"1",
    b"-",
    b"~",
    b"(",
    b")",
    b"{",
    b"}",
    b"[",
    b"]",
    b"&",
    b"999999999",
    b"c0_NW",
    b"g0",
    b";",
    b"\n",
    b"\xff",
)
SIZE = (3, 4)


@cache
def written(form: str, seed: int) -> bytes:
    model = drawn("zeros", seed)
    cell = export.cell_of(model, model.pruned, "thing", "")
    return grid.write(cell, *SIZE) if form == "grid" else FORMATS[form].write(cell)


def altered(raw: bytes, draw: random.Random) -> bytes:
    """A few bytes or words changed, put in, taken out, or a part said twice."""
    found = bytearray(raw)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at, length = draw.randrange(len(found) + 1), draw.choice((0, 1, 1, 4, 40, 400))
        put = draw.choice((b"", bytes([draw.randrange(256)]), draw.choice(WORDS), bytes(found[at : at + length]) * 2))
        found[at : at + length] = put
    return bytes(found)


@kind("circuits", 2)
def circuits(draw: random.Random, folder: Path, bases: Bases) -> Outcome:
    form, seed = draw.choice((*FORMATS, "grid")), draw.randrange(4)
    raw, model = altered(written(form, seed), draw), drawn("zeros", seed)
    try:
        if form == "grid":
            prove_grid(model, "it", verilog.read(raw), verilog.read(written("verilog", seed)), *SIZE)
        else:
            prove_cell(model, "it", FORMATS[form].read(raw))
    except NotEqualError as error:
        if form != "grid" and "rollout confirms" not in str(error):
            raise BrokenRuleError("a counter-example is confirmed by the rollout", form, str(error)) from None
        return Outcome(0, 1, str(error))
    except SamebitsError as error:
        check_message(str(error), form, f"seed {seed}")
        return Outcome(0, 1, str(error))
    return Outcome(1, 0, "equal")
