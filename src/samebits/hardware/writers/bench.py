"""A test bench for a grid, in Verilog that Icarus and Verilator both run: it loads, steps, compares, reads back.

What it compares with stands in NAME_states.mem: the states of the model's own rollout, a line a step and channel, a hex
digit for four cells, the last cell first. NAME_fire.mem has the masks of an asynchronous rule, a line a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from samebits.hardware.cell import Cell, comment

RUN = """\
With Icarus: iverilog -g2005 -o {name}_bench {name}_grid.v {name}_bench.v && vvp {name}_bench
With Verilator: verilator --binary --timing -O3 -Wno-fatal --top-module {name}_bench {name}_grid.v {name}_bench.v
&& obj_dir/V{name}_bench
A waveform: add +waves to the last command; {name}_bench.vcd is for GTKWave. Speed: +speed=N runs N more steps."""

FIRE = """\
  reg [{N1}:0] fire = 0;
  reg [{N1}:0] masks [0:{last}];
"""

TEMPLATE = """\
`timescale 1ns/1ns
module {name}_bench;
  reg clk = 0, step = 0, load = 0;
  reg [{K1}:0] cell_in = 0;
  wire [{K1}:0] cell_out;
{fire_declared}  reg [{N1}:0] states [0:{last_state}];
  integer t, i, wrong = 0, speed = 0;
  {name}_grid dut(.clk(clk), .step(step), .load(load), .cell_in(cell_in), {fire_port}.cell_out(cell_out));

  task tick; begin #1 clk = 1; #1 clk = 0; end endtask

  initial begin
    $readmemh("{name}_states.mem", states);
{fire_read}    if ($test$plusargs("waves")) begin $dumpfile("{name}_bench.vcd"); $dumpvars(0, {name}_bench); end
    load = 1;
    for (i = {N1}; i >= 0; i = i - 1) begin
{load_bits}
      tick;
    end
    load = 0;
    tick;  // neither load nor step: nothing may change
    for (t = 0; t <= {steps}; t = t + 1) begin
{compare}
      step = 1;
{fire_set}      if (t < {steps}) tick;
      step = 0;
    end
    load = 1;
    for (i = {N1}; i >= 0; i = i - 1) begin
      #1;
{read_bits}
      tick;
    end
    load = 0;
    $display("{name}: %0d of {checks} comparisons wrong", wrong);
    if ($value$plusargs("speed=%d", speed)) begin
      step = 1;
      for (t = 0; t < speed; t = t + 1) tick;
    end
    if (wrong != 0) $fatal(1);
    $finish;
  end
endmodule
"""


def files(cell: Cell, height: int, width: int, states: Any, fire: Any) -> dict[str, bytes]:
    """By name: the bench, and its data. states (T + 1, K, H·W), fire (T, H·W) or None, of 0 and 1."""
    K, N, steps, name = len(cell.channels), height * width, len(states) - 1, cell.name
    ks = range(K)
    text = TEMPLATE.format(
        name=name, K1=K - 1, N1=N - 1, steps=steps, last_state=(steps + 1) * K - 1, checks=(steps + 1) * K + N * K,
        fire_declared=FIRE.format(N1=N - 1, last=steps - 1) if fire is not None else "",
        fire_port=".fire(fire), " if fire is not None else "",
        fire_read=f'    $readmemh("{name}_fire.mem", masks);\n' if fire is not None else "",
        fire_set=f"      if (t < {steps}) fire = masks[t];\n" if fire is not None else "",
        load_bits="\n".join(f"      cell_in[{k}] = states[{k}][i];" for k in ks),
        compare="\n".join(
            f"      if (dut.c{channel} !== states[t * {K} + {k}]) wrong = wrong + 1;"
            for k, channel in enumerate(cell.channels)
        ),
        read_bits="\n".join(f"      if (cell_out[{k}] !== states[{steps * K + k}][i]) wrong = wrong + 1;" for k in ks),
    )  # fmt: skip
    head = comment((*cell.about, *RUN.format(name=name).splitlines()), "//")
    found = {f"{name}_bench.v": (head + text).encode(), f"{name}_states.mem": _memory(states.reshape(-1, N))}
    return found if fire is None else {**found, f"{name}_fire.mem": _memory(fire)}


def _memory(rows: Any) -> bytes:
    digits = -(-rows.shape[1] // 4)
    padded = np.zeros((len(rows), 4 * digits), np.uint8)
    padded[:, : rows.shape[1]] = rows
    numbers = padded.reshape(len(rows), digits, 4) @ np.array([1, 2, 4, 8], np.uint8)
    return "".join("".join(f"{digit:x}" for digit in row[::-1]) + "\n" for row in numbers.tolist()).encode()
