"""The model in plain NumPy, float64: h′ = φ(h W_self + Σ children W_up + Σ parents W_down + b), then softmax heads.

Slow on purpose: one graph, one node, one edge at a time. The kernels are held to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.families.graph.config import GraphConfig
from samebits.families.graph.store import Store

KEEP, DELETE, FIRST_LABEL = 0, 1, 2  # classes of the first head: nothing happens, the node goes, it gets a label


def activation(config: GraphConfig, x: Array) -> Array:
    if config.activation == "relu":
        return np.maximum(x, 0)
    return 0.5 * x * (1 + x / np.sqrt(1 + x * x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def neighbours(store: Store, kind: int, node: int) -> Array:
    starts = store.edge_starts[kind]
    return store.edges[kind, starts[node] : starts[node + 1]]


def head_probabilities(config: GraphConfig, named: Mapping[str, Array], store: Store, graph: int) -> list[Array]:
    """For each head (n, classes)."""
    first, last = store.nodes[graph : graph + 2]
    table = named["embed"].reshape(-1, config.width)
    h = np.stack(
        [table[store.rows[store.row_starts[v] : store.row_starts[v + 1]]].sum(axis=0) for v in range(first, last)]
    )
    names = ("up", "down") if config.directed else ("around",)
    for i in range(config.layers):
        a = h @ named[f"layers.{i}.self"] + named[f"layers.{i}.bias"]
        for kind, name in enumerate(names):
            sums = np.stack([h[neighbours(store, kind, v)].sum(axis=0) for v in range(first, last)])
            a = a + sums @ named[f"layers.{i}.{name}"]
        h = activation(config, a)
    logits = h @ named["heads.weight"] + named["heads.bias"]
    ends = np.cumsum(config.head_sizes)
    return [softmax(part) if part.size else part for part in np.split(logits, ends[:-1], axis=1)]


def graph_loss(config: GraphConfig, named: Mapping[str, Array], store: Store, graph: int) -> float:
    first, last = store.nodes[graph : graph + 2]
    probabilities = head_probabilities(config, named, store, graph)
    targets = store.targets[first:last]
    total = 0.0
    for head, p in enumerate(probabilities):
        if p.size:
            total -= float(np.log(p[np.arange(last - first), targets[:, head]]).sum())
    if config.sinkhorn:
        total += config.sinkhorn * structural(config, store, graph, probabilities[0])
    return total


def structural(config: GraphConfig, store: Store, graph: int, p: Array) -> float:
    """Σ P c of the soft matching; see sinkhorn.py."""
    first, last = store.nodes[graph : graph + 2]
    low, high = store.next_nodes[graph : graph + 2]
    labels, parents = store.labels[first:last], store.parents[first:last]
    wanted, above = store.next_labels[low:high], store.next_parents[low:high]
    classes = [config.relabels.index(label) if label in config.relabels else -1 for label in config.labels]
    n, m = len(labels), len(wanted)
    a = np.zeros((n, m))
    for u in range(m):
        a[:, u] = p[:, KEEP] * (labels == wanted[u])
        if classes[wanted[u]] >= 0:
            a[:, u] += p[:, FIRST_LABEL + classes[wanted[u]]]
    cost = np.zeros((n + 1, m + 1))
    for i in range(n):
        for u in range(m):
            roots = parents[i] < 0, above[u] < 0
            both = float(all(roots)) if any(roots) else a[parents[i], above[u]]
            cost[i, u] = 1 - a[i, u] * 0.5 * (1 + both)
    cost[:n, m] = 1 - p[:, DELETE]
    cost[n, :m] = 1
    kernel = np.exp(-cost / config.sinkhorn_temperature)
    row_mass, column_mass = np.array([1.0] * n + [m]), np.array([1.0] * m + [n])
    v = np.ones(m + 1)
    for _ in range(config.sinkhorn_steps):
        u_ = row_mass / (kernel @ v)
        v = column_mass / (kernel.T @ u_)
    return float((u_[:, None] * kernel * v * cost).sum())


def loss(config: GraphConfig, named: Mapping[str, Array], store: Store, chosen: Array) -> float:
    return sum(graph_loss(config, named, store, int(graph)) for graph in chosen)
