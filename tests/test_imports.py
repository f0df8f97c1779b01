"""Imports run one way: cli → everything; families → building blocks; the layers of training and report → no family."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import samebits
from samebits.families import built_in

PACKAGE = Path(samebits.__file__).parent
# What a run is trained by, in the order of dependency: each imports itself, what comes before it, and SHARED.
LAYERS = [f"samebits.{name}" for name in ("compiler", "arithmetic", "devices", "groups", "training", "runs")]
SHARED = [f"samebits.{name}" for name in ("bits", "checks", "config", "errors", "files", "metrics", "printing")]
LEAVES = [f"samebits.{name}" for name in ("bench", "cli", "distance", "hardware", "report", "serve", "verify")]
BELOW = ("families", "hardware", "distance", "report", "bench", "verify")
TRAINER = {
    "samebits.runs.loop",
    "samebits.runs.runfolder",
    "samebits.runs.checkpoint",
}


def imports_of(path):
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} - {"samebits"}  # `from samebits import files` is samebits.files
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name == "samebits" or name.startswith("samebits.")}


def offenders(folder, forbidden):
    return [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for name in sorted(imports_of(path))
        if forbidden(path, name)
    ]


def package_of(path):
    """`samebits.training` for training/trainer.py; `samebits.api` for api.py."""
    return f"samebits.{path.relative_to(PACKAGE).parts[0].removesuffix('.py')}"


def test_a_package_imports_only_packages_below_it():
    def above(path, name):
        place, package = LAYERS.index(package_of(path)), ".".join(name.split(".")[:2])
        return package not in (*SHARED, *LAYERS[: place + 1])

    assert [wrong for layer in LAYERS for wrong in offenders(layer.removeprefix("samebits."), above)] == []


def test_every_package_of_training_is_a_layer():
    """A new package is put into the order above, or stated to be a leaf that only the command line uses."""
    packages = {f"samebits.{path.parent.name}" for path in PACKAGE.glob("*/__init__.py")}
    assert packages == {*LAYERS, *LEAVES, "samebits.families"}


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
    """What `samebits bench` alone needs of a family, and finds by its name (training/parts.py)."""
    return path.stem.startswith(("peer_", "measure_"))


def test_training_loads_no_benchmark_and_no_server():
    """Nor do the families' records: PyTorch and JAX are for whoever measures."""
    code = (
        "import sys, samebits.runs.loop, samebits.families as families; families.discover(); "
        "unwanted = ('samebits.bench', 'samebits.serve', 'fastapi', 'matplotlib', 'torch', 'jax'); "
        "print(*(name for name in sys.modules if name.startswith(unwanted)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_only_families_name_families():
    """What others need of a family is in its record; so a family of another package gets it too."""
    names, wrong = set(built_in()), []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] == "families":
            continue
        if place != Path("__init__.py"):  # which imports the classes of models for type checkers
            folders = tuple(f"samebits.families.{name}" for name in names)
            wrong += [f"{place} imports {name}" for name in imports_of(path) if name.startswith(folders)]
        if place.parts[0] != "distance":  # where a graph is not a family
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            values = [node.value for node in nodes if isinstance(node, ast.Constant)]
            wrong += [f"{place} names {value}" for value in values if value in names]
    assert wrong == []


def test_what_judges_a_family_shares_nothing_with_it():
    """A reference knows the config and the records that kernels are given; the twins of the tests know nothing."""
    known = re.compile(r"samebits\.(arithmetic\.arrays(\.Array)?|families\.\w+(\.config(\.\w+)?|\.store(\.Store)?)?)")
    references = sorted((PACKAGE / "families").glob("*/reference.py"))
    shared = [(path.parent.name, name) for path in references for name in imports_of(path) if not known.fullmatch(name)]
    assert references
    assert shared == []
    twins = sorted(Path(__file__).parent.glob("families/*/twin.py"))
    assert len(twins) == len(references)
    assert [(path.parent.name, name) for path in twins for name in imports_of(path)] == []


def test_peers_are_written_without_the_kernels():
    """They get a problem; of a family they know its config, and where its data comes from."""

    def shared(path, name):
        own = f"samebits.families.{path.relative_to(PACKAGE / 'families').parts[0]}"
        inside = name.startswith(f"{own}.") and not name.startswith((f"{own}.config", f"{own}.data"))
        return path.stem.startswith("peer_") and inside

    assert offenders("families", shared) == []


def test_only_the_record_of_a_family_has_its_reference():
    """What is judged by it must not be made of it."""

    def made_of_it(path, name):
        return path.name != "family.py" and re.search(r"\.reference(\.|$)", name)

    assert offenders("", made_of_it) == []


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
        *LAYERS,
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
    assert offenders("report", lambda path, name: name.startswith((*LAYERS, "samebits.families", "samebits.cli"))) == []


def test_the_command_line_starts_without_a_family():
    """Loading them takes a third of a second: `samebits --help` needs none."""
    code = "import sys, samebits.cli; print(*(name for name in sys.modules if name.startswith('samebits.families.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_only_the_command_line_imports_the_command_line():
    for folder in (*BELOW, "serve"):
        assert offenders(folder, lambda path, name: name.startswith("samebits.cli")) == []


def test_only_the_command_line_imports_the_server():
    for folder in BELOW:
        assert offenders(folder, lambda path, name: name.startswith("samebits.serve")) == []
