"""Lays out memory and hands units to the workers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from weft.engine.arrays import Array
from weft.engine.jit import kernel
from weft.engine.workers import Workers
from weft.families.graph.config import FIRST_POSITION, GraphConfig
from weft.families.graph.kernels import Sizes, Store, evaluate_worker, gradient_worker, unit_size
from weft.families.graph.sinkhorn import scratch_size
from weft.families.graph.vectors import numbers

NODE_BLOCK = 64  # buffers are made for whole blocks of nodes, so that they seldom grow
INLINE_FLOPS = 1.5e7  # about 0.1 ms on one core: twice what waking the others takes
CLASS_BLOCK = 16  # float32 in a vector


def padded_classes(config: GraphConfig) -> int:
    """Classes of all heads, and enough unused ones for whole vectors."""
    return -(-sum(config.head_sizes) // CLASS_BLOCK) * CLASS_BLOCK


@lru_cache(maxsize=8)
def sizes_of(config: GraphConfig) -> Sizes:
    gives = [config.relabels.index(label) if label in config.relabels else -1 for label in config.labels]
    a, b, c, d = config.head_sizes
    return Sizes(
        config.width, config.layers, config.kinds, len(config.labels) * (config.positions + FIRST_POSITION),
        (a, b, c, d), padded_classes(config), config.activation == "relu", config.sinkhorn, config.sinkhorn_steps,
        config.sinkhorn_temperature, np.array(gives, np.int64),
    )  # fmt: skip


@lru_cache(maxsize=2)
def numbers_of(dtype: np.dtype) -> Array:
    return numbers(dtype)


@kernel
def largest_unit(store: Store, chosen: Array, cuts: Array) -> int:
    most = 0
    for u in range(cuts.size - 1):
        most = max(most, unit_size(store, chosen, cuts[u], cuts[u + 1]))
    return most


def node_numbers(config: GraphConfig) -> int:
    """Numbers a node takes in a worker's memory (kernels.cut_space)."""
    H = config.width
    wide = (1 + config.kinds) * H
    return config.layers * (wide + H) + 2 * H + wide + padded_classes(config)


def flops(config: GraphConfig, nodes: int) -> float:
    """The products of a gradient: forward, and twice backward."""
    H = config.width
    return 6.0 * nodes * (config.layers * (1 + config.kinds) * H * H + H * sum(config.head_sizes))


def _run(
    config: GraphConfig, store: Store, chosen: Array, cuts: Array, workers: Workers, body: Any, *args: Any
) -> None:
    """On every worker; or here, where there is too little to do for a wake-up. Who computes changes no bit."""
    alone = cuts.size == 2 or flops(config, unit_size(store, chosen, cuts[0], cuts[-1])) < INLINE_FLOPS
    if alone:
        body(0, *args)
    else:
        workers.run(body, *args)


def _spaces(config: GraphConfig, store: Store, chosen: Array, cuts: Array, dtype: DTypeLike, workers: Workers) -> Array:
    nodes = -(-int(largest_unit(store, chosen, cuts)) // NODE_BLOCK) * NODE_BLOCK
    return workers.per_worker("graph space", nodes * node_numbers(config), dtype)


def _turned(config: GraphConfig, dtype: DTypeLike, workers: Workers) -> Array:
    """Each worker's copy of the weights, turned (kernels.turn_weights), and room for the heads' gradient."""
    layer = (1 + config.kinds) * config.width * config.width
    return workers.per_worker("graph weights", config.layers * layer + 3 * config.width * padded_classes(config), dtype)


def gradient(
    config: GraphConfig, params: Array, store: Store, chosen: Array, cuts: Array, slots: Array, losses: Array,
    workers: Workers,
) -> None:  # fmt: skip
    """One row of slots and losses for every unit of `cuts`."""
    dtype = params.dtype
    spaces = _spaces(config, store, chosen, cuts, dtype, workers)
    wanted = 1
    if config.sinkhorn:
        largest = int(max(np.diff(store.nodes).max(), np.diff(store.next_nodes).max()))
        unit = spaces.shape[1] // node_numbers(config)
        classes = config.head_sizes[0]
        wanted = unit * classes + scratch_size(largest, config.sinkhorn_steps, classes)
    scratch = workers.per_worker("sinkhorn", wanted, dtype)
    _run(
        config, store, chosen, cuts, workers, gradient_worker,
        workers.tickets(), workers.ticks, slots, losses, spaces,
        _turned(config, dtype, workers), params, sizes_of(config),
        numbers_of(dtype), scratch, store, chosen, cuts,
    )  # fmt: skip


def evaluate(
    config: GraphConfig, params: Array, store: Store, chosen: Array, cuts: Array, rows: Array, workers: Workers
) -> Array:
    """rows (units, 2): cross-entropy, graphs with every edit right. Returns the classes chosen, (nodes, 4)."""
    spaces = _spaces(config, store, chosen, cuts, params.dtype, workers)
    counts = np.diff(store.nodes)[chosen]
    starts = np.cumsum(counts) - counts
    choices = np.empty((int(counts.sum()), 4), np.int32)
    _run(
        config, store, chosen, cuts, workers, evaluate_worker,
        workers.tickets(), rows, choices, spaces, _turned(config, params.dtype, workers), params,
        sizes_of(config), numbers_of(params.dtype), store, chosen, cuts, starts,
    )  # fmt: skip
    return choices
