"""`samebits export` for automata: the learned cell, or a grid of it, as files for other tools, each one proved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from samebits import files
from samebits.arithmetic.rng import Purpose
from samebits.checks import refuse
from samebits.errors import SamebitsError, nearest
from samebits.families.logic_ca import data
from samebits.families.logic_ca.circuits.circuit import Circuit, kept_channels, live_channels
from samebits.families.logic_ca.circuits.minimise import minimise, usual
from samebits.families.logic_ca.circuits.proving import LARGEST_GRID_PROOF, gates_of_a_cell, prove_cell, prove_grid
from samebits.families.logic_ca.circuits.pruning import prune
from samebits.families.logic_ca.config import LogicConfig
from samebits.families.logic_ca.model import LogicModel
from samebits.families.logic_ca.simulation.experiments import ASYNC_RATE
from samebits.families.logic_ca.wiring import CENTRE
from samebits.hardware.cell import Cell, Scene
from samebits.hardware.formats import FORMATS, Format
from samebits.hardware.proof import MISSING, solver_is_there
from samebits.hardware.readers import verilog as read_verilog
from samebits.hardware.tools import version_of
from samebits.hardware.writers import bench, grid
from samebits.hardware.writers import verilog as cell_writer
from samebits.printing import printable, shown
from samebits.training.params import weights_hash
from samebits.training.parts import Exported

LEAST_SIDE, MOST_SIDE = 3, 1024
PROOF_GRID = (4, 5)  # where the grid itself is too large to prove: every border, corner and middle is in it
TEST_STEPS = 32
PAGE_SIZES = {"life": (128, 128), "checkerboard": (64, 64)}  # of a page at first; a picture has its own
SURE = 0.9  # a gate whose operation has less than this is called soft
GAP = 0.1  # a soft rollout that ends so far from the hard one is worth a warning
GAP_SAMPLES = 4
WARNING = (
    "warning: the gates are still soft; the hard circuit is exported, which is not what the loss saw; "
    "train on, or take another --checkpoint"
)
UNPROVED = "not proved: " + MISSING


def export(
    model: LogicModel, form: str | None, folder: Path, *, name: str = "automaton", command: str = "", grid: Any = None,
    prove: bool | None = None, minimise: float | None = None, all_channels: bool = False, check: Path | None = None,
    test_steps: int = TEST_STEPS, tell: Callable[[str], None] = lambda line: None,
) -> Exported:  # fmt: skip
    """Write the cell in one of the FORMATS, or with `grid` (height, width) a whole machine; read it back and prove it.

    prove: True insists on the solver, False does without, None proves where it is installed. `check` writes nothing: it
    holds a file that is there, perhaps changed by hand, to the checkpoint.
    """
    chosen = find_format(form or "verilog")
    if check is not None:
        return Exported([], [str(prove_cell(model, check.name, chosen.read(check.read_bytes())))])
    if prove is None:
        prove = solver_is_there()
    elif prove and not solver_is_there():
        raise SamebitsError(MISSING)
    if grid is not None:
        check_grid(grid, form or "verilog")
    circuit = smaller_circuit(model, all_channels, minimise, tell)
    cell = cell_of(model, circuit, name, command)
    lines = softness(model)
    kept = Kept(folder)
    try:
        path = kept.write(chosen.file.format(name=cell.name), chosen.write(cell))
        lines.append(f"{path.name}: {len(circuit.ops):,} gates of {gates_of_a_cell(model.config):,}")
        if prove:
            lines.append(str(prove_cell(model, path.name, chosen.read(kept.read(path)))))
        if grid is not None:
            lines += _export_grid(model, cell, kept, grid, prove, test_steps, tell)
        if not prove:
            lines.append(UNPROVED if not solver_is_there() else "not proved: --no-prove")
        return Exported(kept.publish(), lines)
    finally:
        kept.clean()


def find_format(name: str) -> Format:
    if name not in FORMATS:
        raise SamebitsError(
            f"--to is {shown(name)}; an automaton can be exported to: {', '.join(FORMATS)}; {nearest(name, FORMATS)}"
        )
    return FORMATS[name]


def check_grid(size: tuple[int, int], form: str) -> None:
    if form != "verilog":
        remedy = "the C header steps grids of any size" if form == "c" else "use --to verilog"
        raise SamebitsError(f"--grid goes with --to verilog, not with {form}; {remedy}")
    if not all(LEAST_SIDE <= side <= MOST_SIDE for side in size):
        raise refuse("grid", f"{size[0]}x{size[1]}", f"from {LEAST_SIDE} to {MOST_SIDE} cells a side", "set --grid")


def smaller_circuit(
    model: LogicModel, all_channels: bool = False, seconds: float | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Circuit:  # fmt: skip
    """The gates of the channels that can ever influence the visible ones, or of all: as few as were found."""
    whole = model.pruned
    keep = range(model.config.channels) if all_channels else live_channels(whole, range(model.config.target_channels))
    start = prune(whole, tuple(keep))
    if seconds is None:
        return usual(start)
    if not 0 <= seconds <= 1e6:
        raise refuse("minimise", seconds, "seconds from 0 to a million", "set --minimise")
    tell(f"minimising for {seconds:g} s, from {len(start.ops):,} gates; Ctrl-C keeps the smallest so far")

    def found(gates: int, depth: int, after: float) -> None:
        tell(f"{gates:,} gates, {depth} deep, after {after:.1f} s")

    return minimise(start, seconds, found=found)


def cell_of(model: LogicModel, circuit: Circuit, name: str, command: str) -> Cell:
    """The circuit with its names and with what a file's head says."""
    config, kept = model.config, kept_channels(circuit)
    spoken = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
    if not spoken[:1].isalpha():  # no identifier of C or Verilog begins with a digit
        spoken = f"automaton_{spoken}"
    about = (
        f"{name}: one cell of a learned automaton, {len(circuit.ops)} gates of {gates_of_a_cell(config)}",
        f"weights sha256:{weights_hash(model.weights)}",
        f"samebits {version_of('samebits')}" + (f": {command}" if command else ""),
        f"outside the grid: {config.boundary}; a cell takes its next state with probability {config.fire_rate:g}",
        "cK_NW is channel K of the north-west neighbour, cK_C of the cell itself, cK_next what it becomes",
    )
    # A path may hold what ends a comment in some language, or goes on in the next line.
    safe = tuple(printable(line).replace("*/", "* /").rstrip("\\") for line in about)
    ops, a, b = (tuple(column.tolist()) for column in (circuit.ops, circuit.a, circuit.b))
    # Constants read nothing, but need a node to point at: it may be of a channel that nobody kept.
    inputs = tuple((p, c) if c in kept else (CENTRE, kept[0]) for p, c in circuit.inputs.tolist())
    outputs = tuple(int(circuit.outputs[channel]) for channel in kept)
    asynchronous, scene = config.fire_rate < 1, scene_of(config)
    return Cell(spoken, kept, inputs, ops, a, b, outputs, config.boundary, asynchronous, safe, scene)


