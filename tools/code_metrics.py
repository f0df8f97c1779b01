"""Counts what makes code hard to read: python tools/code_metrics.py [folder …]. Default: src/samebits.

Prints files, lines, `Any` in annotations, functions with many positional parameters, long functions, and functions of
GPU sources (.cl) with many parameters. Not counted as positional: self and cls, keyword-only parameters, and the
parameters of commands (cli/), which typer reads as options.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MOST_PARAMETERS, MOST_LINES = 8, 80
SOURCES = Path(__file__).parents[1] / "src" / "samebits"
CL_NAME = r"(\w+|OF_TILE\(\w+\))"  # the second is a function for every size of tile (gemm.cl)
CL_FUNCTION = re.compile(rf"^(KERNEL|DEVICE) (?:ALIKE\(.*?\) )?[\w* ]*?{CL_NAME}\(([^)]*)\) \{{", re.MULTILINE)
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(NamedTuple):
    """A function that exceeds a limit, and by which number."""

    number: int
    path: Path
    line: int
    name: str


class Metrics(NamedTuple):
    """What was counted in one or several files."""

    files: int
    lines: int
    any_annotations: int
    wide_functions: list[Place]
    long_functions: list[Place]
    wide_kernels: list[Place]
    wide_device_functions: list[Place]


def annotations(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation):
                pass
            case ast.FunctionDef(returns=annotation) | ast.AsyncFunctionDef(returns=annotation):
                pass
            case _:
                continue
        if annotation is not None:
            yield annotation


def any_count(tree: ast.AST) -> int:
    inside = (node for annotation in annotations(tree) for node in ast.walk(annotation))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in inside)


def positional_count(function: Function) -> int:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def python_metrics(path: Path, text: str) -> Metrics:
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    is_command = path.parent.name == "cli"
    wide = [Place(positional_count(f), path, f.lineno, f.name) for f in functions if not is_command]
    long = [Place((f.end_lineno or f.lineno) - f.lineno + 1, path, f.lineno, f.name) for f in functions]
    return Metrics(
        1, text.count("\n"), any_count(tree), [p for p in wide if p.number > MOST_PARAMETERS],
        [p for p in long if p.number > MOST_LINES], [], [],
    )  # fmt: skip


def cl_metrics(path: Path, text: str) -> Metrics:
    wide: dict[str, list[Place]] = {"KERNEL": [], "DEVICE": []}
    for match in CL_FUNCTION.finditer(text):
        place = Place(match[3].count(",") + 1, path, text.count("\n", 0, match.start()) + 1, match[2])
        if place.number > MOST_PARAMETERS:
            wide[match[1]].append(place)
    return Metrics(1, text.count("\n"), 0, [], [], wide["KERNEL"], wide["DEVICE"])


def measure(folders: list[Path]) -> Metrics:
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".cl")]
    total = Metrics(0, 0, 0, [], [], [], [])
    for path in files:
        counted = (python_metrics if path.suffix == ".py" else cl_metrics)(path, path.read_text(encoding="utf-8"))
        total = Metrics(*(a + b for a, b in zip(total, counted, strict=True)))
    return total


def show(title: str, places: list[Place]) -> None:
    print(f"{title}: {len(places)}")
    for place in sorted(places, reverse=True):
        print(f"  {place.number:4} {place.path}:{place.line} {place.name}")


def main(arguments: list[str]) -> None:
    metrics = measure([Path(argument) for argument in arguments] or [SOURCES])
    print(f"files: {metrics.files}\nlines: {metrics.lines}\nAny in annotations: {metrics.any_annotations}")
    show(f"functions with more than {MOST_PARAMETERS} positional parameters", metrics.wide_functions)
    show(f"functions of more than {MOST_LINES} lines", metrics.long_functions)
    show(f"GPU kernels with more than {MOST_PARAMETERS} parameters", metrics.wide_kernels)
    show(f"GPU device functions with more than {MOST_PARAMETERS} parameters", metrics.wide_device_functions)


if __name__ == "__main__":
    main(sys.argv[1:])
