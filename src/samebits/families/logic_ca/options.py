"""Command-line options of automata."""

from __future__ import annotations

from pathlib import Path

from samebits.checks import parse_grid, path
from samebits.errors import SamebitsError
from samebits.families.logic_ca.simulation.experiments import ASYNC_RATE
from samebits.hardware.formats import FORMATS
from samebits.training.parts import Option


def exported_file(text: str) -> Path:
    found = path("check", text)
    if not found.is_file():
        raise SamebitsError(f"{found} is no file; --check needs one that samebits export wrote; name it")
    return found


OPTIONS = {
    "train": {
        "target": Option("the picture of grow and letter: a file, or lizard, letter, heart", metavar="FILE"),
    },
    "render": {
        "steps": Option("CA steps to show", int),
        "grid": Option("grid size, such as 64x64", metavar="HxW", parse=parse_grid),
        "soft": Option("the soft gates, not the learned circuit", bool),
        "damage": Option("clear a block, such as 20x20@20-60", metavar="HxW@FIRST-LAST"),
        "asynchronous": Option(f"cells update with chance {ASYNC_RATE}", bool, flags="--async"),
    },
    "export": {
        "to": Option(f"{', '.join(FORMATS)}; default: the first"),
        "grid": Option("Verilog: a whole machine too, with a test bench", metavar="HxW", parse=parse_grid),
        "test_steps": Option("with --grid: steps of the test bench; default: 32", int, bounds=(1, 100_000)),
        "prove": Option("equality by SAT; default: if python-sat is installed", bool, flags="--prove/--no-prove"),
        "minimise": Option("search this long for fewer gates", float, metavar="SECONDS"),
        "all_channels": Option("every channel, also those that reach no visible one", bool),
        "check": Option("write nothing; prove this file of the format instead", metavar="FILE", parse=exported_file),
    },
}
