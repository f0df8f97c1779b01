"""Many texts at once, each at a place of its own: a step draws one token of each (batching.py).

Shapes. K places; n rows of a group, of one or several places; T context, D width, L layers, V symbols.
  view (K, T + 1)       the tokens that each place has in view; held (K,) how many, read (K,) how many the cache has
  keys (K, L, C, D, SPAN) of what was read, a column a token, SPAN tokens together: what scores them reads in order
  values (K, L, H, T, E) by head, each d = D / H numbers up to a multiple of LANES;  logits (K, V) after the last token
  x, h, y (n, D);  qkv (n, 3D);  p, a (n, 4D)
Every number of a product is a chain of its own row (arithmetic/gemm.py), so a text has the bits of decoding.py,
whoever shares its group. A place that must read first, a prompt or what is left in view when the context is full, reads
GROUP tokens a step meanwhile, and holds nobody up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.gemm import DEPTH, ROWS, Block, fill_panels, make_tiles, multiply_panels, next_width, round_up
from samebits.arithmetic.simd import LANES, SUMS, fused
from samebits.arithmetic.softmax import softmax
from samebits.compiler.jit import kernel, routine
from samebits.devices.cpu.sync import claim
from samebits.families.gpt.decoding import Draw, choose, times
from samebits.families.gpt.kernels import norm_forward, square_relu_forward
from samebits.families.gpt.weights import Sizes, carve, ends, head_panels, layer_panels, weights

GROUP = 16  # rows computed together, by one worker
SPAN = 64  # tokens that are scored together
NONE = -1  # no token was drawn: the place has still to read
_, row_tile = make_tiles(False, 1)  # one row, whose sums stay in registers


class Groups(NamedTuple):
    """What a step computes: group g is active[cuts[g] : cuts[g + 1]]."""

    number: int
    cuts: Array
    active: Array


class Places(NamedTuple):
    """The texts, K places."""

    window: Array  # (K, T + 1) view
    held: Array
    read: Array
    keys: Array
    values: Array
    logits: Array
    counts: Array  # (K, 4) tokens drawn, sample, seed, top_k
    reals: Array  # (K, 2) temperature, top_p
    out: Array  # (K,) the new token, or NONE


@kernel
def attention_size(z: Sizes) -> int:
    """Numbers of scratch for the attention of one token: scores, their running sums, what a head gives."""
    return z.H * round_up(z.T, SPAN) + SUMS * SPAN + round_up(z.D // z.H, LANES)


def scratch_size(z: Sizes) -> int:
    """Numbers a worker needs for one group."""
    return GROUP * (14 * z.D + 1 + z.V) + attention_size(z) + ROWS * LANES


@kernel
def fill_forward(panels: Array, params: Array, z: Sizes) -> None:
    """Every matrix as panels, for the way forward only."""
    for layer in range(z.L):
        views, found = layer_panels(panels, layer, z), weights(params, layer, z)
        fill_panels(views[0], found[0], False)
        fill_panels(views[1], found[1], False)
        fill_panels(views[2], found[2], False)
        fill_panels(views[3], found[3], False)
    fill_panels(head_panels(panels, z)[0], ends(params, z)[2], False)


@kernel
def plan(cuts: Array, active: Array, held: Array, read: Array) -> int:
    """Cut the active places into groups of up to GROUP rows: group g is active[cuts[g] : cuts[g + 1]]. How many."""
    groups, rows = 0, GROUP
    for at in range(active.size):
        wanted = min(GROUP, held[active[at]] - read[active[at]])
        if rows + wanted > GROUP:
            cuts[groups], rows = at, 0
            groups += 1
        rows += wanted
    cuts[groups] = active.size
    return groups


@kernel
def whole_tiles(rows: int) -> int:
    """With so many rows, how many are computed: a tile pays from half of its rows on."""
    return rows if rows < ROWS // 2 else round_up(rows, ROWS)


@kernel
def products(out: Array, x: Array, w: Array, panels: Array, corner: Array, add: bool) -> None:
    """out (n, k) = x (n, i) · w (i, k), + out if `add`: by tiles, or by rows where they fill none."""
    if x.shape[0] % ROWS == 0:
        multiply_panels(out, x, panels, corner, add)
    else:
        for m in range(x.shape[0]):
            times(out[m], x[m], w, add)


@kernel
def score(scores: Array, q: Array, keys: Array, first: int, sums: Array) -> None:
    """scores[j] = q (d) · column j of keys (D, SPAN), rows first …: the chains of simd.dot, for SPAN tokens at once."""
    zero = q.dtype.type(0)
    for i in range(SUMS):
        row = sums[i * SPAN : i * SPAN + SPAN]
        if i < q.size:
            left, key = q[i], keys[first + i]
            for j in range(SPAN):
                row[j] = fused(left, key[j], zero)
        else:
            row[:] = 0
    for i in range(SUMS, q.size):
        row, left, key = sums[i % SUMS * SPAN : i % SUMS * SPAN + SPAN], q[i], keys[first + i]
        for j in range(SPAN):
            row[j] = fused(left, key[j], row[j])
    half = SUMS // 2
    while half > 0:
        for i in range(half):
            row, other = sums[i * SPAN : i * SPAN + SPAN], sums[(i + half) * SPAN : (i + half) * SPAN + SPAN]
            for j in range(SPAN):
                row[j] += other[j]
        half //= 2
    scale = q.dtype.type(1.0 / np.sqrt(float(q.size)))
    for j in range(SPAN):
        scores[j] = sums[j] * scale


@routine
def attend(y: Array, q: Array, keys: Array, values: Array, seen: int, scratch: Array) -> None:
    """y (D) = attention of one token, its query q (D), over `seen` tokens: the chains of decoding.attend."""
    H, E, C = values.shape[0], values.shape[2], keys.shape[0] * SPAN
    d, width = y.size // H, round_up(seen, LANES)
    scores, sums, out = scratch[: H * C].reshape(H, C), scratch[H * C : H * C + SUMS * SPAN], scratch[H * C :]
    for block in range(round_up(seen, SPAN) // SPAN):
        for h in range(H):
            score(scores[h, block * SPAN : block * SPAN + SPAN], q[h * d : h * d + d], keys[block], h * d, sums)
    for h in range(H):
        softmax(scores[h], 0, width, seen)
        out[:E] = 0
        for k in range(0, seen, DEPTH):
            e = 0
            while e < E:
                columns, count = next_width(E - e), min(DEPTH, seen - k)
                left, right = Block(scores[h], k, C), Block(values[h], k * E + e, E)
                row_tile(Block(out, e, E), left, right, count, True, columns)
                e += columns
        for i in range(d):
            y[h * d + i] = out[i]


@kernel
def step_worker(
    worker: int, tickets: Array, groups: Groups, places: Places, params: Array, panels: Array, memory: Array, z: Sizes
) -> None:
    """One step of every active place; a task is a group."""
    cuts, active, view, held, read = groups.cuts, groups.active, places.window, places.held, places.read
    keys, values, logits = places.keys, places.values, places.logits
    counts, reals, out = places.counts, places.reals, places.out
    D, d, fixed = z.D, z.D // z.H, attention_size(z) + ROWS * LANES
    token, position, head = ends(params, z)
    scratch = memory[worker]
    attention, corner = scratch[: attention_size(z)], scratch[attention_size(z) : fixed]
    place, where = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    while True:
        g = claim(tickets)
        if g >= groups.number:
            break
        n = 0
        for k in active[cuts[g] : cuts[g + 1]]:
            for at in range(read[k], min(read[k] + GROUP, held[k])):
                place[n], where[n] = k, at
                n += 1
        padded = whole_tiles(n)
        x, at = carve(scratch, fixed, padded, D)
        h, at = carve(scratch, at, padded, D)
        qkv, at = carve(scratch, at, padded, 3 * D)
        y, at = carve(scratch, at, padded, D)
        p, at = carve(scratch, at, padded, 4 * D)
        a, at = carve(scratch, at, padded, 4 * D)
        r, at = scratch[at : at + padded], at + padded
        x[n:] = 0
        y[n:] = 0
        for m in range(n):
            row, left, right = x[m], token[view[place[m], where[m]]], position[where[m]]
            for i in range(D):
                row[i] = left[i] + right[i]
        for layer in range(z.L):
            w, ready = weights(params, layer, z), layer_panels(panels, layer, z)
            norm_forward(h, r, x)
            products(qkv, h, w[0], ready[0], corner, False)
            for m in range(n):
                own_keys, own_values, row, at_column = keys[place[m], layer], values[place[m], layer], qkv[m], where[m]
                for i in range(D):
                    own_keys[at_column // SPAN, i, at_column % SPAN] = row[D + i]
                    own_values[i // d, at_column, i % d] = row[2 * D + i]
                attend(y[m], row[:D], own_keys, own_values, at_column + 1, attention)
            products(x, y, w[1], ready[1], corner, True)
            norm_forward(h, r, x)
            products(p, h, w[2], ready[2], corner, False)
            square_relu_forward(a, p)
            products(x, a, w[3], ready[3], corner, True)
        if z.final_norm:
            norm_forward(h, r, x)
        else:
            h[:] = x
        # The rows that draw, moved together: the last of each place that has read all it holds.
        ready_rows = 0
        for m in range(n):
            if where[m] + 1 == held[place[m]]:
                place[ready_rows] = place[m]
                h[ready_rows] = h[m]
                ready_rows += 1
        for k in active[cuts[g] : cuts[g + 1]]:
            read[k] = min(read[k] + GROUP, held[k])
            out[k] = NONE
        computed = min(whole_tiles(ready_rows), padded)
        found, at = carve(scratch, at, computed, z.V)
        products(found, h[:computed], head, head_panels(panels, z)[0], corner, False)
        for m in range(ready_rows):
            k = place[m]
            logits[k] = found[m]
            how = Draw(reals[k, 0], reals[k, 1], counts[k, 3], counts[k, 2], NONE)
            out[k] = choose(logits[k], counts[k, 0], counts[k, 1], how)
            counts[k, 0] += 1
            add_token(view[k], held, read, k, out[k], z.T)


@kernel
def add_token(view: Array, held: Array, read: Array, k: int, token: int, T: int) -> None:
    """One more in view; with the context full, the older half is forgotten, and the rest read anew (in_view)."""
    view[held[k]] = token
    held[k] += 1
    if held[k] > T:
        forgotten = T - T // 2
        for i in range(forgotten, held[k]):
            view[i - forgotten] = view[i]
        held[k] -= forgotten
        read[k] = 0