def scene_of(config: LogicConfig) -> Scene:
    """How `samebits render` begins, for a page that goes on from there."""
    purpose = int(Purpose.RENDER)
    return Scene(
        size=PAGE_SIZES.get(config.rule, (config.height, config.width)),
        steps=config.ca_steps,
        visible=config.target_channels,
        all_channels=config.channels,
        start=config.start if isinstance(config.start, str) else "zeros",  # pictures are painted there
        start_draw=(purpose, 0),
        fire_draw=(data.FIRE, purpose),
        fire_rate=config.fire_rate,
        other_rate=ASYNC_RATE,
    )


def softness(model: LogicModel) -> list[str]:
    """How far the gates are from decided; the second line is a warning, where soft and hard come to differ."""
    logits = model.weights.reshape(-1, 16).astype(np.float64)
    chances = 1 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)
    soft = int((chances < SURE).sum())
    config = model.config
    start = data.start_grids(config, GAP_SAMPLES, Purpose.EVALUATION, 0)
    ends = [model.rollout(start, config.ca_steps, soft=way, workers=1) for way in (True, False)]
    gap = float(np.abs(ends[0] - ends[1])[..., : config.target_channels].max())
    told = f"{soft:,} of {len(logits):,} gates are less than {SURE:.0%} decided; soft and hard rollouts "
    told += f"differ by {gap:.2g}"
    if gap <= GAP:
        return [told]
    return [told, WARNING]


