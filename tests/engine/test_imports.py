"""Imports run one way: cli → everything; families → the engine's building blocks; engine and report → no family."""

import ast
from pathlib import Path

import weft

PACKAGE = Path(weft.__file__).parent
TRAINER = {"weft.engine.train", "weft.engine.runfolder", "weft.engine.checkpoint", "weft.engine.backend"}


def imports_of(path):
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name == "weft" or name.startswith("weft.")}


def offenders(folder, forbidden):
    return [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for name in sorted(imports_of(path))
        if forbidden(path, name)
    ]


def test_the_engine_imports_no_family_and_nothing_above_it():
    above = ("weft.families", "weft.distance", "weft.cli", "weft.api", "weft.bench", "weft.verify", "weft.report")
    assert offenders("engine", lambda path, name: name.startswith(above)) == []


def test_a_family_imports_neither_the_trainer_nor_another_family():
    def forbidden(path, name):
        own = f"weft.families.{path.relative_to(PACKAGE / 'families').parts[0]}"
        if path.parent == PACKAGE / "families":  # discovery itself
            return name in TRAINER
        outside = ("weft.cli", "weft.api", "weft.bench", "weft.verify")
        other_family = name.startswith("weft.families.") and not name.startswith(own)
        return name in TRAINER or name.startswith(outside) or other_family

    assert offenders("families", forbidden) == []


def test_distances_import_only_the_building_blocks():
    def forbidden(path, name):
        outside = ("weft.families", "weft.cli", "weft.api", "weft.bench", "weft.verify", "weft.report")
        return name in TRAINER or name.startswith(outside)

    assert offenders("distance", forbidden) == []


def test_reports_import_neither_engine_nor_families():
    assert offenders("report", lambda path, name: name.startswith(("weft.engine", "weft.families", "weft.cli"))) == []


def test_only_the_command_line_imports_the_command_line():
    for folder in ("engine", "families", "distance", "report", "bench", "verify"):
        assert offenders(folder, lambda path, name: name.startswith("weft.cli")) == []
