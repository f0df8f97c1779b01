"""Graph networks on a GPU: all nodes of a wave at once (graph.cl, sinkhorn.cl, products in gpu/gemm.cl)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from samebits.engine.arrays import Array
from samebits.engine.family import Batch, Constants, Kernels, Wave
from samebits.families.graph.config import GraphConfig, parameter_total
from samebits.families.graph.data import Pairs
from samebits.families.graph.network import sizes_of
from samebits.gpu import elementary, products
from samebits.gpu.device import THREADS, Gpu
from samebits.gpu.opened import require_single
from samebits.gpu.products import B_TRANSPOSED, Products

OWNER = "graph"
FILES = elementary.FILE, products.FILE, "families/graph/graph.cl", "families/graph/sinkhorn.cl"
WARP = 32


class Flat(NamedTuple):
    """The graphs of a wave one after the other; edges name nodes by their number there."""

    units: Array  # (units + 1,) first node of each
    unit_graphs: Array  # (units + 1,) first graph of each
    graphs: Array  # (graphs + 1,) first node of each
    row_starts: Array
    rows: Array
    edge_starts: list[Array]
    edges: list[Array]
    targets: Array
    labels: Array
    parents: Array
    next_graphs: Array
    next_labels: Array
    next_parents: Array


def ranges(firsts: Array, counts: Array) -> Array:
    """first, first + 1, … of each, one after the other."""
    starts = np.cumsum(counts) - counts
    return np.repeat(firsts - starts, counts) + np.arange(counts.sum())


def sums_of(counts: Array) -> Array:
    return np.concatenate([[0], np.cumsum(counts)])


def flatten(pairs: Pairs, first: int, last: int) -> Flat:
    """The units first … last of a batch."""
    store, cuts = pairs.store, pairs.cuts[first : last + 1]
    chosen = pairs.chosen[cuts[0] : cuts[-1]]
    counts, next_counts = (np.diff(starts)[chosen] for starts in (store.nodes, store.next_nodes))
    nodes, graphs = ranges(store.nodes[chosen], counts), sums_of(counts)
    base = np.repeat(graphs[:-1], counts)
    rows = np.diff(store.row_starts)[nodes]
    starts, edges = [], []
    for kind in range(len(store.edges)):
        many = np.diff(store.edge_starts[kind])[nodes]
        starts.append(sums_of(many))
        edges.append(store.edges[kind][ranges(store.edge_starts[kind][nodes], many)] + np.repeat(base, many))
    following = ranges(store.next_nodes[chosen], next_counts)
    unit_graphs = cuts - cuts[0]
    return Flat(
        graphs[unit_graphs], unit_graphs, graphs, sums_of(rows), store.rows[ranges(store.row_starts[nodes], rows)],
        starts, edges, store.targets[nodes], store.labels[nodes], store.parents[nodes], sums_of(next_counts),
        store.next_labels[following], store.next_parents[following],
    )  # fmt: skip


class Network:
    """One wave: its graphs on the device, and what the way back needs."""

    def __init__(self, config: GraphConfig, params: Any, pairs: Pairs, first: int, last: int, device: Gpu) -> None:
        self.device, self.params, self.sizes = device, params, sizes_of(config)
        self.kernels, self.scratch = device.program(FILES, **elementary.WORDS), device.scratch(OWNER)
        self.products = Products(device, self.kernels)
        self.flat = flat = flatten(pairs, first, last)
        self.nodes, self.units, self.size = int(flat.graphs[-1]), last - first, parameter_total(config)
        self.H, self.C = self.sizes.width, self.sizes.classes
        self.W = (1 + self.sizes.kinds) * self.H
        single = {name: getattr(flat, name) for name in flat._fields if name not in ("edge_starts", "edges")}
        self.there = {name: self._sent(name, array) for name, array in single.items()}
        self.edges = [
            (self._sent(f"edge starts {kind}", flat.edge_starts[kind]), self._sent(f"edges {kind}", flat.edges[kind]))
            for kind in range(len(flat.edges))
        ]
        self.heads = self._sent("heads", np.array(self.sizes.heads))

    def _sent(self, name: str, array: Array) -> Any:
        """On the device, as int32."""
        found = self.scratch.buffer(name, (max(1, array.size),), np.int32)
        if array.size:
            found[:] = array.reshape(-1).astype(np.int32)
        return found

    def memory(self, name: str, width: int, dtype: Any = np.float32) -> Any:
        return self.scratch.buffer(name, (self.nodes, width), dtype)

    def run(self, name: str, threads: int, *args: Any, parts: int = 1) -> None:
        """A thread for each of so many things."""
        group = WARP if threads < THREADS else THREADS
        self.device.post(self.kernels[name], (-(-threads // group), parts), group, *args)

    def places(self, layer: int) -> tuple[int, int]:
        """Where a layer's weights and bias lie; the heads' after the last layer's."""
        start = self.sizes.embed * self.H + layer * (self.W * self.H + self.H)
        return start, start + (self.H * self.C if layer == self.sizes.layers else self.W * self.H)

    def x(self, layer: int) -> tuple[Any, int]:
        """A layer's input, and its width."""
        width = self.W if layer < self.sizes.layers else self.H
        return self.memory(f"x {layer}", width), width

    def forward(self) -> Any:
        """The chances of all heads' classes."""
        H, W, L, there, count = self.H, self.W, self.sizes.layers, self.there, self.nodes * self.H
        first, width = self.x(0)
        self.run("embed_forward", count, first, self.params, there["row_starts"], there["rows"], count, H, width)
        for layer in range(L):
            (x, _), (out, width) = self.x(layer), self.x(layer + 1)
            weights, bias = self.places(layer)
            for kind, (starts, edges) in enumerate(self.edges):
                self.run("gather_forward", count, x, starts, edges, count, H, W, (1 + kind) * H)
            self.products.times(out, x, self.params[weights:], (self.nodes, W, H), ldc=width)
            slope = self.memory(f"slope {layer}", H)
            self.run("activate", count, out, slope, self.params[bias:], count, H, width, int(self.sizes.relu))
        weights, bias = self.places(L)
        chances = self.memory("chances", self.C)
        self.products.times(chances, self.x(L)[0], self.params[weights:], (self.nodes, H, self.C))
        self.run("softmax_heads", self.nodes, chances, self.params[bias:], self.heads, self.nodes, self.C)
        return chances

    def losses(self, chances: Any, rows: Any, structural: bool) -> None:
        """A row for every unit; chances become the slopes of the logits."""
        sizes, there, flat = self.sizes, self.there, self.flat
        graphs = len(flat.graphs) - 1
        matched = self.scratch.buffer("matched", (graphs,), np.float64)
        weight = sizes.sinkhorn if structural else 0.0
        extra = self.memory("extra", sizes.heads[0])
        if weight > 0:
            self._match(chances, matched, extra, graphs)
        told = self.memory("told", 5, np.float64)
        self.run("cross_entropy", self.nodes, chances, told, there["targets"], self.heads, self.nodes, self.C)
        if weight > 0:
            self.run("add_extra", extra.size, chances, extra, extra.size, sizes.heads[0], self.C)
        self.run(
            "sum_units", self.units, rows, rows.shape[1], told, matched, weight, self.heads, there["units"],
            there["unit_graphs"], there["graphs"], self.units,
        )  # fmt: skip

    def _match(self, chances: Any, matched: Any, extra: Any, graphs: int) -> None:
        sizes, there, flat = self.sizes, self.there, self.flat
        n, m = np.diff(flat.graphs), np.diff(flat.next_graphs)
        A, rounds = sizes.heads[0], sizes.sinkhorn_steps
        room = 6 * (n + 1) * (m + 1) + (rounds + 2) * (n + m + 2) + n * A
        places = sums_of(room)
        memory = self.scratch.buffer("matching", (int(places[-1]),), np.float32)
        self.run(
            "structural", graphs, matched, extra, memory, self._sent("places", places), chances, there["graphs"],
            there["labels"], there["parents"], there["next_graphs"], there["next_labels"], there["next_parents"],
            self._sent("gives", sizes.gives), graphs, self.C, A, rounds, sizes.temperature, sizes.sinkhorn,
        )  # fmt: skip

    def backward(self, slopes: Any, slots: Any) -> None:
        H, W, C, L, there, count = self.H, self.W, self.C, self.sizes.layers, self.there, self.nodes * self.H
        units, flat, dh = there["units"], slots.reshape(-1), self.memory("dh", H)
        weights, bias = self.places(L)
        self.products.by_unit(slots, weights, self.x(L)[0], slopes, units, (H, C))
        self.run("column_sums", C, flat[bias:], slopes, units, C, self.size, parts=self.units)
        self.products.times(dh, slopes, self.params[weights:], (self.nodes, C, H), B_TRANSPOSED)
        for layer in range(L - 1, -1, -1):
            (x, _), (weights, bias) = self.x(layer), self.places(layer)
            self.run("scale_by", count, dh, self.memory(f"slope {layer}", H), count)
            self.products.by_unit(slots, weights, x, dh, units, (W, H))
            self.run("column_sums", H, flat[bias:], dh, units, H, self.size, parts=self.units)
            self.products.times(x, dh, self.params[weights:], (self.nodes, H, W), B_TRANSPOSED)
            self.run("gather_backward", count, dh, x, *self.edges[0], count, H, W, 0)
            for kind, (starts, edges) in enumerate(reversed(self.edges)):
                self.run("gather_backward", count, dh, x, starts, edges, count, H, W, (1 + kind) * H)
        self.run(
            "embed_backward", H, flat, dh, there["row_starts"], there["rows"], units, self.sizes.embed, H, self.size,
            parts=self.units,
        )  # fmt: skip


