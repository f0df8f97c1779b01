"""Pictures to grow: built in, drawn as text, or read from an image file. A picture becomes rows of characters, which a
run's config keeps, so that the run does not depend on the file any more."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from samebits import checks
from samebits.arithmetic.arrays import Array

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
HEART = (
    ".............",
    ".............",
    "...##...##...",
    "..####.####..",
    "..#########..",
    "..#########..",
    "..#########..",
    "...#######...",
    "....#####....",
    ".....###.....",
    "......#......",
    ".............",
    ".............",
)
FORMATS = ("PNG", "GIF", "BMP", "JPEG", "WEBP")  # not all that Pillow knows: some start other programs
LARGEST_FILE = 64 << 20
STARTS = ("random", "centre", "zeros", "any")  # that are no picture
BUILT_IN = {"lizard": LIZARD, "letter": LETTER, "heart": HEART}


def read_target(text: str, name: str = "target") -> tuple[str, ...]:
    """Rows of a picture from a built-in name, an image file or a text file of characters."""
    if text in BUILT_IN:
        return BUILT_IN[text]
    path = checks.path(name, text)
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:
        kinds = list(BUILT_IN) if name == "target" else [*STARTS, *BUILT_IN]
        raise ValueError(
            f"{name} is {text!r}; it must be an image or text file of at most {LARGEST_FILE >> 20} MB, or "
            f"{' or '.join(kinds)}; name one"
        )
    try:
        text = path.read_text(encoding="ascii")
    except UnicodeDecodeError:
        return read_image(path)
    return join([picture.split() for picture in re.split(r"\n\s*\n", text.strip())])


def join(found: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Several pictures as one list of rows, an empty one between them."""
    return tuple(row for number, picture in enumerate(found) for row in ([""] * (number > 0) + list(picture)))


def split(rows: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The reverse."""
    cuts = [-1, *(i for i, row in enumerate(rows) if not row), len(rows)]
    return [rows[a + 1 : b] for a, b in pairwise(cuts)]


def read_pictures(name: str, given: Any, size: tuple[int, int]) -> tuple[str, ...]:
    """Rows of one picture or several, from what a user may mean by it: rows, a file, an array (H, W) or (H, W, 3), a
    function of the rows' and columns' numbers on a grid of this size, or a list of such things."""
    parts = given if isinstance(given, list | tuple) else ()
    rows = bool(parts) and all(isinstance(row, str) and set(row) <= {*COLOURS, INK} for row in parts)
    if isinstance(given, str | os.PathLike):
        return read_target(os.fspath(given), name)
    if isinstance(given, np.ndarray) or callable(given):
        return _from_array(name, np.broadcast_to(given(*np.indices(size)), size) if callable(given) else given)
    if rows:
        return tuple(parts)
    if parts and all(
        isinstance(part, str | os.PathLike | np.ndarray | list | tuple) or callable(part) for part in parts
    ):
        if any(isinstance(part, str) and len(parts) > 1 and not checks.path(name, part).is_file() for part in parts):
            check_rows(tuple(str(part) for part in parts))  # rows with something wrong in them
        return join([read_pictures(name, part, size) for part in parts])
    raise ValueError(
        f"{name} is {given!r}; it must be a file, {' or '.join(BUILT_IN)}, an array, or a list of rows such as "
        "'.##.'; name one"
    )


def checked_pictures(name: str, given: Any) -> tuple[str, ...]:
    """Rows of pictures, or the name of one of ours; raises where they are anything else."""
    rows = BUILT_IN.get(given) if isinstance(given, str) else given
    if not isinstance(rows, list | tuple) or not all(isinstance(row, str) for row in rows):
        raise ValueError(
            f"{name} is {given!r}; a config keeps rows such as '.##.', or {' or '.join(BUILT_IN)}; give files, arrays "
            "and functions to samebits.train"
        )
    check_pictures(tuple(rows))
    return tuple(rows)


def _from_array(name: str, given: Array) -> tuple[str, ...]:
    bits = given[..., 0] if given.ndim == 3 and given.shape[-1] == 1 else given
    if bits.ndim not in (2, 3) or (bits.ndim == 3 and bits.shape[-1] != 3) or not np.isin(bits, (0, 1)).all():
        raise ValueError(
            f"{name} is an array {given.shape}; it must be (height, width), or (height, width, 3) for colours, of 0 "
            "and 1; reshape it"
        )
    if bits.ndim == 2:
        return tuple("".join(INK if cell else EMPTY for cell in row) for row in bits)
    letters = {colour: letter for letter, colour in COLOURS.items()}
    return tuple("".join(letters[int(r), int(g), int(b)] for r, g, b in row) for row in bits)


def start_bits(rows: tuple[str, ...], channels: int) -> Array:
    """(H, W, C): a full cell has all channels; a coloured one its colours alone, in channels 0 to 2."""
    found = np.zeros((len(rows), len(rows[0]), channels), np.float32)
    bits = to_bits(rows)
    if bits.shape[-1] == 1:
        found[:] = bits
    else:
        found[..., :3] = bits[..., :channels]
    return found


def steps_needed(picture: Array, start: Array, periodic: bool) -> int | None:
    """The fewest CA steps in which a picture (H, W, k) can grow out of a start (H, W, C): a bit moves one cell a step,
    and cells that nothing has reached are all alike. None: never, for nothing tells one cell from another."""
    height, width = picture.shape[:2]
    seeds = np.argwhere((start != start[0, 0]).any(axis=-1))
    if (start != 0).any() and len(seeds) > height * width // 2:  # the corner is the odd one
        seeds = np.argwhere((start != np.median(start.reshape(-1, start.shape[-1]), axis=0)).any(axis=-1))
    y, x = np.indices((height, width))
    far = height + width
    distance = np.full((height, width), far) if periodic else np.minimum.reduce([y + 1, height - y, x + 1, width - x])
    for row, column in seeds:
        dy, dx = np.abs(y - row), np.abs(x - column)
        if periodic:
            dy, dx = np.minimum(dy, height - dy), np.minimum(dx, width - dx)
        distance = np.minimum(distance, np.maximum(dy, dx))
    for steps in range(far):
        rest = picture[distance > steps]
        if (rest == rest[:1]).all():
            return steps
    return None


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


def check_pictures(rows: tuple[str, ...]) -> None:
    """All of them pictures, and of one size."""
    found = split(rows)
    for picture in found:
        check_rows(picture)
        if (len(picture), len(picture[0])) != (len(found[0]), len(found[0][0])):
            raise ValueError(
                f"one picture is {len(picture)}×{len(picture[0])} cells, the first {len(found[0])}×{len(found[0][0])}; "
                "make them equal"
            )
    if len({target_channels(picture) for picture in found}) > 1:
        raise ValueError(f"some pictures use {INK} and some colours; use one of the two for all")


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
