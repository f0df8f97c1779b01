"""Writes docs/api.md from signatures and docstrings: python tools/api_page.py. tests/test_api_page.py compares."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import samebits
from samebits.families import discover

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
WIDTH = 100  # of a signature on one line
BY_HAND = {"__version__": "The version that is installed."}  # names that cannot have a docstring
INTRODUCTION = """
Every name a user may import, and the models that `samebits.load` returns. Made by `tools/api_page.py` from the
docstrings: to change this page, change those. `Array` is a NumPy array. `workers` is a number, or "auto" for every
core; it never changes a result.
"""


class Entry(NamedTuple):
    """Something public: its name, what one types, what is said about it."""

    name: str
    code: str
    text: str
    properties: Sequence[Entry] = ()
    methods: Sequence[Entry] = ()


def page() -> str:
    models = [model_entry(family.model, family.tasks) for family in discover().values()]
    parts = [
        "# samebits from Python",
        INTRODUCTION.strip(),
        *section("samebits", samebits.__doc__, entries_of(samebits)),
        *section("Models", "What `samebits.load` returns depends on the task of the run.", models),
        *section("samebits.distance", samebits.distance.__doc__, entries_of(samebits.distance)),
    ]
    return "\n\n".join(parts) + "\n"


def entries_of(module: ModuleType) -> list[Entry]:
    """Functions before classes, those of one file in its order; modules have a section of their own."""
    things = {name: getattr(module, name) for name in module.__all__}
    files = [getattr(thing, "__module__", "") for thing in things.values()]

    def place(name: str) -> tuple[bool, bool, int, int]:
        thing = things[name]
        line = thing.__code__.co_firstlineno if inspect.isfunction(thing) else 0
        return not callable(thing), inspect.isclass(thing), files.index(getattr(thing, "__module__", "")), line

    return [entry(name, things[name]) for name in sorted(things, key=place) if not inspect.ismodule(things[name])]


def model_entry(model: Any, tasks: Sequence[str]) -> Entry:
    """Its module says what it is; the class, what is in it."""
    found = entry(model.__name__, model)
    about = inspect.cleandoc(sys.modules[model.__module__].__doc__ or "")
    return found._replace(text="\n\n".join(filter(None, [about, f"Tasks: {', '.join(tasks)}.", found.text])))


def section(title: str, text: str | None, entries: list[Entry]) -> Iterator[str]:
    """A table of what there is, then each of it in full."""
    yield f"## {title}"
    if text:
        yield inspect.cleandoc(text)
    rows = [f"| [`{found.name}`](#{anchor(found.name)}) | {cell(first_sentence(found.text))} |" for found in entries]
    yield "\n".join(["| | |", "|---|---|", *rows])
    for found in entries:
        yield from details(found, "###")


def details(found: Entry, marks: str) -> Iterator[str]:
    yield f"{marks} `{found.name}`"
    yield f"```py\n{found.code}\n```"
    if found.text:
        yield found.text
    if found.properties:
        yield "\n".join(
            f"- `{one.code}`" + (f": {' '.join(one.text.split())}" * bool(one.text)) for one in found.properties
        )
    for method in found.methods:
        yield from details(method, marks + "#")


def entry(name: str, thing: Any) -> Entry:
    if inspect.isclass(thing):
        return Entry(name, class_code(name, thing), text_of(thing), list(properties(thing)), list(methods(name, thing)))
    if callable(thing):
        return Entry(name, signature(name, thing), text_of(thing))
    return Entry(name, f"{name}: {type(thing).__name__}", BY_HAND.get(name, ""))


def text_of(thing: Any) -> str:
    """Its own docstring: not its base class's, and not the signature that dataclasses put where there is none."""
    found = thing.__dict__.get("__doc__") if inspect.isclass(thing) else getattr(thing, "__doc__", None)
    text = inspect.cleandoc(found or "")
    return "" if inspect.isclass(thing) and text.startswith(f"{thing.__name__}(") else text


