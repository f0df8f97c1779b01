"""Exported files at work: the C header in a small program, a grid's Verilog in Verilator or Icarus."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samebits import files
from samebits.errors import SamebitsError
from samebits.hardware.cell import Cell
from samebits.hardware.writers import bench, c, grid

# States and masks come and go as a byte a bit, plane by plane; the seconds of the steps alone go to standard error.
PROGRAM = """\
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "{name}.h"

int main(int count, char **words) {{
  const size_t height = atol(words[1]), width = atol(words[2]), steps = atol(words[3]), masks = atol(words[4]);
  const size_t size = {NAME}_CHANNELS * {name}_plane(height, width), row = (width + 63) / 64;
  uint64_t *now = calloc(size, 8), *then = calloc(size, 8), *fire = calloc(masks * height * row + 1, 8);
  for (size_t k = 0; k < {NAME}_CHANNELS; k++)
    for (size_t y = 0; y < height; y++)
      for (size_t x = 0; x < width; x++) {name}_put(now, height, width, k, y, x, getchar() == 1);
  for (size_t t = 0; t < masks; t++)
    for (size_t y = 0; y < height; y++)
      for (size_t x = 0; x < width; x++)
        fire[(t * height + y) * row + x / 64] |= (uint64_t)(getchar() == 1) << x % 64;
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (size_t t = 0; t < steps; t++) {{
    {name}_step(then, now, height, width, masks ? fire + t * height * row : NULL);
    uint64_t *last = now; now = then; then = last;
  }}
  clock_gettime(CLOCK_MONOTONIC, &end);
  for (size_t k = 0; k < {NAME}_CHANNELS; k++)
    for (size_t y = 0; y < height; y++)
      for (size_t x = 0; x < width; x++) putchar({name}_get(now, height, width, k, y, x));
  fprintf(stderr, "%.9f", end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec));
  return count != 5;
}}
"""


def require(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise SamebitsError(f"{program} is not installed, and it is needed here; install the package {package}")


def build_c(cell: Cell, folder: Path) -> Path:
    """The header with a program around it, compiled for this processor."""
    require("cc", "build-essential")
    files.write(folder / f"{cell.name}.h", c.write(cell))
    files.write(folder / "main.c", PROGRAM.format(name=cell.name, NAME=cell.name.upper()).encode())
    _run(["cc", "-O3", "-march=native", "-std=c99", "-Wall", "-Werror", "-o", "program", "main.c"], folder)
    return folder / "program"


def run_c(program: Path, start: Any, steps: int, fire: Any = None) -> tuple[Any, float]:
    """start (K, H, W) and fire (steps, H, W) of 0 and 1 → the last state, and the seconds of the steps."""
    K, height, width = start.shape
    masks = np.zeros((0, height, width), np.uint8) if fire is None else np.asarray(fire, np.uint8)
    given = np.asarray(start, np.uint8).tobytes() + masks.tobytes()
    words = [str(program), *(str(number) for number in (height, width, steps, len(masks)))]
    done = subprocess.run(words, input=given, capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.uint8).reshape(K, height, width), float(done.stderr)


def build_simulation(
    cell: Cell, size: tuple[int, int], states: Any, fire: Any, simulator: str, folder: Path
) -> list[str]:
    """The grid with its test bench, ready to run: the words that run it."""
    files.write(folder / f"{cell.name}_grid.v", grid.write(cell, *size))
    for name, content in bench.files(cell, *size, states, fire).items():
        files.write(folder / name, content)
    sources = [f"{cell.name}_grid.v", f"{cell.name}_bench.v"]
    if simulator == "icarus":
        require("iverilog", "iverilog")
        _run(["iverilog", "-g2005", "-o", "simulation", *sources], folder)
        return ["vvp", "simulation"]
    require("verilator", "verilator")
    options = ["--binary", "--timing", "-O3", "-Wno-fatal", "-CFLAGS", "-O2 -march=native"]
    _run(["verilator", *options, "--top-module", f"{cell.name}_bench", *sources], folder)
    return [f"obj_dir/V{cell.name}_bench"]


def run_simulation(words: Sequence[str], folder: Path, *plus: str) -> str:
    """What the bench says; one that found a difference is an error."""
    return _run([*words, *plus], folder)


def _run(words: Sequence[str], folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        marks = ("rror", "wrong", "missing")
        told = next((line for line in said if any(mark in line for mark in marks)), said[-1] if said else "nothing")
        raise SamebitsError(f"{words[0]} ended with {done.returncode}: {told}; please report this as a bug")
    return done.stdout
