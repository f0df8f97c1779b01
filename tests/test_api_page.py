"""docs/api.md is what the docstrings say; and its generator does not stumble over what they may become."""

from __future__ import annotations

import re
import runpy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numba
import pytest

ROOT = Path(__file__).parents[1]
COMMAND = ".venv/bin/python tools/api_page.py"
TOOL = runpy.run_path(str(ROOT / "tools/api_page.py"))


def test_the_page_is_what_the_docstrings_say():
    made = TOOL["page"]().splitlines()
    there = (ROOT / "docs/api.md").read_text(encoding="utf-8").splitlines()
    assert there == made, f"docs/api.md is stale; run: {COMMAND}"


def test_the_links_of_the_tables_lead_to_headings():
    text = TOOL["page"]()
    anchors = {TOOL["anchor"](heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
    links = re.findall(r"\]\(#(.*?)\)", text)
    assert {"train", "gptmodel", "graph_edit_distance"} <= {*links}
    assert set(links) <= anchors


def test_contributors_are_told_the_command():
    assert f"`{COMMAND}`" in (ROOT / "CONTRIBUTING.md").read_text()


def bare(a, b=1, *more, c, **rest): ...
def before(a: int, /, b: str = "it's", *, c: float | None = None) -> None: ...
def only(a, b, /): ...
def odd(): ...
def real(a: int, b: list[Path] = [], c: type = int, d: object = object()) -> dict[str, Path]: ...  # noqa: B006
def long(first_of_them: int, second_of_them: int, *, third_of_them: int, fourth_of_them: int, fifth: int) -> int: ...


real.__annotations__ = {"a": int, "b": list[Path], "c": type, "d": object, "return": dict[str, Path]}  # no strings
odd.__signature__ = "none"


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (bare, "bare(a, b=1, *more, c, **rest)"),
        (before, 'before(a: int, /, b: str = "it\'s", *, c: float | None = None) -> None'),
        (only, "only(a, b, /)"),
        (real, "real(a: int, b: list[Path] = [], c: type = int, d: object = <object object>) -> dict[str, Path]"),
        (
            long,
            "long(\n    first_of_them: int,\n    second_of_them: int,\n    *,\n    third_of_them: int,\n"
            "    fourth_of_them: int,\n    fifth: int,\n) -> int",
        ),
        (numba.njit(before), 'before(a: int, /, b: str = "it\'s", *, c: float | None = None) -> None'),
        (odd, "odd(…)"),
    ],
    ids=["bare", "before", "only", "real", "long", "compiled", "odd"],
)
def test_signatures_are_written_as_one_would_write_them(function, code):
    assert TOOL["signature"](function.__name__, function) == code


class Base:
    def inherited(self, x): ...


Base.__module__ = "samebits.somewhere"


@dataclass
class Thing(Base):
    unit: str = "µµµ"  # é
    parts: list[int] = field(default_factory=list)
    _hidden: int = 0

    @property
    def half(self) -> float:
        """Of it,
        rounded."""

    @cached_property
    def silent(self): ...

    @classmethod
    def made(cls, how: str) -> Thing:
        """Another way. And more."""

    def _private(self): ...


Thing.__module__ = "samebits.somewhere.else"


def test_a_class_has_its_fields_its_properties_and_its_methods(monkeypatch):
    made = "\n\n".join(TOOL["details"](TOOL["entry"]("Thing", Thing), "###"))
    # Without its own file to read, a class has only its name.
    head = "### `Thing`\n\n```py\nclass Thing\n```\n\n"
    assert made.startswith(f"{head}- `half: float`: Of it, rounded.\n- `silent`\n")
    assert made.endswith(
        "#### `Thing.inherited`\n\n```py\ninherited(x)\n```\n\n"
        "#### `Thing.made`\n\n```py\n@classmethod\nmade(how: str) -> Thing\n```\n\nAnother way. And more."
    )
    monkeypatch.setattr(Thing, "__module__", __name__)
    fields = '    unit: str = "µµµ"  # é\n    parts: list[int]'
    assert TOOL["class_code"]("Thing", Thing) == f"class Thing(Base):\n{fields}"


def test_the_first_sentence_ends_where_the_next_begins():
    first = TOOL["first_sentence"]
    assert first("Of 0.5\nor e.g. more. Then this.\n\nAnd this.") == "Of 0.5 or e.g. more."
    assert first("No end") == "No end"
    assert first("") == ""
    assert TOOL["cell"]("int | str") == "int \\| str"
