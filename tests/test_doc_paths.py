"""Every link of the documentation leads somewhere, and every file it names is there."""

from __future__ import annotations

import re

import pytest

from tests.pages import PAGES, ROOT, blocks, prose

FOLDERS = ("src", "tests", "docs", "benchmarks", ".ci", ".github", "tools")
# Files a run, an export or a reader makes; and what docs/new-family.md makes.
MADE = {
    "runs/", "checkpoints/", "plots/", "src/samebits/families/mlp/", "tests/families/mlp/", "config.json", "state.json",
    "tokenizer.json", "for-transformers", "other.txt", "pairs.jsonl", "picture.png",
}  # fmt: skip


def everything():
    """Files and folders of the repository, folders with a slash at the end."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    found += [path for folder in FOLDERS for path in (ROOT / folder, *(ROOT / folder).rglob("*"))]
    return [f"/{path.relative_to(ROOT).as_posix()}" + "/" * path.is_dir() for path in found]


THERE = everything()


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def is_there(name):
    """The whole path, or the end of one: pages say `devices/cpu/tree.py`, or `merge.py` where the folder is clear."""
    ends = f"/{name}", f"/{name}/"
    return any(path.endswith(ends) for path in THERE) or any(name.startswith(made) for made in MADE)


def tree(block):
    """Paths of a drawn tree: names at the beginning of a line, indented below their folder."""
    folders: list[tuple[int, str]] = []
    for line in block.splitlines():
        indent, name = len(line) - len(line.lstrip()), line.split()[0] if line.split() else ""
        while folders and folders[-1][0] >= indent:
            folders.pop()
        path = "".join(folder for _, folder in folders) + name
        if name.endswith("/"):
            folders.append((indent, name))
        yield path


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)", prose(text_of(page)))
    assert [link for link in links if "://" not in link and not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_files_named_are_there(page):
    spans = re.findall(r"`([\w./-]+)`", prose(text_of(page)))
    names = [span for span in spans if re.search(r"\.(py|md|jsonl?|gif|png)$|^[\w.-]+/[\w./-]*$", span)]
    assert [name for name in names if not re.search(r"\b(NAME|TASK|N)\b", name) and not is_there(name)] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_drawn_tree_is_the_one_there(page):
    (drawn,) = (block for _, _, block in blocks(text_of(page)) if block.startswith("src/samebits/\n"))
    paths = [path for path in tree(drawn) if "NAME" not in path]
    assert len(paths) > 10
    assert [path for path in paths if f"/{path}" not in THERE] == []
    (pages,) = re.findall(r"^docs/ +(.*)$", drawn, re.MULTILINE)
    assert set(pages.split(", ")) == {path.name for path in (ROOT / "docs").glob("*.md")}
