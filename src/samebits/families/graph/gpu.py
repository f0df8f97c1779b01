"""Graph networks on a GPU: all nodes of a wave at once (graph.cl, sinkhorn.cl, products in devices/gpu/panel.cl).

Batches differ in size, and launches that come again must not: so kernels run over as many nodes as the largest batch so
far had, rounded up. Those that are not there have no edges, and nobody reads what is computed for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.gpu import elementary, products
from samebits.devices.gpu.arrays import Packed
from samebits.devices.gpu.device import THREADS, Gpu, Scratch
from samebits.devices.gpu.opened import require_single
from samebits.devices.gpu.products import Gradient, Products
from samebits.families.graph import sinkhorn
from samebits.families.graph.config import GraphConfig
from samebits.families.graph.data import Pairs
from samebits.families.graph.network import sizes_of
from samebits.families.graph.store import Sizes, Store
from samebits.training.contract import Batch, Filled, Kernels, Wave, Work

OWNER = "graph"
FILES = elementary.FILE, *products.FILES, "families/graph/graph.cl", "families/graph/sinkhorn.cl"
WORDS = {
    **elementary.WORDS, **products.WORDS, "KEEP": sinkhorn.KEEP, "DELETE_CLASS": sinkhorn.DELETE,
    "FIRST_LABEL": sinkhorn.FIRST_LABEL,
}  # fmt: skip
WARP = 32
Capacity = Callable[[str, int], int]


class Picked(NamedTuple):
    """Graphs of a wave, one after the other: which part of an array of the store each is, and where it goes."""

    units: Array  # (units + 1,) first node of each
    unit_graphs: Array  # (units + 1,) first graph of each
    graphs: Array  # (graphs + 1,) first node of each
    next_graphs: Array
    parts: dict[str, Array]  # by array: (graphs + 1, 4) first in the store (−1: nothing), first here, how many, added
    room: dict[str, int]  # numbers of each array here


def sums_of(counts: Array) -> Array:
    return np.concatenate([[0], np.cumsum(counts)])


def pick(pairs: Pairs, first: int, last: int, room: Capacity) -> Picked:
    """The units first … last of a batch. Arrays are as long as the longest of their kind so far: nodes that are not
    there have no edges."""
    store, cuts = pairs.store, pairs.cuts[first : last + 1]
    chosen = pairs.chosen[cuts[0] : cuts[-1]]
    begin, end = store.nodes[chosen], store.nodes[chosen + 1]
    graphs, nodes = sums_of(end - begin), room("nodes", int((end - begin).sum()))
    parts, sizes = {}, {}

    def add(name: str, firsts: Array, places: Array, shift: Array | int, size: int, rest: int = 0) -> None:
        """After the last graph come `rest`s, up to `size`."""
        table = np.empty((len(chosen) + 1, 4), np.int32)
        table[:-1, 0], table[:-1, 1], table[:-1, 2], table[:-1, 3] = firsts, places[:-1], np.diff(places), shift
        table[-1] = -1, places[-1], size - places[-1], rest
        parts[name], sizes[name] = table, size

    def add_lists(starts_name: str, starts: Array, name: str, shift: Array | int, more: int) -> None:
        """A list for every node: where they begin, and what they hold."""
        firsts, lasts = starts[begin], starts[end]
        places = sums_of(lasts - firsts)
        add(starts_name, begin, graphs, places[:-1] - firsts, nodes + 1, int(places[-1]))
        add(name, firsts, places, shift, room(name, int(places[-1]) + more))

    add("node", begin, graphs, 0, nodes)
    add_lists("row_starts", store.row_starts, "rows", 0, 1)  # one more: nodes that are not there have it
    for kind in range(len(store.edges)):
        add_lists(f"edge_starts {kind}", store.edge_starts[kind], f"edges {kind}", graphs[:-1], 0)
    following, after = store.next_nodes[chosen], store.next_nodes[chosen + 1]
    next_graphs = sums_of(after - following)
    add("next", following, next_graphs, 0, room("next", int(next_graphs[-1])))
    unit_graphs = cuts - cuts[0]
    return Picked(graphs[unit_graphs], unit_graphs, graphs, next_graphs, parts, sizes)


def sources(store: Store) -> dict[str, tuple[str, Array, int]]:
    """By array: whose parts it has, itself, and how many numbers each has there."""
    kinds = range(len(store.edges))
    edges = {f"edges {kind}": (f"edges {kind}", store.edges[kind], 1) for kind in kinds}
    starts = {f"edge_starts {kind}": (f"edge_starts {kind}", store.edge_starts[kind], 1) for kind in kinds}
    return edges | starts | {
        "row_starts": ("row_starts", store.row_starts, 1), "rows": ("rows", store.rows, 1),
        "targets": ("node", store.targets, 4), "labels": ("node", store.labels, 1),
        "parents": ("node", store.parents, 1), "next_labels": ("next", store.next_labels, 1),
        "next_parents": ("next", store.next_parents, 1),
    }  # fmt: skip


def send(picked: Picked, more: Mapping[str, Array], scratch: Scratch) -> Packed:
    """What differs from batch to batch; the store is there already."""
    short = {name: getattr(picked, name) for name in ("units", "unit_graphs", "graphs", "next_graphs")}
    tables = {f"parts {name}": table for name, table in picked.parts.items()}
    return scratch.send("graphs", short | tables | dict(more), np.int32)


def unpack(device: Gpu, store: Store, sent: Packed, room: Mapping[str, int]) -> dict[str, Any]:
    """Post it: the wave's arrays, picked from the store."""
    kernel, scratch, found = device.program(FILES, **WORDS)["pick"], device.scratch(OWNER), {}
    for name, (parts, array, width) in sources(store).items():
        there = scratch.constant(array, np.int32)
        found[name] = scratch.buffer(name, (width * room[parts],), np.int32)
        table = sent[f"parts {parts}"]
        device.post(kernel, table.size // 4, 2 * WARP, found[name], there, table, width)
    return found


class Network:
    """One wave: its graphs on the device, and what the way back needs."""

    def __init__(self, sizes: Sizes, params: Any, there: Mapping[str, Any], matching: int, device: Gpu) -> None:
        self.device, self.params, self.sizes, self.there = device, params, sizes, there
        self.kernels, self.scratch = device.program(FILES, **WORDS), device.scratch(OWNER)
        self.products, self.matching = Products(device, self.kernels), matching
        self.nodes, self.units = there["labels"].size, there["units"].size - 1
        self.size, self.H, self.C = params.size, self.sizes.width, self.sizes.classes
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
            self.products.times(out, x, self.params[weights:], (self.nodes, W, H), width=width)
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
        graphs = there["graphs"].size - 1
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
        self.products.by_unit(slots, [Gradient(weights, self.x(L)[0], slopes, H, C)], units)
        self.run("column_sums", C, flat[bias:], slopes, units, C, self.size, parts=self.units)
        self.products.transposed(dh, slopes, self.params[weights:], (self.nodes, C, H))
        for layer in range(L - 1, -1, -1):
            (x, _), (weights, bias) = self.x(layer), self.places(layer)
            self.run("scale_by", count, dh, self.memory(f"slope {layer}", H), count)
            self.products.by_unit(slots, [Gradient(weights, x, dh, W, H)], units)
            self.run("column_sums", H, flat[bias:], dh, units, H, self.size, parts=self.units)
            self.products.transposed(x, dh, self.params[weights:], (self.nodes, H, W))
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
    """Send which graphs a wave has, and post what is done with them, or post it again."""
    sizes, scratch, store = sizes_of(config), device.scratch(OWNER), batch.arrays.store
    room = partial(scratch.capacity, f"{'train' if train else 'evaluate'} {len(rows[0])}")
    picked = pick(batch.arrays, wave.first_unit, wave.last_unit, room)
    more, matching = {"heads": np.array(sizes.heads), "gives": sizes.gives}, 0
    if train and sizes.sinkhorn > 0:
        more["places"] = sums_of(matching_room(picked, sizes))
        matching = room("matching", int(more["places"][-1]))
    sent = send(picked, more, scratch)
    device.replay(post_wave, sizes, params, store, sent, picked.room, matching, rows, train)


def post_wave(
    device: Gpu, sizes: Sizes, params: Any, store: Store, sent: Packed, room: Mapping[str, int], matching: int,
    rows: tuple[Any, ...], train: bool,
) -> None:  # fmt: skip
    """What is done with a wave's graphs, which are picked from the store."""
    run = Network(sizes, params, {**sent, **unpack(device, store, sent, room)}, matching, device)
    chances = run.forward()
    run.losses(chances, rows[0], structural=train)
    if train:
        run.backward(chances, rows[1])


def matching_room(picked: Picked, sizes: Any) -> Array:
    """Numbers that the matching of each graph with the next one needs (sinkhorn.cl)."""
    n, m = np.diff(picked.graphs), np.diff(picked.next_graphs)
    return 6 * (n + 1) * (m + 1) + (sizes.sinkhorn_steps + 2) * (n + m + 2) + n * sizes.heads[0]


def gradient(work: Work[GraphConfig, Gpu], slots: Any, losses: Any) -> Filled:
    play(work.config, work.params, work.batch, work.wave, (losses, slots), work.device, train=True)
    return Filled()


def evaluate(work: Work[GraphConfig, Gpu], rows: Any) -> None:
    play(work.config, work.params, work.batch, work.wave, (rows,), work.device, train=False)


def choices(config: GraphConfig, params: Any, pairs: Pairs, device: Gpu) -> Array:
    """network.choices."""
    require_single(params)
    sizes, scratch, store = sizes_of(config), device.scratch(OWNER), pairs.store
    room = partial(scratch.capacity, "choices")
    picked = pick(pairs, 0, len(pairs.cuts) - 1, room)
    sent = send(picked, {"heads": np.array(sizes.heads)}, scratch)
    run = Network(sizes, params, {**sent, **unpack(device, store, sent, picked.room)}, 0, device)
    chances, found = device.download(run.forward()), np.zeros((int(picked.graphs[-1]), len(sizes.heads)), np.int32)
    for head, (size, end) in enumerate(zip(sizes.heads, np.cumsum(sizes.heads), strict=True)):
        if size:
            found[:, head] = chances[: len(found), end - size : end].argmax(1)
    return found


KERNELS = Kernels(gradient, evaluate)