def gradient(
    config: GraphConfig, constants: Constants, params: Any, batch: Batch, wave: Wave, slots: Any, losses: Any,
    device: Gpu,
) -> None:  # fmt: skip
    run = Network(config, params, batch.arrays, wave.first_unit, wave.last_unit, device)
    chances = run.forward()
    run.losses(chances, losses, structural=True)
    run.backward(chances, slots)


def evaluate(
    config: GraphConfig, constants: Constants, params: Any, batch: Batch, wave: Wave, rows: Any, device: Gpu
) -> None:
    run = Network(config, params, batch.arrays, wave.first_unit, wave.last_unit, device)
    run.losses(run.forward(), rows, structural=False)


def choices(config: GraphConfig, params: Any, pairs: Pairs, device: Gpu) -> Array:
    """network.choices."""
    require_single(params)
    run = Network(config, params, pairs, 0, len(pairs.cuts) - 1, device)
    chances, found = device.download(run.forward()), np.zeros((run.nodes, len(run.sizes.heads)), np.int32)
    for head, (size, end) in enumerate(zip(run.sizes.heads, np.cumsum(run.sizes.heads), strict=True)):
        if size:
            found[:, head] = chances[:, end - size : end].argmax(1)
    return found


KERNELS = Kernels(gradient, evaluate)
