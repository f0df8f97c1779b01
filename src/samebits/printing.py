"""Values and texts of anybody's, fit to be printed."""

from __future__ import annotations

from typing import Any

SHOWN = 80  # characters of a value in a message


def printable(text: str, keep: str = "") -> str:
    """The text with control characters and halves of characters spelt out: what data says must not move a cursor."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else _spelt(one) for one in text)


def _spelt(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def shown(value: Any) -> str:
    """A value as Python writes it, fit for one line of a message."""
    try:
        text = printable(repr(value))
    except Exception as error:  # a number of too many digits, or nested too deeply, or whatever a stranger's repr does
        text = f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
