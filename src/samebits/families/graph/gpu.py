"""Graph networks on a GPU: all nodes of a wave at once (graph.cl, sinkhorn.cl, products in gpu/tile.cl).

Batches differ in size, and launches that come again must not: so kernels run over as many nodes as the largest batch so
far had, rounded up. Those that are not there have no edges, and nobody reads what is computed for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
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
from samebits.gpu.products import Products

OWNER = "graph"
FILES = elementary.FILE, *products.FILES, "families/graph/graph.cl", "families/graph/sinkhorn.cl"
WARP = 32
Capacity = Callable[[str, int], int]


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


def padded(flat: Flat, room: Capacity) -> dict[str, Array]:
    """The same under names, as long as the longest of its kind so far: with nodes that have no edges."""
    nodes = room("nodes", int(flat.graphs[-1]))
    found = {name: getattr(flat, name) for name in ("units", "unit_graphs", "graphs", "next_graphs")}
    found["row_starts"] = longer(flat.row_starts, nodes + 1, int(flat.row_starts[-1]))
    found["rows"] = longer(flat.rows, room("rows", len(flat.rows) + 1))  # one more: nodes that are not there have it
    found["targets"] = longer(flat.targets.reshape(-1), 4 * nodes)
    for name in ("labels", "parents"):
        found[name] = longer(getattr(flat, name), nodes)
    following = room("next", len(flat.next_labels))
    for name in ("next_labels", "next_parents"):
        found[name] = longer(getattr(flat, name), following)
    for kind, (starts, edges) in enumerate(zip(flat.edge_starts, flat.edges, strict=True)):
        found[f"edge_starts {kind}"] = longer(starts, nodes + 1, int(starts[-1]))
        found[f"edges {kind}"] = longer(edges, room(f"edges {kind}", len(edges)))
    return found


def longer(array: Array, size: int, value: int = 0) -> Array:
    found = np.full(size, value, np.int32)
    found[: len(array)] = array
    return found


class Network:
    """One wave: its graphs on the device, and what the way back needs."""

    def __init__(self, config: GraphConfig, params: Any, there: Mapping[str, Any], matching: int, device: Gpu) -> None:
        self.device, self.params, self.sizes, self.there = device, params, sizes_of(config), there
        self.kernels, self.scratch = device.program(FILES, **elementary.WORDS), device.scratch(OWNER)
        self.products, self.matching = Products(device, self.kernels), matching
        self.nodes, self.units = len(there["labels"]), len(there["units"]) - 1
        self.size, self.H, self.C = parameter_total(config), self.sizes.width, self.sizes.classes
        self.W = (1 + self.sizes.kinds) * self.H
        self.edges = [(there[f"edge_starts {kind}"], there[f"edges {kind}"]) for kind in range(self.sizes.kinds)]
        self.heads = there["heads"]

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
        sizes, there = self.sizes, self.there
        graphs = len(there["graphs"]) - 1
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
        sizes, there = self.sizes, self.there
        memory = self.scratch.buffer("matching", (self.matching,), np.float32)
        self.run(
            "structural", graphs, matched, extra, memory, there["places"], chances, there["graphs"], there["labels"],
            there["parents"], there["next_graphs"], there["next_labels"], there["next_parents"], there["gives"],
            graphs, self.C, sizes.heads[0], sizes.sinkhorn_steps, sizes.temperature, sizes.sinkhorn,
        )  # fmt: skip

    def backward(self, slopes: Any, slots: Any) -> None:
        H, W, C, L, there, count = self.H, self.W, self.C, self.sizes.layers, self.there, self.nodes * self.H
        units, flat, dh = there["units"], slots.reshape(-1), self.memory("dh", H)
        weights, bias = self.places(L)
        self.products.by_unit(slots, weights, self.x(L)[0], slopes, units, (H, C))
        self.run("column_sums", C, flat[bias:], slopes, units, C, self.size, parts=self.units)
        self.products.times(dh, slopes, self.params[weights:], (self.nodes, C, H), transposed=True)
        for layer in range(L - 1, -1, -1):
            (x, _), (weights, bias) = self.x(layer), self.places(layer)
            self.run("scale_by", count, dh, self.memory(f"slope {layer}", H), count)
            self.products.by_unit(slots, weights, x, dh, units, (W, H))
            self.run("column_sums", H, flat[bias:], dh, units, H, self.size, parts=self.units)
            self.products.times(x, dh, self.params[weights:], (self.nodes, H, W), transposed=True)
            self.run("gather_backward", count, dh, x, *self.edges[0], count, H, W, 0)
            for kind, (starts, edges) in enumerate(reversed(self.edges)):
                self.run("gather_backward", count, dh, x, starts, edges, count, H, W, (1 + kind) * H)
        self.run(
            "embed_backward", H, flat, dh, there["row_starts"], there["rows"], units, self.sizes.embed, H, self.size,
            parts=self.units,
        )  # fmt: skip


def play(
    config: GraphConfig, params: Any, batch: Batch, wave: Wave, rows: tuple[Any, ...], device: Gpu, train: bool
) -> None:
    """Send a wave's graphs, and post what is done with them, or post it again."""
    sizes, scratch, name = sizes_of(config), device.scratch(OWNER), f"{'train' if train else 'evaluate'} {len(rows[0])}"
    room = partial(scratch.capacity, name)
    flat = flatten(batch.arrays, wave.first_unit, wave.last_unit)
    arrays = padded(flat, room) | {"heads": np.array(sizes.heads), "gives": sizes.gives}
    matching = 0
    if train and sizes.sinkhorn > 0:
        arrays["places"] = sums_of(matching_room(flat, sizes))
        matching = room("matching", int(arrays["places"][-1]))
    sent = scratch.send("graphs", arrays, np.int32)

    def post() -> None:
        run = Network(config, params, sent, matching, device)
        chances = run.forward()
        run.losses(chances, rows[0], structural=train)
        if train:
            run.backward(chances, rows[1])

    shapes = tuple(array.size for array in arrays.values())
    same = sizes_key(sizes), params.place, shapes, matching, *((one.place, one.shape) for one in rows)
    device.replay((OWNER, train, *same), post)


