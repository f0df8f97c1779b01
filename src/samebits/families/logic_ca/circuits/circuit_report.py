"""`samebits circuit`: the circuit of a trained model, counted, pruned, checked and drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from samebits import files
from samebits.families.logic_ca.circuits.circuit import (
    COMPASS,
    DROPPED,
    NAMES,
    PASS_A,
    PASS_B,
    Circuit,
    GateCounts,
    Proof,
    cone,
    counts,
    equivalent,
    full_circuit,
    live_channels,
)
from samebits.families.logic_ca.circuits.export import cell_of, smaller_circuit
from samebits.families.logic_ca.circuits.proving import Proved, prove_circuit
from samebits.families.logic_ca.circuits.pruning import prune
from samebits.families.logic_ca.circuits.sizes import Size, size_of
from samebits.families.logic_ca.model import LogicModel
from samebits.hardware.proof import solver_is_there


@dataclass(frozen=True)
class CircuitReport:
    """What `samebits circuit` says about a trained model."""

    counts: GateCounts
    visible: tuple[int, ...]  # the channels the loss looks at
    live: tuple[int, ...]  # the channels that can ever influence those
    cell: int  # gates of one cell: perceive gates once per channel
    reaching: int  # those of them that the kept channels' next state depends on
    reaching_active: int  # … and that are more than a wire
    before: Size  # what pruning leaves
    after: Size  # … and what a search for fewer gates
    circuit: Circuit  # what is left
    proof: Proof
    proved: Proved | None  # by SAT, where python-sat is installed
    paths: list[Path]
    not_drawn: str  # why there is no picture; empty if there is one


def circuit_verb(
    model: LogicModel, folder: Path, all_channels: bool = False, seconds: float | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> CircuitReport:  # fmt: skip
    """Extract, prune, minimise and prove the circuit of a trained model; circuit.json, .svg and .png in `folder`.

    Keeps the channels that can ever influence the visible ones, or with `all_channels` every one. The search for fewer
    gates lasts so many seconds, or else as many moves as take one or two.
    """
    from samebits.report.circuits import TooManyGatesError, draw_circuit

    config = model.config
    logits = model.weights.reshape(-1, 16)
    full = full_circuit(config, logits, model.constants)
    pruned = model.pruned
    visible = tuple(range(config.target_channels))
    live = live_channels(pruned, visible)
    keep = tuple(range(config.channels)) if all_channels else live
    larger, small = prune(pruned, keep), smaller_circuit(model, all_channels, seconds, tell)
    before, after = (size_of(circuit, cell_of(model, circuit, "cell", "")) for circuit in (larger, small))
    proof = equivalent(full, small)
    proved = prove_circuit(model, small) if solver_is_there() else None
    reached = full.ops[cone(full, keep)[len(full.inputs) :]]

    paths = [files.write(folder / "circuit.json", (json.dumps(as_json(small), indent=1) + "\n").encode())]
    not_drawn = ""
    try:
        paths += draw_circuit(
            folder / "circuit", small.inputs, small.ops, small.a, small.b, small.outputs[list(keep)], NAMES,
            [f"c{channel} next" for channel in keep],
        )  # fmt: skip
    except TooManyGatesError as error:
        not_drawn = str(error)
        for old in ("circuit.svg", "circuit.png"):  # of another checkpoint: they would contradict the JSON
            files.remove(folder / old)
    return CircuitReport(
        counts(config, logits), visible, live, len(full.ops), len(reached),
        int((~np.isin(reached, (PASS_A, PASS_B))).sum()), before, after, small, proof, proved, paths, not_drawn,
    )  # fmt: skip


def as_json(circuit: Circuit) -> dict[str, Any]:
    """The circuit in words and numbers: a and b are node numbers, inputs first; an output that was not kept is null."""
    return {
        "inputs": [
            {"channel": channel, "position": COMPASS[position]} for position, channel in circuit.inputs.tolist()
        ],
        "ops": [NAMES[op] for op in circuit.ops],
        "a": circuit.a.tolist(),
        "b": circuit.b.tolist(),
        "outputs": [node if node != DROPPED else None for node in circuit.outputs.tolist()],
    }
