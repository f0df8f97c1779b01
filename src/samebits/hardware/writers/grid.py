"""A whole machine as Verilog: a register a cell and channel, the cell's gates as vectors over all cells.

One vector a gate, not one instance a cell: simulators take minutes to build thousands of instances, and synthesis makes
the same of both. Cell (y, x) is bit y·W + x of every vector.
"""

from __future__ import annotations

from samebits.hardware.cell import PERIODIC, Cell, comment, next_name, port_name
from samebits.hardware.writers.verilog import OPERATIONS

USE = """\
Cell (y, x) is bit y * {W} + x of every vector. load: all cells move on by one place, cell_in becomes cell 0 and the
last leaves by cell_out, so {N} clocks load a grid (its last cell first) and read the one before. step: one step of all
cells{fire}. Neither: nothing changes. {channels}: channel of each bit of cell_in and cell_out, lowest first."""


def write(cell: Cell, height: int, width: int) -> bytes:
    N, K, names = height * width, len(cell.channels), cell.node_names()
    use = USE.format(
        W=width, N=N, channels=", ".join(f"c{channel}" for channel in cell.channels),
        fire=" whose bit of fire is 1" if cell.asynchronous else "",
    )  # fmt: skip
    ports = ["input wire clk", "input wire step", "input wire load", f"input wire [{K - 1}:0] cell_in"]
    ports += [f"input wire [{N - 1}:0] fire"] if cell.asynchronous else []
    ports += [f"output wire [{K - 1}:0] cell_out"]
    lines = [f"module {cell.name}_grid(", ",\n".join(f"  {port}" for port in ports), ");"]
    lines += [f"  reg [{N - 1}:0] c{channel};" for channel in cell.channels]
    for position, channel in cell.inputs:
        seen = neighbours(f"c{channel}", position, height, width, cell.boundary == PERIODIC)
        lines.append(f"  wire [{N - 1}:0] {port_name(position, channel)} = {seen};")
    for gate, (op, a, b) in enumerate(cell.gates):
        value = OPERATIONS[op].format(a=names[a], b=names[b])
        lines.append(f"  wire [{N - 1}:0] g{gate} = {f'{{{N}{{{value}}}}}' if op in (0, 15) else value};")
    for channel, node in zip(cell.channels, cell.outputs, strict=True):
        lines.append(f"  wire [{N - 1}:0] {next_name(channel)} = {names[node]};")
    lines.append("  always @(posedge clk) begin")
    for k, channel in enumerate(cell.channels):
        state, after = f"c{channel}", next_name(channel)
        after = f"(fire & {after}) | (~fire & {state})" if cell.asynchronous else after
        lines += [
            f"    if (load) {state} <= {{{state}[{N - 2}:0], cell_in[{k}]}};",
            f"    else if (step) {state} <= {after};",
        ]
    leaving = ", ".join(f"c{channel}[{N - 1}]" for channel in reversed(cell.channels))
    lines += ["  end", f"  assign cell_out = {{{leaving}}};", "endmodule", ""]
    return (comment((*cell.about, *use.splitlines()), "//") + "\n".join(lines)).encode()


def neighbours(state: str, position: int, height: int, width: int, periodic: bool) -> str:
    """The vector of what every cell sees at this position; the lowest bit is written last."""
    dy, dx = position // 3 - 1, position % 3 - 1
    if (dy, dx) == (0, 0):
        return state
    rows = []
    for y in range(height):
        if not periodic and not 0 <= y + dy < height:
            rows.append(f"{width}'b0")
            continue
        low = (y + dy) % height * width
        high = low + width - 1
        if dx == 0:
            rows.append(f"{state}[{high}:{low}]")
        elif dx < 0:
            rows.append(f"{state}[{high - 1}:{low}], " + (f"{state}[{high}]" if periodic else "1'b0"))
        else:
            rows.append((f"{state}[{low}]" if periodic else "1'b0") + f", {state}[{high}:{low + 1}]")
    return f"{{{', '.join(reversed(rows))}}}"
