"""What a user's tools see of the package before they run it."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata, resources
from pathlib import Path

import samebits

ROOT = Path(__file__).parents[1]


def test_the_version_is_the_installed_one(monkeypatch):
    monkeypatch.setattr(metadata, "version", {"samebits": "9.8.7"}.__getitem__)
    assert samebits.__version__ == "9.8.7"


def test_a_checkout_that_is_not_installed_has_a_version_too(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert samebits.__version__ == "0+unknown"


def test_all_that_is_listed_is_there():
    for name in samebits.__all__:
        assert getattr(samebits, name) is not None
    assert "__version__" in samebits.__all__


def test_type_checkers_may_read_our_annotations():
    assert (resources.files(samebits) / "py.typed").is_file()


def test_the_changelog_begins_with_the_version_to_come():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == version
