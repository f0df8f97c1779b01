"""A file held to the checkpoint: read back, and compared for every input with all gates as they were trained."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.errors import SamebitsError
from samebits.families.logic_ca.circuits.circuit import Circuit, kept_channels
from samebits.families.logic_ca.circuits.specification import next_state
from samebits.families.logic_ca.config import POSITIONS, LogicConfig
from samebits.families.logic_ca.model import LogicModel
from samebits.hardware.cell import PERIODIC, next_name, port_name
from samebits.hardware.network import Network
from samebits.hardware.proof import CounterExample, Inputs, NotEqualError, Solver, check_names, compare

LARGEST_GRID_PROOF = 200_000  # cells · gates: up to here a grid is proved as it was written, in some seconds
DRAWN = 6  # channels in the drawing of a neighbourhood, unless more of them have a 1


@dataclass(frozen=True)
class Proved:
    """What the solver said yes to."""

    what: str
    seconds: float

    def __str__(self) -> str:
        return f"proved equal: {self.what}, for every input (SAT, CaDiCaL, {self.seconds:.1f} s)"


def gates_of_a_cell(config: LogicConfig) -> int:
    """Perceive gates once per channel."""
    return config.channels * config.kernels * sum(config.perceive) + sum(config.update)


def channels_of(what: str, network: Network) -> tuple[int, ...]:
    """Whose next state a file computes, by the names of its outputs."""
    found = []
    for name in network.outputs:
        match = re.fullmatch(r"c(0|[1-9][0-9]{0,5})_next", name)
        if not match:
            raise SamebitsError(f"{what} has an output {name}; a cell's outputs are c0_next, c1_next …; export again")
        found.append(int(match[1]))
    return tuple(sorted(found))


def prove_cell(model: LogicModel, what: str, network: Network) -> Proved:
    """That a cell read from somewhere is the trained one; NotEqualError with a neighbourhood where it is not."""
    config, began = model.config, time.perf_counter()
    channels = channels_of(what, network)
    if not channels or channels[-1] >= config.channels:
        raise SamebitsError(f"{what} computes channels {list(channels)}; the model has {config.channels}; export again")
    ports = [port_name(position, channel) for channel in channels for position in range(POSITIONS)]
    check_names(what, network, ports, [next_name(channel) for channel in channels])
    with Solver() as solver:
        # A channel that the file does not have may be anything.
        patch = {(p, c): solver.variable() for c in range(config.channels) for p in range(POSITIONS)}
        trained = next_state(solver, config, model.params, patch)
        inputs = {port_name(*spot): literal for spot, literal in patch.items()}
        found = solver.network(network, inputs)
        example = compare(solver, inputs, {next_name(channel): trained[channel] for channel in channels}, found)
    if example is not None:
        raise _refused(model, what, example, channels)
    gates = gates_of_a_cell(config)
    return Proved(f"{what} and all {gates:,} gates of the checkpoint", time.perf_counter() - began)


def prove_circuit(model: LogicModel, circuit: Circuit) -> Proved:
    """That a circuit of ours is the trained one."""
    what = f"{len(circuit.ops):,} gates"
    return prove_cell(model, what, network_of(circuit))


def network_of(circuit: Circuit) -> Network:
    kept = kept_channels(circuit)
    network = Network([port_name(position, channel) for channel in kept for position in range(POSITIONS)])
    place = {name: i for i, name in enumerate(network.inputs)}
    nodes = [place.get(port_name(*spot), 0) for spot in circuit.inputs.tolist()]  # one that nobody reads may be missing
    for op, a, b in zip(circuit.ops.tolist(), circuit.a.tolist(), circuit.b.tolist(), strict=True):
        table = op >> 3 | (op & 2) | (op & 4) | (op & 1) << 3
        nodes.append(network.add((nodes[a], nodes[b]), table))
    network.outputs = {next_name(channel): nodes[circuit.outputs[channel]] for channel in kept}
    return network


def prove_grid(model: LogicModel, what: str, grid: Network, cell: Network, height: int, width: int) -> Proved:
    """That one clock of a whole grid is one step of the trained automaton: for every state and every input, so always.

    Every cell of the grid is compared with `cell`, which was proved equal to the checkpoint before.
    """
    began, channels = time.perf_counter(), channels_of(what, cell)
    fires = "fire[0]" in grid.inputs
    _check_grid_names(what, grid, channels, height * width, fires)
    for y in range(height):
        for x in range(width):
            # A solver a cell: its question is a small one, however large the grid.
            with Solver() as solver:
                inputs = Inputs(solver)
                wanted = _next_of_a_cell(solver, model.config, cell, channels, inputs, (y, x), (height, width), fires)
                example = compare(solver, inputs, wanted, solver.network(grid, inputs, wanted))
            if example is not None:
                wrong = ", ".join(example.wrong)
                message = f"{what} is not the trained automaton: {wrong} becomes something else; export again"
                raise NotEqualError(message, example, _inputs_drawn(example))
    with Solver() as solver:
        inputs = Inputs(solver)
        last = {f"cell_out[{k}]": inputs[f"c{c}[{height * width - 1}]"] for k, c in enumerate(channels)}
        example = compare(solver, inputs, last, solver.network(grid, inputs, last))
    if example is not None:
        message = f"{what} does not give its last cell to cell_out; export again"
        raise NotEqualError(message, example, _inputs_drawn(example))
    name = f"one clock of all {height}×{width} cells in {what} and one step of the model, by induction at every step"
    return Proved(name, time.perf_counter() - began)


def _check_grid_names(what: str, grid: Network, channels: Sequence[int], cells: int, asynchronous: bool) -> None:
    states = [f"c{channel}[{i}]" for channel in channels for i in range(cells)]
    inputs = ["clk", "step", "load", *(f"cell_in[{k}]" for k in range(len(channels))), *states]
    inputs += [f"fire[{i}]" for i in range(cells)] if asynchronous else []
    check_names(what, grid, inputs, [f"cell_out[{k}]" for k in range(len(channels))] + [f"{name}'" for name in states])


def _next_of_a_cell(
    solver: Solver, config: LogicConfig, cell: Network, channels: Sequence[int], inputs: Mapping[str, int],
    at: tuple[int, int], size: tuple[int, int], asynchronous: bool,
) -> dict[str, int]:  # fmt: skip
    """What the bits of one cell must become: load, or else step, or else nothing."""
    (y, x), (height, width) = at, size
    patch = {}
    for channel in channels:
        for position in range(POSITIONS):
            row, column = y + position // 3 - 1, x + position % 3 - 1
            inside = 0 <= row < height and 0 <= column < width
            there = config.boundary == PERIODIC or inside
            bit = inputs[f"c{channel}[{row % height * width + column % width}]"] if there else solver.false
            patch[port_name(position, channel)] = bit
    after = solver.network(cell, patch)
    i = y * width + x
    steps = inputs["step"]
    if asynchronous:
        steps = solver.table((steps, inputs[f"fire[{i}]"]), 0b1000)
    wanted = {}
    for k, channel in enumerate(channels):
        before = inputs[f"c{channel}[{i - 1}]"] if i else inputs[f"cell_in[{k}]"]
        kept = solver.choose(steps, after[next_name(channel)], inputs[f"c{channel}[{i}]"])
        wanted[f"c{channel}[{i}]'"] = solver.choose(inputs["load"], before, kept)
    return wanted


def _inputs_drawn(example: CounterExample) -> str:
    ones = [name for name, value in example.inputs.items() if value]
    return f"with {', '.join(ones[:40]) or 'nothing'}{' …' if len(ones) > 40 else ''} = 1 and the rest 0"


def _refused(model: LogicModel, what: str, example: CounterExample, channels: Sequence[int]) -> NotEqualError:
    """Our own rollout is asked as well, on a grid of 3×3: its middle sees all nine cells."""
    grid = np.zeros((1, 3, 3, model.config.channels), np.float32)
    for position in range(POSITIONS):
        for channel in range(model.config.channels):
            grid[0, position // 3, position % 3, channel] = example.inputs[port_name(position, channel)]
    after = model.rollout(grid, 1, workers=1, packed=False)[0, 1, 1]
    confirmed = all(bool(after[channel]) == example.wanted[next_name(channel)] for channel in channels)
    told = (
        "as the model's own rollout confirms"
        if confirmed
        else "though the model's own rollout disagrees: a bug of ours"
    )
    wrong = [int(name[1:].partition("_")[0]) for name in example.wrong]
    listed = ", ".join(f"c{channel}" for channel in wrong)
    message = (
        f"{what} is not the trained cell: {listed} differs for the neighbourhood drawn above, {told}; export again"
    )
    return NotEqualError(message, example, drawn(example, channels, wrong))


def drawn(example: CounterExample, channels: Sequence[int], wrong: Sequence[int]) -> str:
    """The neighbourhood, a 3×3 picture a channel, and what becomes of the middle."""
    shown = [c for c in channels if c in wrong or any(_bit(example, c, p) for p in range(POSITIONS))]
    if len(channels) <= DRAWN:
        shown = list(channels)
    lines = []
    for channel in shown:
        rows = [" ".join("01"[_bit(example, channel, 3 * y + x)] for x in range(3)) for y in range(3)]
        name = next_name(channel)
        told = f"   next: the model {int(example.wanted[name])}, the file {int(example.found[name])}"
        lines += [f"  c{channel:<4} {rows[0]}", f"        {rows[1]}{told}{'   <-' if channel in wrong else ''}"]
        lines += [f"        {rows[2]}", ""]
    rest = len(channels) - len(shown)
    return "\n".join(lines + ([f"  {rest} other channels are 0"] if rest else [])).rstrip()


def _bit(example: CounterExample, channel: int, position: int) -> int:
    return int(example.inputs[port_name(position, channel)])
