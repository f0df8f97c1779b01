"""Frames of a grid as an animated GIF and as a PNG strip."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from samebits import files

PAPER, INK, CELL_0, CELL_1 = (250, 249, 246), (60, 62, 70), (236, 233, 224), (31, 60, 92)
HAIRLINE = (48, 48, 48)  # between coloured cells, which lie on black
MARGIN = 14
TARGET_PIXELS = 320  # a grid is drawn at about this size, in whole pixels a cell
STRIP_FRAMES = 8


def picture(cells: NDArray[Any], scale: int) -> Image.Image:
    """One grid (H, W) of values 0 to 1, or (H, W, 3) of colours 0 to 1, each cell a square with a hairline."""
    shade = np.clip(np.asarray(cells, np.float64), 0, 1)
    if shade.ndim == 2:
        colours = np.array(CELL_0) + shade[..., None] * (np.array(CELL_1) - np.array(CELL_0))
    else:
        colours = 255 * shade
    big = np.repeat(np.repeat(colours, scale, axis=0), scale, axis=1)
    if scale >= 8:
        big[::scale] = big[:, ::scale] = PAPER if shade.ndim == 2 else HAIRLINE
    return Image.fromarray(big.round().astype(np.uint8), "RGB")


def cell_scale(grid: NDArray[Any], pixels: int) -> int:
    """Whole pixels a cell, so that the longer side is about `pixels`."""
    return max(1, pixels // max(grid.shape[:2]))


def captioned(image: Image.Image, caption: str) -> Image.Image:
    """The picture on paper, with a line of text below."""
    font = ImageFont.load_default(size=16)
    width = max(image.width, math.ceil(font.getlength(caption)))
    sheet = Image.new("RGB", (width + 2 * MARGIN, image.height + 2 * MARGIN + 22), PAPER)
    sheet.paste(image, (MARGIN, MARGIN))
    ImageDraw.Draw(sheet).text((MARGIN, image.height + MARGIN + 6), caption, fill=INK, font=font)
    return sheet


def save_gif(path: Path, frames: Sequence[NDArray[Any]], captions: Sequence[str], milliseconds: int = 120) -> None:
    """All frames, the first and the last held longer, so that a viewer sees where it starts and ends."""
    scale = cell_scale(frames[0], TARGET_PIXELS)
    pages = [captioned(picture(frame, scale), text) for frame, text in zip(frames, captions, strict=True)]
    durations = [milliseconds] * len(pages)
    durations[0], durations[-1] = 800, 2000
    palette = [page.convert("P", palette=Image.Palette.ADAPTIVE, colors=64) for page in pages]
    content = io.BytesIO()
    palette[0].save(content, "GIF", save_all=True, append_images=palette[1:], duration=durations, loop=0, optimize=True)
    files.write(path, content.getvalue())


def save_strip(path: Path, frames: Sequence[NDArray[Any]], captions: Sequence[str]) -> None:
    """About eight frames side by side, the first and the last among them."""
    chosen = np.unique(np.linspace(0, len(frames) - 1, STRIP_FRAMES).round().astype(int))
    scale = cell_scale(frames[0], TARGET_PIXELS // 2)
    pages = [captioned(picture(frames[i], scale), captions[i]) for i in chosen]
    sheet = Image.new("RGB", (sum(page.width - MARGIN for page in pages) + MARGIN, pages[0].height), PAPER)
    left = 0
    for page in pages:
        sheet.paste(page, (left, 0))
        left += page.width - MARGIN
    content = io.BytesIO()
    sheet.save(content, "PNG")
    files.write(path, content.getvalue())
