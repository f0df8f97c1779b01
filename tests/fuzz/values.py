"""Values that nobody means to give, and a few that are right. All of them come from a seeded draw."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

TEXTS = (
    "", " ", "x", "é", "𝔘", "\ufeff", "\u202e", "²", "٣", "\x1b[2J", "a\nb", "\r", "\t", "\x7f", "~nosuchuser/x", "~",
    "$x_1$", "$", "{}", "%s", "..", "/", ".", "/dev/null", "-", "--", "-1", "0", "1e400", "nan", "inf", "true", "null",
    "auto", "last", "best", "step-", "9" * 5000, "[" * 3000, "(" * 3000, "{a=" * 3000, "x" * 300, "a/" * 3000, "'",
    '"', "\\", "1,,2",
    "1_000", "0x10", "[bold]x[/bold]", ":smile:",
)  # fmt: skip
UNWRITABLE = ("\0", "a\0b", "\ud800", "\udcff", "x\udc80y")  # no file has these in its text; from Python, anything can
SMALL = (0, 1, 2, 3, 5)
ABSURD = (-1, -(2**63), 2**63, 2**64, 10**20, 10**400)
LARGE = (255, 256, 65_536, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1)
FLOATS = (0.0, -0.0, 0.5, 1.0, -0.5, 1e-320, 1e-30, 1e30, 1e308, math.nan, math.inf, -math.inf)
WORK = {"steps", "eval_samples", "tokens", "samples", "schedule_steps", "expressions"}  # large is legal, and takes long


def odd_text(draw: random.Random, unwritable: bool = True) -> str:
    """A text that something may stumble over."""
    if draw.random() < 0.15:
        return "".join(
            chr(draw.choice((draw.randrange(128), draw.randrange(0xD800)))) for _ in range(draw.randrange(9))
        )
    found = draw.choice(TEXTS + UNWRITABLE if unwritable else TEXTS)
    return found + draw.choice(TEXTS[:12]) if draw.random() < 0.1 else found


def argument_text(draw: random.Random) -> str:
    """What a shell can hand over: no NUL, and bytes that are not UTF-8 as Python shows them."""
    return (
        draw.choice(("\udcff", "x\udc80y"))
        if draw.random() < 0.05
        else odd_text(draw, unwritable=False).replace("\0", "")
    )


def odd_number(draw: random.Random) -> int | float:
    return draw.choice(draw.choice((SMALL, ABSURD, LARGE, FLOATS)))


def count(draw: random.Random) -> int:
    """A number of things to do: few, or so many that it must be refused."""
    return draw.choice(SMALL) if draw.random() < 0.9 else draw.choice(ABSURD)


def odd_json(draw: random.Random, depth: int = 2) -> Any:
    """Anything that JSON can say, NaN included."""
    sort = draw.randrange(8 if depth else 6)
    if sort < 2:
        return odd_number(draw)
    if sort < 4:
        return odd_text(draw)
    if sort < 6:
        return draw.choice((None, True, False, [], {}, [[]]))
    if sort == 6:
        return [odd_json(draw, depth - 1) for _ in range(draw.randrange(4))]
    return {odd_text(draw): odd_json(draw, depth - 1) for _ in range(draw.randrange(4))}


def odd_setting(draw: random.Random, key: str, usual: Any = None) -> Any:
    """A value for a config key: near what it usually is, or of another type; never legal and a day's work."""
    if isinstance(usual, list | tuple) and usual and draw.random() < 0.5:
        found = list(usual)
        found[draw.randrange(len(found))] = odd_setting(draw, key)
        return found if draw.random() < 0.7 else [*found[: draw.randrange(len(found) + 1)], odd_json(draw)]
    if draw.random() < 0.4:
        return count(draw)
    if isinstance(usual, float) and draw.random() < 0.5:
        return draw.choice(FLOATS)
    found = odd_json(draw)
    return count(draw) if key in WORK and isinstance(found, int) and found > max(SMALL) else found


def nested(depth: int) -> list[Any]:
    """A list in a list in a list …"""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value as (container, key)."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from spots(value[key])


def spoil_json(draw: random.Random, value: Any) -> Any:
    """The value with one place of it lost, replaced, wrapped or added; the value itself may be replaced."""
    places = list(spots(value)) if isinstance(value, dict | list) else []
    if not places or draw.random() < 0.03:
        return odd_json(draw)
    box, key = draw.choice(places)
    action = draw.randrange(8)
    if action == 0:
        del box[key]
    elif action == 1:
        box[key] = draw.choice(([box[key]], {"x": box[key]}, nested(150), str(box[key])[:99]))
    elif action == 2 and isinstance(box, dict):
        box[odd_text(draw)] = odd_json(draw)
    elif action == 3 and isinstance(box[key], int | float):
        box[key] = draw.choice((-box[key], box[key] + 1, box[key] - 1, float(box[key])))
    else:
        box[key] = odd_json(draw)
    return value


def spoil_bytes(draw: random.Random, content: bytes) -> bytes:
    """The bytes with some of them changed, lost, doubled or added."""
    found = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        at, action = draw.randrange(len(found) + 1), draw.randrange(7)
        if action == 0:
            del found[at:]
        elif action == 1:
            del found[at : at + draw.randrange(1, 30)]
        elif action == 2:
            found[at:at] = draw.randbytes(draw.randrange(1, 9))
        elif action == 3:
            found[at:at] = found[at : at + draw.randrange(1, 40)]
        elif action == 4:
            found[at:at] = draw.choice(
                (b"\0", b"\xff\xfe", b"\n", b"\r", b"\x1b[31m", b"[" * 3000, b"9" * 5000, b'"', b"-")
            )
        elif at < len(found):
            found[at] = draw.randrange(256) if action == 5 else found[at] ^ 1 << draw.randrange(8)
    return bytes(found)


def spoil_text(draw: random.Random, text: str) -> bytes:
    """A text of lines with lines lost, doubled, moved or spoilt."""
    lines = text.splitlines(keepends=True)
    for _ in range(draw.choice((1, 1, 2, 4))):
        at, action = draw.randrange(len(lines) + 1), draw.randrange(6)
        if action == 0:
            del lines[at : at + draw.randrange(1, 4)]
        elif action == 1 and lines:
            lines.insert(at, draw.choice(lines))
        elif action == 2:
            lines.insert(at, odd_text(draw, unwritable=False) + "\n")
        elif action == 3 and at < len(lines):
            lines[at] = draw.choice((lines[at].replace(",", ";"), lines[at].upper(), lines[at].strip(), lines[at] * 2))
        elif at < len(lines):
            lines[at] = spoil_bytes(draw, lines[at].encode()).decode("latin-1")
    content = "".join(lines).encode("utf-8", "replace")
    return spoil_bytes(draw, content) if draw.random() < 0.15 else content