def matching_room(flat: Flat, sizes: Any) -> Array:
    """Numbers that the matching of each graph with the next one needs (sinkhorn.cl)."""
    n, m = np.diff(flat.graphs), np.diff(flat.next_graphs)
    return 6 * (n + 1) * (m + 1) + (sizes.sinkhorn_steps + 2) * (n + m + 2) + n * sizes.heads[0]


def sizes_key(sizes: Any) -> Any:
    return tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in sizes)


def gradient(
    config: GraphConfig, constants: Constants, params: Any, batch: Batch, wave: Wave, slots: Any, losses: Any,
    device: Gpu,
) -> None:  # fmt: skip
    play(config, params, batch, wave, (losses, slots), device, train=True)


def evaluate(
    config: GraphConfig, constants: Constants, params: Any, batch: Batch, wave: Wave, rows: Any, device: Gpu
) -> None:
    play(config, params, batch, wave, (rows,), device, train=False)


def choices(config: GraphConfig, params: Any, pairs: Pairs, device: Gpu) -> Array:
    """network.choices."""
    require_single(params)
    sizes, scratch, flat = sizes_of(config), device.scratch(OWNER), flatten(pairs, 0, len(pairs.cuts) - 1)
    room = partial(scratch.capacity, "choices")
    arrays = padded(flat, lambda name, size: room(name, max(1, size))) | {"heads": np.array(sizes.heads)}
    run = Network(config, params, scratch.send("graphs", arrays, np.int32), 0, device)
    chances, found = device.download(run.forward()), np.zeros((int(flat.graphs[-1]), len(sizes.heads)), np.int32)
    for head, (size, end) in enumerate(zip(sizes.heads, np.cumsum(sizes.heads), strict=True)):
        if size:
            found[:, head] = chances[: len(found), end - size : end].argmax(1)
    return found


KERNELS = Kernels(gradient, evaluate)
