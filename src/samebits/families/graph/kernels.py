"""Compiled message passing over graphs in CSR form: forward and backward of one unit, and the workers that share units.

Shapes: n nodes of the unit, H width, M kinds of neighbours (children, parents), W = (1 + M)·H, L layers, C classes of
all heads side by side. x (L, n, W) keeps each layer's input: a node's own h and the sum over each kind of neighbours;
slope (L, n, H) keeps φ′. Neighbours are gathered in the order of the CSR
lists: nothing is scattered, and the backward pass gathers along the transposed lists (parents for children, and the
other way round).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.simd import fused
from samebits.arithmetic.softmax import softmax_segments
from samebits.compiler.jit import kernel
from samebits.devices.cpu.sync import BACKWARD, FORWARD, Schedule, claim, take, ticks, unit_at
from samebits.devices.cpu.tree import fold_up, is_awaited
from samebits.families.graph.heads import cross_entropy
from samebits.families.graph.products import multiply, multiply_transposed
from samebits.families.graph.sinkhorn import structural_loss
from samebits.families.graph.store import Sizes, Store, unit_size


class Graphs(NamedTuple):
    """The graphs of a wave; unit u has the places cuts[u] … cuts[u + 1] of `chosen`, the numbers of its graphs."""

    store: Store
    chosen: Array
    cuts: Array  # (units + 1,)


class Unit(NamedTuple):
    """The graphs of a unit: chosen[first:last]."""

    store: Store
    chosen: Array
    first: int
    last: int


class Activations(NamedTuple):
    """What a unit keeps between forward and backward, in a worker's memory; logits become their gradient."""

    x: Array  # (L, n, W)
    slope: Array  # (L, n, H)
    last_h: Array  # (n, H)
    logits: Array  # (n, C)
    dh: Array  # (n, H) scratch


class Memory(NamedTuple):
    """Scratch, a row each worker."""

    spaces: Array  # activations
    panels: Array  # of products


class BackwardMemory(NamedTuple):
    """More of it for the way back."""

    transposed: Array  # weights (transpose_weights)
    spares: Array  # a slot
    sinkhorn: Array  # of the structural loss


class Slots(NamedTuple):
    """Who computes which unit, and where the results go; slots are folded so many levels (tree.fold_up)."""

    claims: Array
    arrivals: Array
    first_unit: int
    folded: int
    slots: Array
    losses: Array


class Predictions(NamedTuple):
    """What evaluation leaves."""

    rows: Array  # (units, 2) cross-entropy, graphs whose every edit is right
    choices: Array  # (nodes, 4) the most likely classes
    starts: Array  # (chosen,) where each graph's choices begin


@kernel
def embed_forward(x: Array, table: Array, store: Store, chosen: Array, first: int, last: int, H: int) -> None:
    """x (n, ≥ H): the sum of each node's feature rows."""
    i = 0
    for g in chosen[first:last]:
        for node in range(store.nodes[g], store.nodes[g + 1]):
            out = x[i, :H]
            begin = store.row_starts[node]
            row = table[store.rows[begin]]
            for j in range(H):
                out[j] = row[j]
            for e in range(begin + 1, store.row_starts[node + 1]):
                row = table[store.rows[e]]
                for j in range(H):
                    out[j] += row[j]
            i += 1


@kernel
def embed_backward(dtable: Array, dx: Array, store: Store, chosen: Array, first: int, last: int) -> None:
    """Rows of the unit's own gradient, in the order of nodes."""
    dtable[:] = 0
    i = 0
    for g in chosen[first:last]:
        for node in range(store.nodes[g], store.nodes[g + 1]):
            source = dx[i]
            for e in range(store.row_starts[node], store.row_starts[node + 1]):
                row = dtable[store.rows[e]]
                for j in range(source.size):
                    row[j] += source[j]
            i += 1


@kernel
def gather_forward(x: Array, store: Store, chosen: Array, first: int, last: int, H: int) -> None:
    """x (n, W): columns from H on become sums over neighbours of the first H columns."""
    for kind in range(store.edges.shape[0]):
        starts, edges = store.edge_starts[kind], store.edges[kind]
        column = (1 + kind) * H
        base = i = 0
        for g in chosen[first:last]:
            for node in range(store.nodes[g], store.nodes[g + 1]):
                out = x[i, column : column + H]
                begin, end = starts[node], starts[node + 1]
                if begin == end:
                    for j in range(H):
                        out[j] = 0
                else:
                    row = x[base + edges[begin], :H]
                    for j in range(H):
                        out[j] = row[j]
                    for e in range(begin + 1, end):
                        row = x[base + edges[e], :H]
                        for j in range(H):
                            out[j] += row[j]
                i += 1
            base = i


