"""The cell of an automaton, ready to be written: a circuit whose ports have the names of the drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samebits.report.circuits import COMPASS

PERIODIC, ZEROS = "periodic", "zeros"


@dataclass(frozen=True)
class Scene:
    """What a page that plays the automaton must know besides its cell: how our own rollout begins, and who fires.

    Random numbers are Philox words (arithmetic/rng.py) of the seed; a draw is purpose and extra, the rest of its key.
    """

    size: tuple[int, int]  # height and width of the grid to begin with
    steps: int  # after which training looked at the cells
    visible: int  # channels, from 0: one bit, or red, green and blue
    all_channels: int  # of the model: random starts draw bits for those, too, that the cell does not keep
    start: str  # random bits; centre, one full cell; any, which begins likewise; zeros
    start_draw: tuple[int, int]
    fire_draw: tuple[int, int]
    fire_rate: float  # the chance of a cell to take its next state; 1: all do
    other_rate: float  # offered as asynchronous where all do


@dataclass(frozen=True)
class Cell:
    """One cell's next state, and what the grid around it must know.

    Nodes are numbered: the inputs that are read first, then the gates in an order that can be run. The number of an
    operation is its truth table: bit 8 is its value for a = b = 0, 4 for b alone, 2 for a alone, 1 for both.
    """

    name: str  # of the module, function and files: letters, digits and _
    channels: tuple[int, ...]  # whose state a cell keeps, in rising order
    inputs: tuple[tuple[int, int], ...]  # position (row-major, 4 is the cell itself) and channel of each input read
    ops: tuple[int, ...]
    a: tuple[int, ...]
    b: tuple[int, ...]
    outputs: tuple[int, ...]  # the node of each kept channel's next state
    boundary: str  # PERIODIC, or ZEROS outside the grid
    asynchronous: bool  # a cell may keep its state in a step
    about: tuple[str, ...]  # lines for the head of a file: what this is, of which weights, by which command
    scene: Scene

    @property
    def gates(self) -> list[tuple[int, int, int]]:
        """Operation, a and b of every gate."""
        return list(zip(self.ops, self.a, self.b, strict=True))

    @property
    def ports(self) -> list[str]:
        """Every input port, nine neighbours of each channel, whether the circuit reads it or not."""
        return [port_name(position, channel) for channel in self.channels for position in range(len(COMPASS))]

    @property
    def next_names(self) -> list[str]:
        return [next_name(channel) for channel in self.channels]

    def node_names(self) -> list[str]:
        return [port_name(*spot) for spot in self.inputs] + [f"g{gate}" for gate in range(len(self.ops))]


def port_name(position: int, channel: int) -> str:
    return f"c{channel}_{COMPASS[position]}"


def next_name(channel: int) -> str:
    return f"c{channel}_next"


def comment(about: Sequence[str], mark: str) -> str:
    """The head of a file, every line after the mark of a comment."""
    return "".join(f"{mark} {line}".rstrip() + "\n" for line in about)
