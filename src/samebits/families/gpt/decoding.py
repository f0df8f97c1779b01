"""One token a step: keys and values of what was read are kept, and the next token is drawn, without Python between.

Shapes. n rows at once (a block of a prompt, or one token); T context, D width, H heads, d = D / H, L layers, V symbols.
  x, h, y      (n, D)      the residual stream, its norm, what attention gives;  qkv (n, 3D);  p, a (n, 4D)
  cache        (L, 2, T, D) keys and values of the tokens in view
  text         (K, most)   tokens of K samples, the prompt first; lengths (K,) how many there are
A sample is computed by one worker and reads nothing of another: neither their number nor the workers' changes it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.gemm import DEPTH, ROWS, multiply, panel_size
from samebits.arithmetic.rng import philox
from samebits.arithmetic.simd import dot, exp, fused, largest, total
from samebits.arithmetic.softmax import softmax_row
from samebits.compiler.jit import fragment, kernel, routine
from samebits.devices.cpu.sync import claim
from samebits.families.gpt.config import SAMPLE
from samebits.families.gpt.kernels import norm_forward, square_relu_forward
from samebits.families.gpt.weights import Sizes, carve, ends, weights

BLOCK = 32  # rows of a prompt read together


class Draw(NamedTuple):
    """How a token is chosen. Temperature 0: the likeliest. top_p 1 and top_k 0 leave out nothing."""

    temperature: float
    top_p: float
    top_k: int
    seed: int
    end: int  # the token that ends a sample; −1: none does


class Texts(NamedTuple):
    """Samples as they are written; a row each."""

    text: Array  # (K, most) tokens, the prompt first
    lengths: Array  # (K,) how many tokens there are
    seen: Array  # (K, 2) first token in view, tokens read from there
    cache: Array  # (K, L, 2, T, D)
    logits: Array  # (K, V) after the last token read


class Request(NamedTuple):
    """What is drawn."""

    prompt: int  # tokens of the prompt
    tokens: int  # most, of every sample, now
    first_sample: int  # number of the first sample
    how: Draw


def scratch_size(z: Sizes) -> int:
    """Numbers a worker needs for one block."""
    return BLOCK * (14 * z.D + 1) + z.T + panel_size(4 * z.D)


@kernel
def in_view(count: int, T: int) -> int:
    """The first token the model sees of `count`: with the context full, the older half is forgotten."""
    step = T - T // 2
    return (max(count - T, 0) + step - 1) // step * step


@routine
def times(out: Array, x: Array, w: Array, add: bool) -> None:
    """out (k) = x (i) · w (i, k), + out if `add`: the chains of gemm.multiply; rows of w are read four at a time."""
    sums = out if not add and x.size <= DEPTH else np.empty_like(out)
    for k in range(0, x.size, DEPTH):
        sums[:] = 0
        end = min(k + DEPTH, x.size)
        whole = k + (end - k) // 4 * 4
        for i in range(k, whole, 4):
            x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
            w0, w1, w2, w3 = w[i], w[i + 1], w[i + 2], w[i + 3]
            for j in range(out.size):
                sums[j] = fused(x3, w3[j], fused(x2, w2[j], fused(x1, w1[j], fused(x0, w0[j], sums[j]))))
        for i in range(whole, end):
            left, right = x[i], w[i]
            for j in range(out.size):
                sums[j] = fused(left, right[j], sums[j])
        if add or k > 0:
            for j in range(out.size):
                out[j] += sums[j]
        elif x.size > DEPTH:
            out[:] = sums


@kernel
def products(out: Array, x: Array, w: Array, panel: Array, add: bool) -> None:
    """The same for every row: tiles pay from a tile's rows on."""
    if x.shape[0] >= ROWS:
        multiply(out, x, w, panel, add)
    else:
        for m in range(x.shape[0]):
            times(out[m], x[m], w, add)


@kernel
def attend(y: Array, q: Array, keys: Array, values: Array, scores: Array, H: int) -> None:
    """y (D) = attention of one token, its query q (D), over all rows of keys and values (seen, D)."""
    d = y.size // H
    scale, sums = y.dtype.type(1.0 / np.sqrt(float(d))), np.empty(d, y.dtype)
    y[:] = 0
    for h in range(H):
        query, out = q[h * d : h * d + d], y[h * d : h * d + d]
        for j in range(scores.size):
            key = keys[j, h * d : h * d + d]
            scores[j] = dot(query, key) * scale
        softmax_row(scores)
        for k in range(0, scores.size, DEPTH):  # the chains of a product, panel by panel
            sums[:] = 0
            for j in range(k, min(k + DEPTH, scores.size)):
                weight, value = scores[j], values[j, h * d : h * d + d]
                for i in range(d):
                    sums[i] = fused(weight, value[i], sums[i])
            for i in range(d):
                out[i] += sums[i]