@kernel
def gather_backward(dh: Array, dx: Array, store: Store, chosen: Array, first: int, last: int, H: int) -> None:
    """dh (n, H) from dx (n, W): what reached a node itself, and what reached sums that it was part of."""
    kinds = store.edges.shape[0]
    for i in range(dh.shape[0]):
        out, row = dh[i], dx[i, :H]
        for j in range(H):
            out[j] = row[j]
    for kind in range(kinds):
        transposed = kinds - 1 - kind
        starts, edges = store.edge_starts[transposed], store.edges[transposed]
        column = (1 + kind) * H
        base = i = 0
        for g in chosen[first:last]:
            for node in range(store.nodes[g], store.nodes[g + 1]):
                out = dh[i]
                for e in range(starts[node], starts[node + 1]):
                    row = dx[base + edges[e], column : column + H]
                    for j in range(H):
                        out[j] += row[j]
                i += 1
            base = i


@kernel
def activate(h: Array, slope: Array, bias: Array, relu: bool) -> None:
    """The first H columns of h hold a and become φ(a + bias); slope (n, H) becomes φ′.

    bend: φ(x) = ½ x (1 + x / √(1 + x²)), smooth, close to x above and to 0 below, and made of operations vectors have.
    """
    one, half = h.dtype.type(1), h.dtype.type(0.5)
    zero = h.dtype.type(0)
    for i in range(h.shape[0]):
        row, out = h[i, : bias.size], slope[i]
        if relu:
            for j in range(row.size):
                x = row[j] + bias[j]
                out[j] = zero if x < zero else one  # a NaN passes on
                row[j] = zero if x < zero else x
        else:
            for j in range(row.size):
                x = row[j] + bias[j]
                s = x / np.sqrt(fused(x, x, one))
                h_x = half * x
                row[j] = fused(h_x, s, h_x)
                h_s = half * s
                out[j] = fused(h_s, fused(-s, s, one + one), half)


@kernel
def transpose(out: Array, a: Array) -> None:
    """out (n, m) from a (m, n)."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = a[j, i]


@kernel
def transpose_weights(transposed: Array, params: Array, sizes: Sizes) -> None:
    """What the backward pass needs once a step: each layer's weights transposed, (H, W), and the heads', (C, H)."""
    H, C = sizes.width, sizes.classes
    W = (1 + sizes.kinds) * H
    offset, place = sizes.embed * H, 0
    for _ in range(sizes.layers):
        transpose(transposed[place : place + W * H].reshape(H, W), params[offset : offset + W * H].reshape(W, H))
        offset += W * H + H
        place += W * H
    transpose(transposed[place : place + H * C].reshape(C, H), params[offset : offset + H * C].reshape(H, C))


@kernel
def network_forward(own: Activations, params: Array, panel: Array, sizes: Sizes, unit: Unit) -> None:
    x, slope, last_h, logits = own.x, own.slope, own.last_h, own.logits
    store, chosen, first, last = unit.store, unit.chosen, unit.first, unit.last
    H, L, C = sizes.width, sizes.layers, sizes.classes
    W = (1 + sizes.kinds) * H
    offset = sizes.embed * H
    embed_forward(x[0], params[:offset].reshape(sizes.embed, H), store, chosen, first, last, H)
    for layer in range(L):
        weights = params[offset : offset + W * H].reshape(W, H)
        bias = params[offset + W * H : offset + W * H + H]
        offset += W * H + H
        gather_forward(x[layer], store, chosen, first, last, H)
        out = x[layer + 1] if layer + 1 < L else last_h
        multiply(out[:, :H], x[layer], weights, panel)
        activate(out, slope[layer], bias, sizes.relu)
    multiply(logits, last_h, params[offset : offset + H * C].reshape(H, C), panel)
    bias = params[offset + H * C : offset + H * C + C]
    for i in range(logits.shape[0]):
        row = logits[i]
        for j in range(C):
            row[j] += bias[j]


@kernel
def network_backward(slot: Array, own: Activations, transposed: Array, panel: Array, sizes: Sizes, unit: Unit) -> None:
    """Fill the unit's slot from its logits' gradient; a layer's x becomes its dx once it was used."""
    x, slope, last_h, dlogits, dh = own.x, own.slope, own.last_h, own.logits, own.dh
    store, chosen, first, last = unit.store, unit.chosen, unit.first, unit.last
    H, L, C = sizes.width, sizes.layers, sizes.classes
    W = (1 + sizes.kinds) * H
    offset = sizes.embed * H + L * (W * H + H)
    place = L * W * H
    multiply_transposed(slot[offset : offset + H * C].reshape(H, C), last_h, dlogits, panel)
    column_sums(slot[offset + H * C : offset + H * C + C], dlogits)
    multiply(dh, dlogits, transposed[place : place + H * C].reshape(C, H), panel)
    for layer in range(L - 1, -1, -1):
        offset -= W * H + H
        place -= W * H
        for i in range(dh.shape[0]):
            row, factor = dh[i], slope[layer, i]
            for j in range(H):
                row[j] *= factor[j]
        multiply_transposed(slot[offset : offset + W * H].reshape(W, H), x[layer], dh, panel)
        column_sums(slot[offset + W * H : offset + W * H + H], dh)
        multiply(x[layer], dh, transposed[place : place + W * H].reshape(H, W), panel)
        gather_backward(dh, x[layer], store, chosen, first, last, H)
    embed_backward(slot[:offset].reshape(sizes.embed, H), dh, store, chosen, first, last)


