"""Imports run one way: cli → everything; families → the engine's building blocks; engine and report → no family."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import samebits

PACKAGE = Path(samebits.__file__).parent
TRAINER = {
    "samebits.engine.train",
    "samebits.engine.runfolder",
    "samebits.engine.checkpoint",
}


def imports_of(path):
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name == "samebits" or name.startswith("samebits.")}


def offenders(folder, forbidden):
    return [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for name in sorted(imports_of(path))
        if forbidden(path, name)
    ]


def test_the_engine_imports_no_family_and_nothing_above_it():
    above = (
        "samebits.families",
        "samebits.distance",
        "samebits.cli",
        "samebits.api",
        "samebits.bench",
        "samebits.verify",
        "samebits.report",
    )
    assert offenders("engine", lambda path, name: name.startswith(above)) == []


def test_a_family_imports_neither_the_trainer_nor_another_family():
    def forbidden(path, name):
        own = f"samebits.families.{path.relative_to(PACKAGE / 'families').parts[0]}"
        if path.parent == PACKAGE / "families":  # discovery itself
            return name in TRAINER
        outside = ("samebits.cli", "samebits.api", "samebits.bench", "samebits.verify")
        if is_loaded_when_used(path):
            outside = ("samebits.cli", "samebits.verify")
        other_family = name.startswith("samebits.families.") and not name.startswith(own)
        for_bench = re.match(r"samebits\.families\.\w+\.(peer|measure)_", name)
        return name in TRAINER or name.startswith(outside) or other_family or for_bench

    assert offenders("families", forbidden) == []


def is_loaded_when_used(path):
    """What `samebits bench` alone needs of a family, and finds by its name (engine/parts.py)."""
    return path.stem.startswith(("peer_", "measure_"))


def test_training_loads_no_benchmark():
    """Nor do the families' records: PyTorch and JAX are for whoever measures."""
    code = (
        "import sys, samebits.engine.train, samebits.families as families; families.discover(); "
        "print(*(name for name in sys.modules if name.startswith(('samebits.bench', 'torch', 'jax'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_distances_import_only_the_building_blocks():
    def forbidden(path, name):
        outside = (
            "samebits.families",
            "samebits.cli",
            "samebits.api",
            "samebits.bench",
            "samebits.verify",
            "samebits.report",
        )
        return name in TRAINER or name.startswith(outside)

    assert offenders("distance", forbidden) == []


def test_hardware_knows_no_family():
    known = (
        "samebits.engine",
        "samebits.families",
        "samebits.cli",
        "samebits.api",
        "samebits.bench",
        "samebits.verify",
    )
    assert offenders("hardware", lambda path, name: name.startswith(known)) == []


def test_readers_share_nothing_with_writers():
    def shared(path, name):
        return path.parent.name == "readers" and name.startswith(
            ("samebits.hardware.writers", "samebits.hardware.cell")
        )

    assert offenders("hardware", shared) == []


def test_reports_import_neither_engine_nor_families():
    assert (
        offenders(
            "report", lambda path, name: name.startswith(("samebits.engine", "samebits.families", "samebits.cli"))
        )
        == []
    )


def test_only_the_command_line_imports_the_command_line():
    for folder in ("engine", "families", "hardware", "distance", "report", "bench", "verify", "serve"):
        assert offenders(folder, lambda path, name: name.startswith("samebits.cli")) == []


def test_only_the_command_line_imports_the_server():
    for folder in ("engine", "families", "hardware", "distance", "report", "bench", "verify"):
        assert offenders(folder, lambda path, name: name.startswith("samebits.serve")) == []
