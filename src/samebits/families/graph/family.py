"""Graph-to-graph networks as a family: what the engine needs to train them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array, aligned
from samebits.arithmetic.rng import Purpose
from samebits.devices.cpu.workers import Workers
from samebits.families.graph import data, gpu, network, reference, userdata, verbs
from samebits.families.graph.config import TASKS, GraphConfig, layout, parameter_total
from samebits.families.graph.model import GraphModel
from samebits.training.contract import Batch, Constants, Family, Filled, Kernels, Metrics, Work
from samebits.training.params import spans, views
from samebits.training.parts import Bench, Option, Page, Peer

MEAN_NODES = {
    "boolean": 7,
    "peano": 13,
    "arithmetic": 8,
    "algebra": 7,
    "derivative": 10,
    "pairs": 9,
}  # of a training graph

EXAMPLES = {
    "boolean": "(and x (or x (not F)))",
    "peano": "(add (S (S 0)) (S 0))",
    "arithmetic": "(add 2 (mul 3 1))",
    "algebra": "(mul (add x 0) 1)",
    "derivative": "(mul x (sin x))",
}  # by rule, to type into the page of a run


def init(config: GraphConfig, dtype: DTypeLike) -> Array:
    """Uniform numbers whose variance keeps signals at their size through a layer; biases 0."""
    table = list(spans(layout(config)))
    flat = aligned(table[-1][2], dtype)
    words = rng.words((1, flat.size), config.seed, Purpose.INIT, 0)[0]
    uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1
    for name, start, end, shape in table:
        if not name.endswith("bias"):
            fan = 1 if name == "embed" else shape[0] * (1 + config.kinds if name.startswith("layers") else 1)
            flat[start:end] = uniform[start:end] * math.sqrt(3 / fan)
    return flat


def constants(config: GraphConfig) -> Constants:
    return {}


def group_bytes(config: GraphConfig) -> int:
    """A unit's activations. A unit may pass `unit_nodes` by half, and by a graph."""
    return 4 * network.node_numbers(config) * (3 * config.unit_nodes // 2 + config.most_nodes)


def groups(config: GraphConfig, batch: Batch) -> Array:
    return np.ones(len(batch.arrays.cuts) - 1, np.int64)


def gradient(work: Work[GraphConfig, Workers], slots: Array, losses: Array) -> Filled:
    pairs, first = work.batch.arrays, work.wave.first_unit
    network.gradient(work.config, work.params, pairs, first, slots, losses, work.device)
    return Filled(level=network.FOLDED)


def evaluate(work: Work[GraphConfig, Workers], rows: Array) -> None:
    network.evaluate(work.config, work.params, work.batch.arrays, work.wave.first_unit, rows, work.device)


def reference_loss(config: GraphConfig, constants: Constants, params: Array, batch: Batch) -> float:
    named = views(layout(config), params)
    return reference.loss(config, named, batch.arrays.store, batch.arrays.chosen) / batch.divisor


def summarise(config: GraphConfig, sums: Mapping[str, float], batch: Batch) -> dict[str, float]:
    """`wrong` is the part of the graphs with at least one wrong edit."""
    return {"edit_loss": sums["edit_loss"] / batch.samples, "wrong": 1 - sums["exact"] / batch.samples}


def details(config: GraphConfig) -> dict[str, str]:
    example = EXAMPLES.get(config.rule, "") if config.data is None else ""
    return {"example": example} if example else {}


def mean_nodes(config: GraphConfig) -> int:
    return config.random_graphs[0] or MEAN_NODES[config.rule]


def flops(config: GraphConfig) -> float:
    """The products of a step; graphs of average size."""
    return network.flops(config, mean_nodes(config) * config.batch_size)


def products(config: GraphConfig) -> list[tuple[int, int, int, int]]:
    """The same as (m, k, n, how many): forward, and backward to the weights and to the inputs."""
    nodes, H, C = mean_nodes(config) * config.batch_size, config.width, sum(config.head_sizes)
    W = (1 + config.kinds) * H
    layers = [(nodes, W, H, config.layers), (W, nodes, H, config.layers), (nodes, H, W, config.layers)]
    return [*layers, (nodes, H, C, 1), (H, nodes, C, 1), (nodes, C, H, 1)]


FAMILY = Family(
    name="graph",
    config=GraphConfig,
    tasks=TASKS,
    layout=layout,
    init=init,
    constants=constants,
    slot_size=parameter_total,
    group_bytes=group_bytes,
    load=data.load,
    batch=data.batch,
    evaluation=data.evaluation,
    groups=groups,
    kernels={"cpu": Kernels(gradient, evaluate), "gpu": gpu.KERNELS},
    reference=reference_loss,
    metrics=Metrics(
        loss="loss",
        columns=("edit_loss", "exact"),
        batch=("wrong",),
        evaluation=("edit_loss", "wrong"),
        best="edit_loss",
    ),
    summarise=summarise,
    model=GraphModel,
    prepare=userdata.prepare,
    derived=lambda values: ("data_hash",),
    report=verbs.report,
    verbs={"render": verbs.render, "predict": verbs.predict},
    options={"train": {"data": Option("your pairs", metavar="FILE")}},
    commands=("samebits render DIR",),
    page=Page("rewriting", details, {"rewrite": f"{__package__}.page:rewritten"}),
    bench=Bench(
        flops=flops,
        products=products,
        peers=(Peer("PyTorch Geometric", f"{__package__}.peer_torch", ("torch", "torch_geometric")),),
        gpu_peers=tuple(
            Peer(f"PyTorch Geometric{way}", f"{__package__}.peer_torch", ("torch", "torch_geometric"), options)
            for way, options in (
                ("", {}),
                (" compiled, any shape", {"compiled": True}),
                (" compiled, filled up, CUDA graph", {"compiled": True, "graph": True}),
            )
        ),
    ),
)
