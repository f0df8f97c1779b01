"""A whole grid as Verilog: every cell's next state proved for every state and input; yosys reads it the same way."""

import re

import pytest

from samebits.families.logic_ca.circuits import export
from samebits.families.logic_ca.circuits.proving import prove_grid
from samebits.hardware import tools
from samebits.hardware.proof import NotEqualError
from samebits.hardware.readers import aiger, verilog
from samebits.hardware.writers import grid
from samebits.hardware.writers import verilog as cell_writer
from tests.hardware.models import SMALL, drawn, learned, smaller

SIZES = [(3, 3), (4, 5)]
# `opt` without merging of enables: what a register becomes shall be one function of state and inputs.
TO_AIGER = (
    "read_verilog grid.v; hierarchy -top {top}; proc; flatten; opt -nodffe -nosdff; dffunmap; techmap; "
    "opt -nodffe -nosdff; aigmap; clean; write_aiger -symbols grid.aig"
)


def parts(model):
    cell = export.cell_of(model, export.smaller_circuit(model, all_channels=True), "thing", "")
    return cell, verilog.read(cell_writer.write(cell))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SMALL)
def test_a_grid_is_proved_by_induction(name, size):
    model = drawn(name, 1)
    cell, proved = parts(model)
    found = prove_grid(model, "it", verilog.read(grid.write(cell, *size)), proved, *size)
    assert f"{size[0]}×{size[1]} cells" in found.what


@pytest.mark.parametrize("task", ["life", "checkerboard", "checkerboard-async"])
def test_learned_grids_as_yosys_reads_them(task, tmp_path):
    """The same proof with yosys for a parser: it knows all of Verilog, and nothing of us."""
    model = learned(task)
    cell = export.cell_of(model, smaller(task), "thing", "")
    (tmp_path / "grid.v").write_bytes(grid.write(cell, 4, 5))
    tools.yosys(TO_AIGER.format(top="thing_grid"), tmp_path)
    found = aiger.read(_own_names((tmp_path / "grid.aig").read_bytes()))
    found.inputs = [_vector(name) for name in found.inputs]
    found.outputs = {_vector(name): node for name, node in found.outputs.items()}
    if "clk" not in found.inputs:  # AIGER has no clock: it is every step
        found.inputs.append("clk")
        first = len(found.inputs) - 1
        found.tables = [(tuple(s if s < first else s + 1 for s in reads), table) for reads, table in found.tables]
        found.outputs = {name: node if node < first else node + 1 for name, node in found.outputs.items()}
    prove_grid(model, "it", found, verilog.read(cell_writer.write(cell)), 4, 5)


def _own_names(raw):
    """A latch has all the names its wire goes by; the register's own is what the proof asks for."""
    return re.sub(rb"(?m)^(l[0-9]+) (?:\S+ )*?(c[0-9]+\[[0-9]+\])(?: \S+)*$", rb"\1 \2", raw)


def _vector(name):
    """yosys calls the only bit of a vector by the vector's name."""
    plain = name.removesuffix("'")
    alone = plain in ("cell_in", "cell_out")
    return f"{plain}[0]" if alone else name


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c0[3:0], c0[4]", "c0[3:0], c0[3]"),  # the wrong cell wraps around
        ("if (load)", "if (step)"),
        ("c0[18:0], cell_in[0]", "c0[17:0], cell_in[0], c0[18]"),
        ("cell_out = {c0[19]", "cell_out = {c0[18]"),
    ],
)  # fmt: skip
def test_a_grid_with_a_slip_is_refused(before, after):
    model = learned("life")
    cell = export.cell_of(model, smaller("life"), "thing", "")
    text = grid.write(cell, 4, 5).decode()
    changed = text.replace(before, after, 1)
    assert changed != text
    with pytest.raises(NotEqualError):
        prove_grid(model, "it", verilog.read(changed.encode()), verilog.read(cell_writer.write(cell)), 4, 5)


def test_a_missing_fire_mask_is_refused():
    model = drawn("asynchronous", 1)
    cell, proved = parts(model)
    text = grid.write(cell, 4, 5).decode()
    changed = text.replace("(fire & c1_next) | (~fire & c1)", "c1_next", 1)
    assert changed != text
    with pytest.raises(NotEqualError, match=r"c1\[0\]'"):
        prove_grid(model, "it", verilog.read(changed.encode()), proved, 4, 5)
