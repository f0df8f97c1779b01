"""The logic automata as a family: what the engine needs to train them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array, aligned
from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.families.logic_ca import automaton, data, gates, reference, verbs
from samebits.families.logic_ca.boards import cut, sizes
from samebits.families.logic_ca.circuits import repair
from samebits.families.logic_ca.circuits.circuit_report import circuit_verb
from samebits.families.logic_ca.circuits.export import export
from samebits.families.logic_ca.circuits.on_fpga import fpga
from samebits.families.logic_ca.config import POSITIONS, TASKS, LogicConfig, gate_count, layout
from samebits.families.logic_ca.gates import hard_coefficients, soft_coefficients
from samebits.families.logic_ca.gpu import kernels as gpu
from samebits.families.logic_ca.kernels import squared_errors
from samebits.families.logic_ca.model import LogicModel
from samebits.families.logic_ca.options import OPTIONS
from samebits.families.logic_ca.reach import check_reach
from samebits.families.logic_ca.settings import read_settings
from samebits.families.logic_ca.simulation.packed import simulate
from samebits.families.logic_ca.starts import first_passes
from samebits.families.logic_ca.tiling import tiling
from samebits.families.logic_ca.wiring import wires
from samebits.training.contract import Batch, Constants, Family, Filled, Kernels, Metrics, Work
from samebits.training.params import views
from samebits.training.parts import Bench, Measurement, Page, Peer


def init(config: LogicConfig, dtype: DTypeLike) -> Array:
    """Every gate starts as almost a wire: it passes an input on, a as published."""
    logits = aligned((gate_count(config), 16), dtype)
    logits[np.arange(len(logits)), first_passes(config)] = config.start_logit
    return logits.reshape(-1)


def slot_size(config: LogicConfig) -> int:
    return 4 * gate_count(config)


def group_bytes(config: LogicConfig) -> int:
    """Grids of every CA step, two steps of patch gradients and the neighbour table, for the samples of a group."""
    cells = config.height * config.width * max(1, config.lanes // (config.height * config.width))
    return 4 * cells * (config.channels * (config.ca_steps + 1 + 2 * POSITIONS + 2) + POSITIONS)


def groups(config: LogicConfig, batch: Batch) -> Array:
    return tiling(*sizes(config, batch)).group_tiles


def gradient(work: Work[LogicConfig, Workers], slots: Array, losses: Array) -> Filled:
    boards, plan = cut(work.config, work.batch, work.wave)
    logits, sums = work.params.reshape(-1, 16), slots.reshape(len(slots), -1, 4)
    probabilities = automaton.gradient(work.config, work.constants, logits, boards, plan, sums, losses, work.device)
    return Filled(carried=probabilities)


def pull_back(work: Work[LogicConfig, Workers], merged: Array, out: Array, carried: Array) -> None:
    gates.pull_back(out.reshape(-1, 16), carried, merged.reshape(-1, 4), work.device)


def evaluate(work: Work[LogicConfig, Workers], rows: Array) -> None:
    """Soft and hard squared error of every unit's cells, from the same starts."""
    config, constants, workers = work.config, work.constants, work.device
    boards, plan = cut(config, work.batch, work.wave)
    logits = work.params.reshape(-1, 16)
    k = boards.targets.shape[-1]
    wanted = np.ascontiguousarray(boards.targets.reshape(-1, k).T, logits.dtype)
    errors, found = np.empty(config.lanes, logits.dtype), np.empty(plan.units)
    for column, coef in enumerate((soft_coefficients(logits), hard_coefficients(logits))):
        depth = config.ca_steps + 1 if config.loss_steps else 2
        run = automaton.Rollout(boards.grids, boards.fire, plan, config.ca_steps)
        states = automaton.rollout(config, constants, coef, run, workers, depth)
        rows[:, column] = 0
        for step in np.flatnonzero(data.judged(config)) + 1:
            squared_errors(found, states[step % depth], wanted, plan.tiles, errors)
            rows[:, column] += found


def reference_loss(config: LogicConfig, constants: Constants, params: Array, batch: Batch) -> float:
    named = {**views(layout(config), params), **constants}
    boards = batch.arrays
    return reference.loss(config, named, boards.grids, boards.targets, boards.fire) / batch.divisor


def summarise(config: LogicConfig, sums: Mapping[str, float], batch: Batch) -> dict[str, float]:
    return dict(sums)


