"""Command-line options of GPTs."""

from __future__ import annotations

from pathlib import Path

from samebits.families.gpt.verbs import FORMATS
from samebits.training.parts import Option

UNKNOWN = Option(
    "characters that the model does not know are dropped, or become this one; else they are an error",
    metavar="drop|CHARACTER",
)
OPTIONS = {
    "train": {
        "data": Option("a text, or a folder of texts", metavar="FILE"),
        "init_from": Option("a run whose weights training begins with", metavar="DIR"),
        "unknown": UNKNOWN,
        "sample_every": Option("show what it writes, every so many steps", int, metavar="STEPS"),
    },
    "eval": {
        "data": Option("judge this text, or folder of texts, instead of its own", Path, metavar="FILE"),
        "unknown": UNKNOWN,
    },
    "sample": {"unknown": UNKNOWN},
    "export": {"to": Option(f"{' or '.join(FORMATS)} (Hugging Face); default: {FORMATS[0]}")},
}
