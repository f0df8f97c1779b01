"""Lays out memory and hands units to the workers."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.gemm import transposed_size
from samebits.devices.cpu.workers import Workers
from samebits.families.graph.config import FIRST_POSITION, GraphConfig
from samebits.families.graph.data import Pairs
from samebits.families.graph.kernels import (
    BackwardMemory,
    Graphs,
    Memory,
    Predictions,
    Slots,
    evaluate_worker,
    gradient_worker,
)
from samebits.families.graph.sinkhorn import scratch_size
from samebits.families.graph.store import Sizes, Store

OWNER = "graph"  # of scratch memory
NODE_BLOCK = 64  # buffers are made for whole blocks of nodes, so that they seldom grow
FOLDED = 3  # levels of the tree: a worker's eight neighbouring slots, some 100 kB each, are still in its cache
LITTLE_FLOPS = 1.5e7  # about 0.1 ms on one core: twice what waking the others takes


@lru_cache(maxsize=8)
def sizes_of(config: GraphConfig) -> Sizes:
    gives = [config.relabels.index(label) if label in config.relabels else -1 for label in config.labels]
    a, b, c, d = config.head_sizes
    return Sizes(
        config.width, config.layers, config.kinds, len(config.labels) * (config.positions + FIRST_POSITION),
        (a, b, c, d), sum(config.head_sizes), config.activation == "relu", config.sinkhorn, config.sinkhorn_steps,
        config.sinkhorn_temperature, np.array(gives, np.int64),
    )  # fmt: skip


def node_numbers(config: GraphConfig) -> int:
    """Numbers a node takes in a worker's memory (kernels.cut_space)."""
    H = config.width
    wide = (1 + config.kinds) * H
    return config.layers * (wide + H) + 2 * H + sum(config.head_sizes)


def flops(config: GraphConfig, nodes: int) -> float:
    """The products of a gradient: forward, and twice backward."""
    H = config.width
    return 6.0 * nodes * (config.layers * (1 + config.kinds) * H * H + H * sum(config.head_sizes))


def _is_little(config: GraphConfig, pairs: Pairs) -> bool:
    """Too little to share."""
    return pairs.cuts.size == 2 or flops(config, pairs.nodes) < LITTLE_FLOPS


def _unit_nodes(pairs: Pairs) -> int:
    """Nodes of the largest unit, in whole blocks."""
    return -(-pairs.most_nodes // NODE_BLOCK) * NODE_BLOCK


def _transposed(config: GraphConfig, dtype: DTypeLike, workers: Workers) -> Array:
    """Each worker's copy of the weights, transposed (kernels.transpose_weights)."""
    layer = (1 + config.kinds) * config.width * config.width
    size = config.layers * layer + config.width * sum(config.head_sizes)
    return workers.scratch(OWNER).per_worker("weights", size, dtype)


def _memory(config: GraphConfig, nodes: int, dtype: DTypeLike, workers: Workers) -> Memory:
    """Activations, and scratch for the products, whose sums run over nodes, wide rows or classes."""
    widest = (1 + config.kinds) * config.width
    deepest = max(nodes, widest, sum(config.head_sizes))
    scratch = workers.scratch(OWNER)
    return Memory(
        scratch.per_worker("space", nodes * node_numbers(config), dtype),
        scratch.per_worker("panels", int(transposed_size(deepest, widest)), dtype),
    )


def _sinkhorn(config: GraphConfig, store: Store, nodes: int, dtype: DTypeLike, workers: Workers) -> Array:
    """Scratch for the structural loss: its gradient for a unit, and what the largest graph needs."""
    size = 1
    if config.sinkhorn:
        largest = int(max(np.diff(store.nodes).max(), np.diff(store.next_nodes).max()))
        classes = config.head_sizes[0]
        size = nodes * classes + scratch_size(largest, config.sinkhorn_steps, classes)
    return workers.scratch(OWNER).per_worker("sinkhorn", size, dtype)


def gradient(
    config: GraphConfig, params: Array, pairs: Pairs, first: int, slots: Array, losses: Array, workers: Workers
) -> None:
    """Post it: one row of slots and losses for every unit from `first` on, as many as there are rows; slots folded."""
    nodes, dtype, units = _unit_nodes(pairs), params.dtype, len(slots)
    back = BackwardMemory(
        _transposed(config, dtype, workers),
        workers.scratch(OWNER).per_worker("slot", slots.shape[1], dtype),
        _sinkhorn(config, pairs.store, nodes, dtype, workers),
    )
    workers.post(
        gradient_worker, workers.schedule,
        Slots(workers.counters(units), workers.counters(units), first, FOLDED, slots, losses),
        _memory(config, nodes, dtype, workers), back, params, sizes_of(config),
        Graphs(pairs.store, pairs.chosen, pairs.cuts[first : first + units + 1]), alone=_is_little(config, pairs),
    )  # fmt: skip


def evaluate(config: GraphConfig, params: Array, pairs: Pairs, first: int, rows: Array, workers: Workers) -> Array:
    """rows (units, 2), from unit `first` on: cross-entropy, graphs with every edit right. Returns the classes chosen,
    (nodes, 4), of the graphs in these units."""
    nodes, dtype, store, chosen = _unit_nodes(pairs), params.dtype, pairs.store, pairs.chosen
    counts = np.diff(store.nodes)[chosen]
    starts = np.cumsum(counts) - counts
    choices = np.empty((pairs.nodes, 4), np.int32)
    workers.run(
        evaluate_worker, workers.tickets(), Predictions(rows, choices, starts), _memory(config, nodes, dtype, workers),
        params, sizes_of(config), Graphs(store, chosen, pairs.cuts[first : first + len(rows) + 1]),
        alone=_is_little(config, pairs),
    )  # fmt: skip
    return choices


def choices(config: GraphConfig, params: Array, pairs: Pairs, workers: Workers) -> Array:
    """(nodes, 4): the most likely class of every head at every node."""
    return evaluate(config, params, pairs, 0, np.empty((len(pairs.cuts) - 1, 2)), workers)