def gate_evaluations(config: LogicConfig) -> float:
    """Gates × cells × CA steps × samples of one training step."""
    per_cell = config.channels * config.kernels * sum(config.perceive) + sum(config.update)
    return float(per_cell * config.height * config.width * config.ca_steps * config.batch_size)


def flops(config: LogicConfig) -> float:
    """Multiply-adds count as two: 3 a gate and cell forward, twice (it is recomputed), 9 backward."""
    return 2.0 * (3 + 3 + 9) * gate_evaluations(config)


def traffic(config: LogicConfig) -> float:
    """Float32 a gate and cell: a, b and the output forward, twice (it is recomputed); backward a, b and the output's
    adjoint are read, those of a and b read and written."""
    return 4.0 * (3 + 3 + 7) * gate_evaluations(config)


def rolled_out(workers: Workers) -> list[Array]:
    """Soft and hard rollouts of an automaton with random gates, asynchronous, and its hard one bit-packed."""
    config = override(TASKS["checkerboard-async"].presets["small"], {"height": 12, "width": 70})
    assert isinstance(config, LogicConfig)
    logits = rng.integers((1, 16 * gate_count(config)), 1 << 16, 7, rng.Purpose.INIT, 1)[0].astype(np.float32)
    model = LogicModel(config, logits * np.float32(2.0**-13), wires(config))
    fire = data.fire_masks(config, rng.Purpose.RENDER, 0, 6, 12 * 70).reshape(6, 12, 70)
    start = data.start_grids(config, 2, rng.Purpose.RENDER, 0)
    packed = simulate(model.circuit, start, 6, config.boundary == "periodic", workers, fire=fire)
    unpacked = (model.rollout(start, 6, soft, fire=fire, workers=workers, packed=False) for soft in (True, False))
    return [*unpacked, packed]


FAMILY = Family(
    name="logic_ca",
    config=LogicConfig,
    tasks=TASKS,
    layout=layout,
    init=init,
    constants=wires,
    slot_size=slot_size,
    group_bytes=group_bytes,
    load=data.load,
    batch=data.batch,
    evaluation=data.evaluation,
    groups=groups,
    read_settings=read_settings,
    prepare=check_reach,
    finish=repair.finish,
    kernels={"cpu": Kernels(gradient, evaluate, pull_back, ahead=data.draw_acts), "gpu": gpu.KERNELS},
    reference=reference_loss,
    metrics=Metrics(
        loss="soft_loss",
        columns=("soft_loss", "hard_loss"),
        batch=("hard_loss",),
        evaluation=("soft_loss", "hard_loss"),
        best="hard_loss",
    ),
    summarise=summarise,
    model=LogicModel,
    sums=("cell", data.cells_judged),
    probes={"rollouts of automata": rolled_out},
    report=verbs.report,
    verbs={"render": verbs.render, "circuit": circuit_verb, "export": export, "fpga": fpga},
    options=OPTIONS,
    commands=("samebits render DIR", "samebits circuit DIR", "samebits export DIR --to html"),
    page=Page("automaton", answers={"automaton": f"{__package__}.circuits.page:automaton_of"}),
    bench=Bench(
        flops=flops,
        traffic=traffic,
        peers=(
            Peer("PyTorch eager", f"{__package__}.peer_torch", ("torch",)),
            Peer("PyTorch compiled", f"{__package__}.peer_torch", ("torch",), {"compiled": True}),
            Peer("JAX, published formulation", f"{__package__}.peer_jax", ("jax",)),
            Peer("JAX, rows of cells", f"{__package__}.peer_jax", ("jax",), {"rows": True}),
        ),
        gpu_peers=(
            Peer("PyTorch eager", f"{__package__}.peer_torch", ("torch",)),
            Peer("PyTorch compiled", f"{__package__}.peer_torch", ("torch",), {"compiled": True}),
            Peer(
                "PyTorch compiled, CUDA graph",
                f"{__package__}.peer_torch",
                ("torch",),
                {"compiled": True, "graph": True},
            ),
        ),
        measurements={
            "packed": Measurement(
                "the learned Life rule, 64 cells a word, beside the model itself",
                f"{__package__}.measure_packed:packed",
            ),
            "hardware": Measurement(
                "the exported Life rule as C and in Verilator, beside the packed simulator",
                f"{__package__}.measure_hardware:hardware",
            ),
        },
        parts={"pull_back_worker": "merge"},
    ),
)