def _export_grid(
    model: LogicModel, cell: Cell, kept: Kept, size: tuple[int, int], prove: bool, steps: int,
    tell: Callable[[str], None],
) -> list[str]:  # fmt: skip
    """The grid's Verilog and its test bench with what the model's own rollout says; proved as written, or in small."""
    height, width = size
    path = kept.write(f"{cell.name}_grid.v", grid.write(cell, height, width))
    tell(f"rolling out {steps} steps for the test bench")
    vectors = bench_vectors(model, cell, size, steps)
    for name, content in bench.files(cell, height, width, *vectors, folder=printable(str(kept.folder))).items():
        kept.write(name, content)
    return [prove_written(model, cell, path.name, kept.read(path), size, tell)] if prove else []


def prove_written(
    model: LogicModel, cell: Cell, name: str, raw: bytes, size: tuple[int, int], tell: Callable[[str], None]
) -> str:
    """That a grid's Verilog is the automaton, of which `cell` was proved: as written, or if it is large in small."""
    height, width = size
    proved = read_verilog.read(cell_writer.write(cell))
    if height * width * max(1, len(cell.ops)) <= LARGEST_GRID_PROOF:
        tell(f"proving {height * width} cells")
        return str(prove_grid(model, name, read_verilog.read(raw), proved, height, width))
    small = read_verilog.read(grid.write(cell, *PROOF_GRID))
    what = f"{name}, written for {PROOF_GRID[0]}×{PROOF_GRID[1]} cells instead of {height}×{width},"
    return str(prove_grid(model, what, small, proved, *PROOF_GRID))


def bench_vectors(model: LogicModel, cell: Cell, size: tuple[int, int], steps: int, seed: int = 0) -> tuple[Any, Any]:
    """States (steps + 1, K, H·W) of the model's own rollout from random cells, and its fire masks (steps, H·W)."""
    draw = np.random.default_rng(seed)
    start = np.zeros((1, *size, model.config.channels), np.float32)
    start[0] = draw.integers(0, 2, start.shape[1:])
    fire = (draw.random((steps, *size)) < model.config.fire_rate) if cell.asynchronous else None
    states = model.rollout(start, steps, trajectory=True, fire=fire, packed=False)[:, 0][..., list(cell.channels)]
    flat = np.moveaxis(states, -1, 1).reshape(steps + 1, len(cell.channels), -1).astype(np.uint8)
    return flat, None if fire is None else fire.reshape(steps, -1).astype(np.uint8)


class Kept:
    """Files under other names until all of them are there and proved: what was exported before is not lost."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = not folder.exists()
        self.paths: list[Path] = []
        self.partials: list[Path] = []  # in the same order

    def write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        self.partials.append(files.write_partial(path, content))
        self.paths.append(path)
        return path

    def read(self, path: Path) -> bytes:
        with files.open_file(self.partials[self.paths.index(path)]) as file:
            return file.read()

    def publish(self) -> list[Path]:
        for partial, path in zip(self.partials, self.paths, strict=True):
            files.publish(partial, path)
        self.made = False
        return self.paths

    def clean(self) -> None:
        for partial in self.partials:
            files.remove(partial)
        if self.made and self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()
