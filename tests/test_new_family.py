"""docs/new-family.md, followed to the letter: its commands typed, its files written, in a copy of samebits."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from tests import test_contract
from tests.helpers import TIMEOUT
from tests.pages import ROOT, blocks, items
from tests.wheels import copy_kernels, install

PAGE = "docs/new-family.md"
CANNOT_RUN = {
    "make test": "it is what runs this test",
    "pip install ./samebits-mlp": "it needs a network; `install` does the same",
    "python -m samebits.verify.canary": "it trains every task of every family",
}
OTHER_CPU = "samebits verify spirals --cpus haswell"  # a test of its own: it compiles everything once more
VERIFY = "samebits verify spirals --gradients"


def type_in(place, command):
    """A shell line, as typed, where `samebits` and `python` are the copy's."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(place / "src"), str(place / "packages")]),
        "SAMEBITS_CACHE_DIR": str(place / "cache"),
        "PYTEST_ADDOPTS": f"-p no:cacheprovider --junit-xml={place / 'report.xml'}",
    }
    env.pop("COVERAGE_PROCESS_CONFIG", None)  # the copy is not what coverage is asked about
    functions = f'python() {{ "{sys.executable}" "$@"; }}; samebits() {{ python -m samebits "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", functions + command], cwd=place, env=env, capture_output=True, text=True, timeout=TIMEOUT
    )


def contract_tests(marked=None):
    """Names of the contract tests, or of those with a mark."""
    return {
        name
        for name, test in vars(test_contract).items()
        if name.startswith("test_")
        and (marked is None or marked in {mark.name for mark in getattr(test, "pytestmark", [])})
    }


def passed(place):
    """The contract tests that ran, all of them passed, none skipped."""
    suite = ElementTree.parse(place / "report.xml").getroot().find("testsuite")
    assert [suite.get(key) for key in ("failures", "errors", "skipped")] == ["0", "0", "0"]
    names = [case.get("name") for case in suite.iter("testcase")]
    assert all("mlp-spirals" in name for name in names)
    return {name.partition("[")[0] for name in names}


def follow(place, said):
    """Write the files and type the commands; what each printed, and the contract tests that passed."""
    printed, ran = {}, []
    for kind, text, heading in said:
        if kind == "python":
            (place / re.search(r"`(.+)`", heading)[1]).write_text(text, encoding="utf-8")
        elif text == "samebits tasks" or (
            len(text.split()) > 2 and text not in CANNOT_RUN
        ):  # `samebits eval` is a name
            done = type_in(place, text)
            copy_kernels(place / "src/samebits", place / "cache")  # `samebits tasks`, the first command, makes a cache
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
            printed[text] = done.stdout
            if "pytest" in text:
                ran.append(passed(place))
    return printed, ran


@pytest.fixture
def place(tmp_path):
    """A copy of samebits and its tests."""
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.cpus
@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="another type of x86-64 is no other type of this CPU"
)
def test_the_family_has_the_same_bits_on_another_cpu(place):
    said = items(PAGE)
    made = [item for item in said if item.kind == "python" or item.text.startswith(("mkdir", "touch"))]
    printed, _ = follow(place, [*made, *(item for item in said if item.text == OTHER_CPU)])
    assert "the same bits compiled for 1 other types of CPU" in printed[OTHER_CPU]


def test_the_page_makes_a_family_that_keeps_the_contract(place):
    said = items(PAGE)
    assert {*CANNOT_RUN, OTHER_CPU} <= {item.text for item in said}
    moved = [item for item in said if item.heading.startswith("8.")]
    printed, ran = follow(place, [item for item in said if item not in moved and item.text != OTHER_CPU])
    assert ran == [contract_tests(), contract_tests("jit_off")]
    assert "the same bits for 1, 2, 3, 5 workers" in printed[VERIFY]
    assert re.search(r"│ 10,000 │ +0 │", printed["samebits eval runs/spirals"])  # what `expect` says
    assert "spirals" in printed["samebits tasks"]
    linted = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "src/samebits/families/mlp", "tests/families/mlp"],
        cwd=place, capture_output=True, text=True,
    )  # fmt: skip
    assert linted.returncode == 0, linted.stdout
    # Other tests that go over every family.
    others = "tests/test_imports.py tests/bench/test_contest.py tests/bench/test_measurements.py"
    kept = type_in(place, f"python -m pytest {others} -k 'import or every_family or unknown_name or everything'")
    assert kept.returncode == 0, kept.stdout

    # The same family as a package: the same bits.
    first = [item for item in moved if not item.text.startswith("samebits")]
    follow(place, first)
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    (project,) = (block for _, language, block in blocks(page) if language == "toml")
    (place / "samebits-mlp/pyproject.toml").write_text(project, encoding="utf-8")
    assert "spirals" not in type_in(place, "samebits tasks").stdout
    install(place / "samebits-mlp", place / "packages")
    again, _ = follow(place, [item for item in moved if item not in first])
    assert "spirals" in again["samebits tasks"]
    assert again[VERIFY] == printed[VERIFY]
