"""A family in somebody else's package (tests/outside), installed beside samebits: the command line finds it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import samebits as package
from samebits.compiler.kernel_cache import kernel_hash
from tests.helpers import TIMEOUT, samebits, weights_line
from tests.wheels import copy_kernels, install, unpack

PROJECT = Path(__file__).parent / "outside"
OURS = Path(package.__file__).parents[1]
PAGE = """
import json, pathlib, samebits
from samebits.serve.details import details
from samebits.serve.runs import Library
library = Library([pathlib.Path("full")])
library.scan()
model = samebits.load("full")
print(json.dumps([model.weights.tolist(), model.config.noise, details(library.summary("full"), library.find("full"))]))
"""
BARE = '[project]\nname = "bare"\nversion = "1"\n[project.entry-points."samebits.families"]\nbare = "bare:FAMILY"\n'


class Place:
    """A folder with packages installed in it, and processes that see them."""

    def __init__(self, path: Path) -> None:
        self.path, self.packages = path, path / "packages"
        self.env = {
            "PYTHONPATH": os.pathsep.join([str(OURS), str(self.packages)]),
            "SAMEBITS_CACHE_DIR": str(path / "cache"),  # its kernels would drive ours out of the one we share
        }

    def type(self, *words: object) -> str:
        done = samebits(*words, cwd=self.path, env=self.env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *words: object) -> str:
        done = samebits(*words, cwd=self.path, env=self.env)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        return done.stderr

    def python(self, code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.path, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=TIMEOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def install_other(place, changes):
    """The package once more under another name, with changes in its files."""
    project = place.path / "project"
    shutil.copytree(PROJECT, project)
    (project / "src/samebits_linear").rename(project / "src/samebits_other")
    for path in (project / "pyproject.toml", *project.rglob("*.py")):
        text = re.sub(r"samebits([-_])linear", r"samebits\1other", path.read_text(encoding="utf-8"))
        for old, new in changes.items():
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
    unpack(project, place.packages)


def install_bare(place, text):
    """A package of one module."""
    project = place.path / "bare"
    (project / "src").mkdir(parents=True)
    (project / "pyproject.toml").write_text(BARE, encoding="utf-8")
    (project / "src/bare.py").write_text(text, encoding="utf-8")
    unpack(project, place.packages)


def test_it_is_listed_trained_verified_and_timed(place):
    """In one test: its sources are in the key of the kernel cache, so the cache is its own."""
    install(PROJECT, place.packages)
    tasks = place.type("tasks")
    copy_kernels(OURS / "samebits", place.path / "cache")
    assert re.search(r"^linear +find four numbers$", tasks, re.MULTILINE)
    assert re.search(
        r"│ full +│ +4 │ +200 │ +64 │ the default; they are 0.5, -1.5, 2 and 0.25", place.type("tasks", "linear")
    )
    assert "checkerboard" in tasks

    small = [place.type("train", "linear", "--preset", "small", "--workers", n, "--out", f"small-{n}") for n in (1, 3)]
    assert len({weights_line(text) for text in small}) == 1
    options = ["--noise", 0.05, "--show-every", 100]
    trained = samebits("train", "linear", *options, "--out", "full", cwd=place.path, env=place.env)
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout.splitlines()[-1] == "next: samebits resume full --steps 400"
    assert re.findall(r"^--- step (\d+) ---\nweights [-\d., ]+$", trained.stderr, re.MULTILINE) == ["100", "200"]
    learned, noise, page = json.loads(place.python(PAGE))
    assert (learned, noise) == (pytest.approx([0.5, -1.5, 2.0, 0.25], abs=0.05), 0.05)
    assert page["commands"] == ["samebits resume full --steps 400"] * 2
    assert (page["can"], page["details"]) == ("", {"noise": 0.05, "plane": "0.5, -1.5, 2 and 0.25"})
    assert place.refused("train", "linear", "--data", "text.txt") == (
        "samebits: --data is not for task linear: linear has no such key; leave it out\n"
    )
    assert place.refused("eval", "full") == "samebits: full is a linear run; that family has no tests of its own\n"

    verified = place.type("verify", "linear", "--gradients")
    rows = re.findall(r"^│ samebits │ +(\d+) │ (\w{64}) │ (\w{16}) │$", verified, re.MULTILINE)
    assert [int(count) for count, _, _ in rows] == [1, 2, 3, 5]
    assert len({found[1:] for found in rows}) == 1
    assert "the same bits for 1, 2, 3, 5 workers" in verified

    timed = place.type("bench", "linear", "--no-record", "--workers", "1,2", "--steps", "5")
    assert re.findall(r"^│ ([^│]+?) +│ +(\d+) │", timed, re.MULTILINE) == [("samebits", "1"), ("samebits", "2")]
    assert "bits equal for all counts" in timed
    assert not (place.path / "benchmarks").exists()


def test_without_the_package_there_is_no_such_task(place):
    assert "there is no task 'linear'" in place.refused("train", "linear")


def test_its_sources_are_in_the_key_of_the_kernel_cache(place, monkeypatch):
    seen = [kernel_hash()]
    unpack(PROJECT, place.packages)
    monkeypatch.syspath_prepend(place.packages)
    seen.append(kernel_hash())
    assert kernel_hash() == seen[-1]
    for name in ("__init__.py", "family.py", "kernels.py"):
        with (place.packages / "samebits_linear" / name).open("a", encoding="utf-8") as file:
            file.write("# changed\n")
        seen.append(kernel_hash())
    assert len(set(seen)) == 5


def test_so_is_the_source_of_a_module_that_is_no_package(place, monkeypatch):
    install_bare(place, "FAMILY = None\n")
    monkeypatch.syspath_prepend(place.packages)
    before = kernel_hash()
    (place.packages / "bare.py").write_text("FAMILY = 0\n", encoding="utf-8")
    assert kernel_hash() != before


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({'name="linear"': 'name="other"', '"linear": Task': '"life": Task'}, "the tasks life"),
        ({'name="linear"': 'name="graph"', '"linear": Task': '"another": Task'}, "the name graph"),
    ],
    ids=["task", "family"],
)
def test_a_name_that_is_taken_is_refused(place, changes, told):
    install_other(place, changes)
    for words in (["tasks"], ["train", "checkerboard", "--preset", "small"]):
        assert place.refused(*words) == (
            f"samebits: the family samebits_other.family:FAMILY has {told} of another one; "
            "rename it or uninstall its package\n"
        )
    place.type("--version")  # what needs no family works


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import nowhere", "family bare:FAMILY cannot be loaded (ModuleNotFoundError: No module named 'nowhere')"),
        ("", "family bare:FAMILY cannot be loaded (AttributeError: module 'bare' has no attribute 'FAMILY')"),
        ("FAMILY = {}", "entry point bare:FAMILY is a dict; it must be a samebits.training.contract.Family"),
    ],
    ids=["import", "no family", "something else"],
)
def test_a_package_that_is_broken_is_named(place, text, told):
    install_bare(place, text)
    assert place.refused("tasks") == f"samebits: the {told}; update its package or uninstall it\n"
