"""What the pages of the documentation tell a reader to type, in the order they say it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "src/samebits/families/*/README.md")
    for path in ROOT.glob(pattern)
)
PROGRAMS = r"(?:\w+=\S+ )*(?:samebits|make|python|pip|git|mkdir|touch) "
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RECORDS = re.compile(r"<!-- records:.*?<!-- /records -->", re.DOTALL)  # tables say what was typed, not what to type
SPAN = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")


class Item(NamedTuple):
    """A command, a fragment to add to one (a span of a table that begins with --), or a block of Python."""

    kind: str  # shell, fragment, python
    text: str
    heading: str  # the last one above it


def blocks(text: str) -> list[tuple[int, str, str]]:
    """Fenced blocks: (place, language, contents)."""
    return [(found.start(), found[1], found[2]) for found in FENCE.finditer(text)]


def prose(text: str) -> str:
    """The page with its fenced blocks and tables of records blanked, every other character where it was."""
    for pattern in (FENCE, RECORDS):
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def command_lines(language: str, block: str) -> list[str]:
    """The commands of a block, continued lines joined, comments left out. In a block marked sh every line is one."""
    lines = [line.partition(" # ")[0].strip() for line in block.replace("\\\n", " ").splitlines()]
    return [re.sub(r" {2,}", " ", line) for line in lines if line and (language == "sh" or re.match(PROGRAMS, line))]


def items(page: str) -> list[Item]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found: list[tuple[int, str, str]] = []
    for place, language, block in blocks(text):
        if language == "python":
            found.append((place, "python", block))
        else:
            found += [(place, "shell", line) for line in command_lines(language, block)]
    for span in SPAN.finditer(prose(text)):
        words = " ".join(span[1].split())
        if re.match(PROGRAMS, words):
            found.append((span.start(), "shell", words))
        elif words.startswith("--") and text[: span.start()].rpartition("\n")[2].startswith("|"):
            found.append((span.start(), "fragment", words))
    found += [
        (line.start(), "shell", line[1]) for line in re.finditer(rf"^    ({PROGRAMS}.*)$", prose(text), re.MULTILINE)
    ]
    headings = [(line.start(), line[1]) for line in re.finditer(r"^#+ (.*)$", prose(text), re.MULTILINE)]
    return [
        Item(kind, words, next((title for start, title in reversed(headings) if start < place), ""))
        for place, kind, words in sorted(found, key=lambda item: item[0])
    ]
