"""The cell as Verilog: one wire a gate, a port for every neighbour's bit. Verilog-2001, nothing a tool would refuse."""

from __future__ import annotations

from samebits.hardware.cell import Cell, comment

OPERATIONS = (
    "1'b0", "{a} & {b}", "{a} & ~{b}", "{a}", "{b} & ~{a}", "{b}", "{a} ^ {b}", "{a} | {b}",
    "~({a} | {b})", "~({a} ^ {b})", "~{b}", "{a} | ~{b}", "~{a}", "{b} | ~{a}", "~({a} & {b})", "1'b1",
)  # fmt: skip


def write(cell: Cell) -> bytes:
    names = cell.node_names()
    lines = [f"module {cell.name}_cell("]
    ports = [f"  input wire {name}" for name in cell.ports] + [f"  output wire {name}" for name in cell.next_names]
    lines += [",\n".join(ports), ");"]
    lines += [
        f"  wire g{gate} = {OPERATIONS[op].format(a=names[a], b=names[b])};"
        for gate, (op, a, b) in enumerate(cell.gates)
    ]
    lines += [f"  assign {name} = {names[node]};" for name, node in zip(cell.next_names, cell.outputs, strict=True)]
    return (comment(cell.about, "//") + "\n".join([*lines, "endmodule", ""])).encode()
