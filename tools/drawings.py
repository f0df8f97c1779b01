"""Twelve drawings that no recipe was tuned for, from 12×12 to 24×24 cells, and whether they grow to the last cell.

    python tools/drawings.py drawings              writes them as text files
    python tools/drawings.py drawings --train      … and trains each, and says how many cells are wrong in the end

Letters, symbols, blobs and lines of one cell, made by rule or drawn from a fixed seed, so that everybody has the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from samebits import train
from samebits.arithmetic import rng
from samebits.families.logic_ca.pictures import check_rows

LETTERS = {  # 5×7 cells each, row by row
    "A": ("01110", "10001", "10001", "11111", "10001", "10001", "10001"),
    "K": ("10001", "10010", "10100", "11000", "10100", "10010", "10001"),
    "S": ("01111", "10000", "10000", "01110", "00001", "00001", "11110"),
}


def letter(name: str, scale: int, height: int, width: int) -> np.ndarray:
    """A letter in the middle, every cell of it scale × scale."""
    small = np.array([[int(cell) for cell in row] for row in LETTERS[name]], bool)
    large = small.repeat(scale, axis=0).repeat(scale, axis=1)
    found = np.zeros((height, width), bool)
    y, x = (height - large.shape[0]) // 2, (width - large.shape[1]) // 2
    found[y : y + large.shape[0], x : x + large.shape[1]] = large
    return found


def blob(seed: int, size: int) -> np.ndarray:
    """Random cells that became what most of their neighbours were, four times over."""
    cells = rng.bits((size, size), seed, rng.Purpose.RENDER, 0).astype(int)
    cells[[0, -1]] = cells[:, [0, -1]] = 0
    for _ in range(4):
        around = sum(np.roll(cells, (y, x), (0, 1)) for y in (-1, 0, 1) for x in (-1, 0, 1))
        cells = (around >= 5).astype(int)
        cells[[0, -1]] = cells[:, [0, -1]] = 0
    return cells.astype(bool)


def drawings() -> dict[str, np.ndarray]:
    y, x = np.indices((24, 24))
    cross = (np.abs(y[:15, :15] - 7) <= 1) ^ (np.abs(x[:15, :15] - 7) <= 1)
    ring = np.hypot(y[:14, :14] - 6.5, x[:14, :14] - 6.5)
    spiral, row, column = np.zeros((13, 13), bool), 1, 1
    for turn, length in enumerate((11, 11, 11, 9, 9, 7, 7, 5, 5, 3, 3)):
        down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[turn % 4]
        for _ in range(length - 1):
            spiral[row, column] = True
            row, column = row + down, column + right
    wave = np.abs(y[:16, :20] - 8 - 3 * np.sin(x[:16, :20] / 3)) <= 0.5
    high, wide = y[:18, :18], x[:18, :18]
    shaft, tip = (np.abs(high - 9) <= 1) & (wide >= 2) & (wide < 9), (wide >= 9) & (np.abs(high - 9) <= 16 - wide)
    return {
        "letter-a": letter("A", 1, 12, 12),
        "letter-k": letter("K", 2, 18, 14),
        "letter-s": letter("S", 3, 24, 24),
        "cross": cross,
        "ring": (ring < 6) & (ring > 3.5),
        "arrow": shaft | tip,
        "line": y[:12, :12] == x[:12, :12],
        "spiral": spiral,
        "wave": wave,
        "blob-1": blob(1, 12),
        "blob-2": blob(2, 16),
        "blob-3": blob(3, 24),
    }


def rows_of(cells: np.ndarray) -> tuple[str, ...]:
    return tuple("".join("#" if cell else "." for cell in row) for row in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--steps", type=int, default=3500)
    parser.add_argument("--repair", type=int, default=200)
    parser.add_argument("--workers", default="auto")
    parser.add_argument("--only", default="", help="names, with commas between them")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, cells in drawings().items():
        rows = rows_of(cells)
        check_rows(rows)
        (asked.folder / f"{name}.txt").write_text("\n".join(rows) + "\n")
        if asked.train and (not asked.only or name in asked.only.split(",")):
            out = asked.folder / f"run-{name}-{asked.steps}"
            settings = {"steps": asked.steps, "repair": asked.repair, "eval_every": 50}
            run = train("grow", target=rows, out=out, workers=asked.workers, **settings)
            found = run.metrics["eval_hard_loss"]
            seen = found[np.isfinite(found)]
            # The last evaluation is of the repaired circuit, those before of what soft training had.
            print(f"{name}  {len(rows)}×{len(rows[0])}  before {seen[-2]:.0f}  repaired {seen[-1]:.0f}", flush=True)


if __name__ == "__main__":
    main()
