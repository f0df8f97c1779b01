"""The model once more, in PyTorch, for its autograd: the second oracle."""

from __future__ import annotations

import torch


def neighbour_matrix(store, kind, first, last):
    """(n, n): entry (i, j) counts how often j is a neighbour of i."""
    found = torch.zeros(last - first, last - first, dtype=torch.float64)
    starts = store.edge_starts[kind]
    for node in range(first, last):
        for other in store.edges[kind][starts[node] : starts[node + 1]]:
            found[node - first, other] += 1
    return found


def structural(config, store, graph, p):
    first, last = store.nodes[graph : graph + 2]
    low, high = store.next_nodes[graph : graph + 2]
    n, m = last - first, high - low
    rows = []
    for i in range(n):
        row = []
        for u in range(m):
            wanted = config.labels[store.next_labels[low + u]]
            term = p[i, 0] * (config.labels[store.labels[first + i]] == wanted)
            if wanted in config.relabels:
                term = term + p[i, 2 + config.relabels.index(wanted)]
            row.append(term)
        rows.append(torch.stack(row))
    a = torch.stack(rows)
    cost = []
    for i in range(n):
        row = []
        for u in range(m):
            mine, theirs = store.parents[first + i], store.next_parents[low + u]
            both = a[mine, theirs] if mine >= 0 and theirs >= 0 else float(mine < 0 and theirs < 0)
            row.append(1 - a[i, u] * (1 + both) / 2)
        cost.append(torch.stack([*row, 1 - p[i, 1]]))
    spare = torch.ones(m + 1, dtype=torch.float64)
    spare[m] = 0
    cost = torch.stack([*cost, spare])
    kernel = torch.exp(-cost / config.sinkhorn_temperature)
    across = torch.tensor([1.0] * n + [m], dtype=torch.float64)
    along = torch.tensor([1.0] * m + [n], dtype=torch.float64)
    v = torch.ones(m + 1, dtype=torch.float64)
    for _ in range(config.sinkhorn_steps):
        u = across / (kernel @ v)
        v = along / (kernel.T @ u)
    return (u[:, None] * kernel * v * cost).sum()


def loss(config, named, constants, batch):
    store = batch.arrays.store
    total = torch.zeros((), dtype=torch.float64)
    table = named["embed"].reshape(-1, config.width)
    names = ("up", "down") if config.directed else ("around",)
    for graph in batch.arrays.chosen:
        first, last = store.nodes[graph : graph + 2]
        spans = [store.rows[store.row_starts[v] : store.row_starts[v + 1]] for v in range(first, last)]
        h = torch.stack([table[torch.tensor(span, dtype=torch.long)].sum(0) for span in spans])
        for i in range(config.layers):
            a = h @ named[f"layers.{i}.self"] + named[f"layers.{i}.bias"]
            for kind, name in enumerate(names):
                a = a + neighbour_matrix(store, kind, first, last) @ h @ named[f"layers.{i}.{name}"]
            h = torch.relu(a) if config.activation == "relu" else a * (1 + a / torch.sqrt(1 + a * a)) / 2
        logits = torch.split(h @ named["heads.weight"] + named["heads.bias"], list(config.head_sizes), dim=1)
        targets = torch.tensor(store.targets[first:last], dtype=torch.long)
        for head, part in enumerate(logits):
            if part.shape[1]:
                total = total + torch.nn.functional.cross_entropy(part, targets[:, head], reduction="sum")
        if config.sinkhorn:
            total = total + config.sinkhorn * structural(config, store, graph, torch.softmax(logits[0], dim=1))
    return total / batch.divisor