@kernel
def column_sums(out: Array, rows: Array) -> None:
    out[:] = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(out.size):
            out[j] += row[j]


@kernel
def cut_space(space: Array, n: int, sizes: Sizes) -> Activations:
    """A worker's memory, for n nodes."""
    H, L, C = sizes.width, sizes.layers, sizes.classes
    W = (1 + sizes.kinds) * H
    a = L * n * W
    b = a + L * n * H
    c = b + n * H
    d = c + n * C
    return Activations(
        space[:a].reshape(L, n, W), space[a:b].reshape(L, n, H), space[b:c].reshape(n, H), space[c:d].reshape(n, C),
        space[d : d + n * H].reshape(n, H),
    )  # fmt: skip


@kernel
def gradient_worker(
    worker: int, schedule: Schedule, results: Slots, memory: Memory, back: BackwardMemory, params: Array, sizes: Sizes,
    graphs: Graphs,
) -> None:  # fmt: skip
    """One row of slots and losses a unit, slots folded.

    A worker begins with neighbouring units, its own, and folds their slots while they are in its cache; every second
    one is never written but to a row of spares.
    """
    claims, arrivals, first_unit, slots = results.claims, results.arrivals, results.first_unit, results.slots
    store, chosen, cuts = graphs.store, graphs.chosen, graphs.cuts
    transposed, panel, scratch = back.transposed[worker], memory.panels[worker], back.sinkhorn[worker]
    heads, units = sizes.heads, cuts.size - 1
    own = worker * units // schedule.workers
    fresh, cursor = True, 0
    while True:
        cursor = take(claims, 0, cursor, own)
        if cursor == units:
            break
        u = unit_at(cursor, own, units)
        begin = ticks()
        if fresh:
            transpose_weights(transposed, params, sizes)
            fresh = False
        unit = Unit(store, chosen, cuts[u], cuts[u + 1])
        first, last = unit.first, unit.last
        n = unit_size(store, chosen, first, last)
        activations = cut_space(memory.spaces[worker], n, sizes)
        logits = activations.logits
        network_forward(activations, params, panel, sizes, unit)
        softmax_segments(logits, heads)
        halfway = ticks()
        loss = 0.0
        if sizes.sinkhorn > 0:
            extra = scratch[: n * heads[0]].reshape(n, heads[0])
            loss += structural_loss(extra, logits, scratch[n * heads[0] :], sizes, store, chosen, first, last)
        loss += cross_entropy(logits, heads, store, chosen, first, last)
        if sizes.sinkhorn > 0:
            for i in range(n):
                for j in range(heads[0]):
                    logits[i, j] += extra[i, j]
        slot = back.spares[worker] if is_awaited(arrivals, u, first_unit) else slots[u]
        network_backward(slot, activations, transposed, panel, sizes, unit)
        results.losses[u, 0] = loss
        fold_up(slots, slot, arrivals, u, first_unit, results.folded)
        schedule.clock[worker, FORWARD] += halfway - begin
        schedule.clock[worker, BACKWARD] += ticks() - halfway


@kernel
def evaluate_worker(
    worker: int, tickets: Array, results: Predictions, memory: Memory, params: Array, sizes: Sizes, graphs: Graphs
) -> None:
    """Fill in the predictions, a unit a ticket."""
    rows, choices, starts = results.rows, results.choices, results.starts
    store, chosen, cuts = graphs.store, graphs.chosen, graphs.cuts
    heads = sizes.heads
    while True:
        u = claim(tickets)
        if u >= cuts.size - 1:
            break
        first, last = cuts[u], cuts[u + 1]
        n = unit_size(store, chosen, first, last)
        activations = cut_space(memory.spaces[worker], n, sizes)
        logits = activations.logits
        network_forward(activations, params, memory.panels[worker], sizes, Unit(store, chosen, first, last))
        softmax_segments(logits, heads)
        i, exact = 0, 0
        for k in range(first, last):
            g = chosen[k]
            wrong = 0
            for node in range(store.nodes[g], store.nodes[g + 1]):
                begin = 0
                for head in range(len(heads)):
                    best = 0
                    for j in range(1, heads[head]):
                        if logits[i, begin + j] > logits[i, begin + best]:
                            best = j
                    choices[starts[k] + node - store.nodes[g], head] = best
                    wrong += best != store.targets[node, head]
                    begin += heads[head]
                i += 1
            exact += wrong == 0
        rows[u, 0] = cross_entropy(logits, heads, store, chosen, first, last)
        rows[u, 1] = exact