@fragment
def read_tokens(logits: Array, cache: Array, tokens: Array, first: int, params: Array, memory: Array, z: Sizes) -> None:
    """Add tokens (n) to the cache, at positions first …; logits (V) are those after the last of them."""
    n, D = tokens.size, z.D
    x, at = carve(memory, 0, n, D)
    h, at = carve(memory, at, n, D)
    qkv, at = carve(memory, at, n, 3 * D)
    y, at = carve(memory, at, n, D)
    p, at = carve(memory, at, n, 4 * D)
    a, at = carve(memory, at, n, 4 * D)
    r, scores, panel = memory[at : at + n], memory[at + n : at + n + z.T], memory[at + n + z.T :]
    token, position, head = ends(params, z)
    for m in range(n):
        row, left, right = x[m], token[tokens[m]], position[first + m]
        for i in range(D):
            row[i] = left[i] + right[i]
    for layer in range(z.L):
        w_qkv, w_out, w_up, w_down = weights(params, layer, z)
        keys, values = cache[layer, 0], cache[layer, 1]
        norm_forward(h, r, x)
        products(qkv, h, w_qkv, panel, False)
        for m in range(n):
            seen = first + m + 1
            key, value, row = keys[seen - 1], values[seen - 1], qkv[m]
            for i in range(D):
                key[i], value[i] = row[D + i], row[2 * D + i]
            attend(y[m], row[:D], keys[:seen], values[:seen], scores[:seen], z.H)
        products(x, y, w_out, panel, True)
        norm_forward(h, r, x)
        products(p, h, w_up, panel, False)
        square_relu_forward(a, p)
        products(x, a, w_down, panel, True)
    if z.final_norm:
        norm_forward(h[:1], r[:1], x[n - 1 : n])
        times(logits, h[0], head, False)
    else:
        times(logits, x[n - 1], head, False)


@fragment
def catch_up(
    logits: Array, cache: Array, seen: Array, text: Array, count: int, params: Array, memory: Array, z: Sizes
) -> None:
    """Read what the cache lacks of text[:count]; seen is (first token in view, tokens read from there)."""
    first = in_view(count, z.T)
    if first != seen[0]:
        seen[0], seen[1] = first, 0
    while first + seen[1] < count:
        rows = min(BLOCK, count - first - seen[1])
        start = first + seen[1]
        read_tokens(logits, cache, text[start : start + rows], seen[1], params, memory, z)
        seen[1] += rows


@kernel
def choose(logits: Array, position: int, sample: int, how: Draw) -> int:
    """The next token: the likeliest, or one drawn by (seed, position, sample) from those that top_k and top_p leave."""
    V, top = logits.size, np.float64(largest(logits))
    if how.temperature == 0:
        for i in range(V):
            if logits[i] == top:
                return i
        return 0
    chances = np.empty(V, np.float64)
    for i in range(V):
        chances[i] = exp((np.float64(logits[i]) - top) / how.temperature)
    sums = total(chances)
    if how.top_p < 1 or 0 < how.top_k < V:
        order = np.argsort(-chances, kind="mergesort")  # stable: of equals the first token stays
        kept, left, most = 0, 0.0, how.top_k if how.top_k > 0 else V
        while kept < min(V, most) and (kept == 0 or left < how.top_p * sums):
            left += chances[order[kept]]
            kept += 1
        for i in range(kept, V):
            chances[order[i]] = 0
        sums = total(chances)
    drawn = philox(
        np.uint64(0), np.uint64(0), np.uint64(sample), np.uint64(position), np.uint64(how.seed), np.uint64(SAMPLE)
    )
    mark = float(drawn[0] >> np.uint64(11)) * 2.0**-53 * sums
    chosen, passed = 0, 0.0
    for i in range(V):
        if chances[i] > 0:
            chosen = i
            passed += chances[i]
            if passed > mark:
                break
    return chosen


@kernel
def generate_worker(
    worker: int, tickets: Array, texts: Texts, request: Request, params: Array, memory: Array, z: Sizes
) -> None:
    """Up to `tokens` more for every sample that is neither full nor ended; a task is a sample."""
    text, lengths, seen, cache, logits = texts.text, texts.lengths, texts.seen, texts.cache, texts.logits
    prompt, how = request.prompt, request.how
    while True:
        k = claim(tickets)
        if k >= text.shape[0]:
            break
        for _ in range(request.tokens):
            n = lengths[k]
            if n == text.shape[1] or (n > prompt and text[k, n - 1] == how.end):
                break
            catch_up(logits[k], cache[k], seen[k], text[k], n, params, memory[worker], z)
            text[k, n] = choose(logits[k], n - prompt, request.first_sample + k, how)
            lengths[k] = n + 1
