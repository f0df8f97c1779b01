"""`samebits circuit --fpga`: the learned automaton as a bitstream."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from samebits.families.logic_ca.circuits.export import (
    UNPROVED,
    Kept,
    cell_of,
    check_grid,
    prove_written,
    smaller_circuit,
)
from samebits.families.logic_ca.circuits.proving import prove_cell
from samebits.families.logic_ca.model import LogicModel
from samebits.hardware.fpga import find_device, fit
from samebits.hardware.proof import solver_is_there
from samebits.hardware.readers import verilog as read_verilog
from samebits.hardware.tools import require
from samebits.hardware.writers import grid as grid_writer
from samebits.hardware.writers import verilog as cell_writer
from samebits.report.floorplan import draw_floorplan
from samebits.training.parts import Exported

USUAL_GRID = (16, 16)


def fpga(
    model: LogicModel, device: str, folder: Path, *, name: str = "automaton", command: str = "",
    grid: tuple[int, int] = USUAL_GRID, minimise: float | None = None, tell: Callable[[str], None] = lambda line: None,
) -> Exported:  # fmt: skip
    """Place and route a grid; the bitstream, its Verilog and its floorplan in `folder`."""
    about = find_device(device)
    check_grid(grid, "verilog")
    require("pyosys", "pyosys", "hardware")
    require(about.module, about.module.replace("_", "-"), "fpga")
    cell = cell_of(model, smaller_circuit(model, False, minimise, tell), name, command)
    proofs = [UNPROVED]
    if solver_is_there():
        proofs = [str(prove_cell(model, "the cell", read_verilog.read(cell_writer.write(cell))))]
        proofs.append(prove_written(model, cell, "the grid's Verilog", grid_writer.write(cell, *grid), grid, tell))
    with tempfile.TemporaryDirectory() as work:
        found = fit(cell, device, grid, Path(work), tell)
    used = [f"{key} {have:,} of {of:,} ({have / of:.0%})" for key, (have, of) in found.used.items()]
    lines = [
        f"device           {about.about}",
        f"grid             {grid[0]}×{grid[1]} cells of {len(cell.ops)} gates and {len(cell.channels)} registers",
        f"uses             {', '.join(used)}",
        f"maximum clock    {found.mhz:.1f} MHz, by nextpnr's timing model",
        f"cell updates     {found.updates / 1e9:.1f} billion a second at that clock",
        f"largest square   about {found.largest}×{found.largest} cells: estimated, 97 % full at as many tables a cell",
        f"made with        {found.tools}",
    ]
    stem = f"{cell.name}_{device.replace('-', '_')}_{grid[0]}x{grid[1]}"
    kept = Kept(folder)
    try:
        kept.write(f"{stem}.{about.bitstream}", found.bitstream)
        kept.write(f"{stem}.v", found.verilog)
        caption = f"{about.about}: {', '.join(used[:1])}, {found.mhz:.0f} MHz"
        with tempfile.TemporaryDirectory() as work:
            plan = draw_floorplan(Path(work) / "plan.png", found.places, grid, caption)
            kept.write(f"{stem}.png", plan.read_bytes())
        return Exported(kept.publish(), proofs + lines)
    finally:
        kept.clean()