def members(cls: type) -> dict[str, Any]:
    """What is public in it, and in those of its base classes that are ours."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "samebits":
            found.update(vars(base))
    return {name: thing for name, thing in found.items() if not name.startswith("_")}


def properties(cls: type) -> Iterator[Entry]:
    for name, thing in members(cls).items():
        if isinstance(thing, (property, cached_property)):
            getter = thing.fget if isinstance(thing, property) else thing.func
            kind = returned(getter)
            yield Entry(name, f"{name}: {kind}" if kind else name, text_of(getter))


def methods(owner: str, cls: type) -> Iterator[Entry]:
    for name, thing in members(cls).items():
        if isinstance(thing, (classmethod, staticmethod)):
            code = f"@{type(thing).__name__}\n{signature(name, getattr(cls, name))}"
            yield Entry(f"{owner}.{name}", code, text_of(thing.__func__))
        elif inspect.isfunction(thing):
            yield Entry(f"{owner}.{name}", signature(name, thing, bound=True), text_of(thing))


def class_code(name: str, cls: type) -> str:
    """The class as its source has it, down to its fields; what a field is stands in the comment behind it."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # no source here
        return f"class {name}"
    lines = source.splitlines()
    (top,) = ast.parse(source).body
    assert isinstance(top, ast.ClassDef)
    bases = ", ".join(ast.get_source_segment(source, base) or "" for base in top.bases)
    head = f"class {name}({bases})" if bases else f"class {name}"
    fields = []
    for node in top.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.target.id[0] == "_":
            continue
        given = ast.get_source_segment(source, node.value) if node.value else None
        value = "" if given is None or re.match(r"(dataclasses\.)?field\(", given) else f" = {given}"
        last = lines[(node.end_lineno or 1) - 1]
        behind = last.encode()[node.end_col_offset or 0 :].decode().strip()  # ast counts bytes
        comment = f"  {behind}" if behind.startswith("#") else ""
        fields.append(f"    {node.target.id}: {ast.get_source_segment(source, node.annotation)}{value}{comment}")
    return "\n".join([f"{head}:", *fields]) if fields else head


def signature(name: str, function: Callable[..., Any], bound: bool = False) -> str:
    """On one line, or a line a parameter where that is too long."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[bound:]
    except (TypeError, ValueError):  # made of something that has none
        return f"{name}(…)"
    words = list(words_of(parameters))
    kind = returned(function)
    end = f") -> {kind}" if kind else ")"
    line = f"{name}({', '.join(words)}{end}"
    return line if len(line) <= WIDTH else "\n".join([f"{name}(", *(f"    {word}," for word in words), end])


def words_of(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """Parameters as one writes them, with the bare / and * between kinds."""
    before = None
    for parameter in parameters:
        kind = parameter.kind
        if before is parameter.POSITIONAL_ONLY and kind is not before:
            yield "/"
        if kind is parameter.KEYWORD_ONLY and before not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            yield "*"
        before = kind
        stars = "*" * (kind is parameter.VAR_POSITIONAL) + "**" * (kind is parameter.VAR_KEYWORD)
        note = plain(parameter.annotation)
        word = f"{stars}{parameter.name}" + (f": {note}" if note else "")
        if parameter.default is not parameter.empty:
            word += f" = {shown(parameter.default)}" if note else f"={shown(parameter.default)}"
        yield word
    if before is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def shown(value: Any) -> str:
    """A default: strings in double quotes, as the source has them, and no addresses."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return getattr(value, "__name__", None) or re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def returned(function: Any) -> str:
    return plain(getattr(function, "__annotations__", {}).get("return", inspect.Parameter.empty))


def plain(annotation: Any) -> str:
    """A type as the source has it: without quotes, and without modules."""
    if annotation is inspect.Parameter.empty:
        return ""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, str):
        return annotation.strip("'\"")
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", inspect.formatannotation(annotation))


def first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", paragraph)[0]


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def anchor(heading: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}")
