"""Pictures to grow: built in, drawn as text, or read from an image file. A picture becomes rows of characters, which a
run's config keeps, so that the run does not depend on the file any more."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from samebits import checks
from samebits.engine.arrays import Array

INK = "#"  # a one-bit picture has only this and EMPTY
EMPTY = "."
COLOURS = {EMPTY: (0, 0, 0), "R": (1, 0, 0), "G": (0, 1, 0), "B": (0, 0, 1),
           "Y": (1, 1, 0), "M": (1, 0, 1), "C": (0, 1, 1), "W": (1, 1, 1)}  # fmt: skip
SMALLEST, LARGEST = 3, 64  # cells a side

LIZARD = (
    "....................",
    ".....####...........",
    "....######..........",
    "....######..........",
    "....######....##....",
    ".....####....###....",
    "..##..###...###.....",
    "..###.####.###......",
    "...##########.......",
    "....#########.......",
    "......#######.......",
    "......########......",
    ".....#########......",
    "....###.######......",
    "...###...######.....",
    "...##.....#####.....",
    "..........####......",
    ".........####.......",
    ".......####.........",
    "....................",
)
LETTER = (
    "................",
    ".WW..........WW.",
    ".RR..........RR.",
    ".RR..........RR.",
    ".YYY........YYY.",
    "..YY...YY...YY..",
    "..GG...GG...GG..",
    "..GGG.GGGG.GGG..",
    "...CC.CCCC.CC...",
    "...CC.CC.C.CC...",
    "...BBBB..BBBB...",
    "....BBB..BBB....",
    "....MMM..MMM....",
    "....MM....MM....",
    "....WW....WW....",
    "................",
)
FORMATS = ("PNG", "GIF", "BMP", "JPEG", "WEBP")  # not all that Pillow knows: some start other programs
LARGEST_FILE = 64 << 20
BUILT_IN = {"lizard": LIZARD, "letter": LETTER}


def read_target(text: str) -> tuple[str, ...]:
    """Rows of a picture from a built-in name, an image file or a text file of characters."""
    if text in BUILT_IN:
        return BUILT_IN[text]
    path = checks.path("target", text)
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:
        raise ValueError(
            f"target is {text!r}; it must be an image or text file of at most {LARGEST_FILE >> 20} MB, or "
            f"{' or '.join(BUILT_IN)}; name one"
        )
    try:
        rows = tuple(line.rstrip() for line in path.read_text(encoding="ascii").splitlines() if line.strip())
    except UnicodeDecodeError:
        return read_image(path)
    return rows


def read_image(path: Path) -> tuple[str, ...]:
    """Rows from an image: two colours become one bit, ink being what differs from the upper left corner."""
    from PIL import Image

    def unreadable(error: Exception) -> ValueError:
        return ValueError(f"target {path} is not a readable image ({error}); name a PNG or a text drawing")

    try:
        image = Image.open(path, formats=FORMATS)
    except Exception as error:  # decoders of somebody else's, and a file of anybody's
        raise unreadable(error) from None
    with image:
        width, height = image.size
        check_size(height, width, str(path))  # before the pixels are decoded
        try:
            pixels = np.asarray(image.convert("RGBA"))
        except Exception as error:
            raise unreadable(error) from None
    # Transparent is empty, whatever colour lies below.
    solid = pixels[..., 3] >= 128
    colours = np.where(solid[..., None], pixels[..., :3], 0)
    kinds = np.unique(colours.reshape(-1, 3), axis=0)
    if len(kinds) > len(COLOURS):
        raise ValueError(
            f"target {path} has {len(kinds)} colours; a picture may have at most {len(COLOURS)}; reduce its palette"
        )
    if len(kinds) <= 2:
        ink = (colours != colours[0, 0]).any(axis=-1)
        return tuple("".join(INK if cell else EMPTY for cell in row) for row in ink)
    letters = {bits: letter for letter, bits in COLOURS.items()}
    return tuple("".join(letters[tuple((pixel >= 128).astype(int).tolist())] for pixel in row) for row in colours)


def check_size(height: int, width: int, what: str) -> None:
    if not (SMALLEST <= height <= LARGEST and SMALLEST <= width <= LARGEST):
        raise ValueError(
            f"target {what} is {height}×{width} cells; each side must be {SMALLEST} to {LARGEST} cells; resize it"
        )


def check_rows(rows: tuple[str, ...]) -> None:
    """A picture is a rectangle of known characters, not all of them empty."""
    check_size(len(rows), len(rows[0]) if rows else 0, "picture")
    known = set(COLOURS) | {INK}
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise ValueError(f"target row {number} has {len(row)} cells, row 1 has {len(rows[0])}; make all rows equal")
        strange = set(row) - known
        if strange:
            raise ValueError(
                f"target row {number} holds {sorted(strange)[0]!r}; a cell is one of {' '.join(sorted(known))}; fix it"
            )
    used = set("".join(rows))
    if used <= {EMPTY}:
        raise ValueError("target is empty; there is nothing to grow; draw at least one cell")
    if INK in used and used - {INK, EMPTY}:
        raise ValueError(f"target mixes {INK} with colours; use {INK} for one bit, or letters for colours")


def target_channels(rows: tuple[str, ...]) -> int:
    return 1 if set("".join(rows)) <= {INK, EMPTY} else 3


def to_bits(rows: tuple[str, ...]) -> Array:
    """(H, W, 1) or (H, W, 3) float32: one bit, or red, green, blue."""
    if target_channels(rows) == 1:
        return np.array([[[cell == INK] for cell in row] for row in rows], np.float32)
    return np.array([[COLOURS[cell] for cell in row] for row in rows], np.float32)
