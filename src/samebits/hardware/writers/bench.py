"""A test bench for a grid, in Verilog that Icarus and Verilator both run: it loads, steps, compares, reads back.

What it compares with stands in NAME_states.mem: the states of the model's own rollout, a line a step and channel, a hex
digit for four cells, the last cell first. NAME_fire.mem has the masks of an asynchronous rule, a line a step.

The bench counts what is right, not what is wrong: a simulator that knows X says of X == X that it is X, which is not
true, and so nothing unknown counts as right. The last line of each data file is the complement of the XOR of all lines
before it: memory that nothing was loaded into, all X or all zeros, or only a part of a file, does not satisfy that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from samebits.hardware.cell import Cell, comment

RUN = """\
Run it in the folder of these files, or it does not find {data}{place}:
With Icarus: iverilog -g2005 -o {name}_bench {name}_grid.v {name}_bench.v && vvp {name}_bench
With Verilator: verilator --binary --timing -O3 -Wno-fatal --top-module {name}_bench {name}_grid.v {name}_bench.v
&& obj_dir/V{name}_bench
A waveform: add +waves to the last command; {name}_bench.vcd is for GTKWave. Speed: +speed=N runs N more steps."""

FIRE = """\
  reg [{N1}:0] fire = 0;
  reg [{N1}:0] masks [0:{steps}];
"""

CHECK = """\
    sum = 0;
    for (i = 0; i < {rows}; i = i + 1) sum = sum ^ {memory}[i];
    if (sum == ~{memory}[{rows}]) loaded = 1; else loaded = 0;
    if (!loaded) begin
      $display("{name}: {file} is missing, incomplete or changed; run this in the folder of {file}, or export again");
      $fatal(1);
    end
"""

TEMPLATE = """\
`timescale 1ns/1ns
module {name}_bench;
  reg clk = 0, step = 0, load = 0;
  reg [{K1}:0] cell_in = 0;
  wire [{K1}:0] cell_out;
{fire_declared}  reg [{N1}:0] states [0:{rows}];
  reg [{N1}:0] sum;
  integer t, i, loaded, right = 0, speed = 0;
  {name}_grid dut(.clk(clk), .step(step), .load(load), .cell_in(cell_in), {fire_port}.cell_out(cell_out));

  task tick; begin #1 clk = 1; #1 clk = 0; end endtask

  initial begin
    $readmemh("{name}_states.mem", states);
{states_check}{fire_read}    if ($test$plusargs("waves")) begin
      $dumpfile("{name}_bench.vcd");
      $dumpvars(0, {name}_bench);
    end
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
    $display("{name}: %0d of {checks} comparisons wrong", {checks} - right);
    if ($value$plusargs("speed=%d", speed)) begin
      step = 1;
      for (t = 0; t < speed; t = t + 1) tick;
    end
    if (right != {checks}) $fatal(1);
    $finish;
  end
endmodule
"""


def files(cell: Cell, height: int, width: int, states: Any, fire: Any, folder: str = "") -> dict[str, bytes]:
    """By name: the bench, and its data. states (T + 1, K, H·W), fire (T, H·W) or None, of 0 and 1.

    folder: where the files are written, for the head of the bench.
    """
    K, N, steps, name = len(cell.channels), height * width, len(states) - 1, cell.name
    ks, rows = range(K), (steps + 1) * K
    data = {f"{name}_states.mem": _memory(states.reshape(-1, N))}
    fire_parts = {"fire_declared": "", "fire_port": "", "fire_read": "", "fire_set": ""}
    if fire is not None:
        data[f"{name}_fire.mem"] = _memory(fire)
        fire_parts = {
            "fire_declared": FIRE.format(N1=N - 1, steps=steps),
            "fire_port": ".fire(fire), ",
            "fire_read": f'    $readmemh("{name}_fire.mem", masks);\n'
            + CHECK.format(name=name, file=f"{name}_fire.mem", memory="masks", rows=steps),
            "fire_set": f"      if (t < {steps}) fire = masks[t];\n",
        }
    text = TEMPLATE.format(
        name=name, K1=K - 1, N1=N - 1, steps=steps, rows=rows, checks=rows + N * K,
        states_check=CHECK.format(name=name, file=f"{name}_states.mem", memory="states", rows=rows),
        load_bits="\n".join(f"      cell_in[{k}] = states[{k}][i];" for k in ks),
        compare="\n".join(
            f"      if (dut.c{channel} == states[t * {K} + {k}]) right = right + 1;"
            for k, channel in enumerate(cell.channels)
        ),
        read_bits="\n".join(f"      if (cell_out[{k}] == states[{steps * K + k}][i]) right = right + 1;" for k in ks),
        **fire_parts,
    )  # fmt: skip
    run = RUN.format(name=name, data=" and ".join(data), place=f"; they were written to {folder}" if folder else "")
    head = comment((*cell.about, *run.splitlines()), "//")
    return {f"{name}_bench.v": (head + text).encode(), **data}


def _memory(rows: Any) -> bytes:
    """A line for each row, and the complement of their XOR."""
    rows = np.concatenate([rows, 1 - np.bitwise_xor.reduce(rows, axis=0, keepdims=True)])
    digits = -(-rows.shape[1] // 4)
    padded = np.zeros((len(rows), 4 * digits), np.uint8)
    padded[:, : rows.shape[1]] = rows
    numbers = padded.reshape(len(rows), digits, 4) @ np.array([1, 2, 4, 8], np.uint8)
    return "".join("".join(f"{digit:x}" for digit in row[::-1]) + "\n" for row in numbers.tolist()).encode()
