"""Forward and backward of one unit: a few whole samples, no Python in between, matrix products by tiles.

Shapes. S samples of T tokens, M = S·T rows; D width, H heads, d = D / H, L layers, V symbols.
  x, dx        (M, D)    the residual stream, changed in place
  n1, n2, nf   (M, D)    normed inputs of attention, of the MLP, of the head; r their 1 / root mean square (M,)
  qkv          (M, 3D)   p (M, 4D) = max(0, h); the MLP's hidden values are p²
  masks        (2L + 1, M, D) uint8: 0 what dropout drops, of the embeddings and of the two branches of each layer
A norm's way back needs its output and r only, so x itself is never stored. Kept for the way back, a layer:
n1, qkv, P, y, n2, p. All of it lies in one scratch row a worker, allocated once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.elementary import log
from samebits.arithmetic.gemm import multiply_panels, multiply_transposed, transposed_size
from samebits.arithmetic.rng import philox
from samebits.arithmetic.simd import dot, fused
from samebits.arithmetic.softmax import softmax_row
from samebits.compiler.jit import kernel, routine
from samebits.devices.cpu.sync import BACKWARD, FORWARD, Schedule, claim, ticks
from samebits.families.gpt.attention import attention_backward, attention_forward, head_scratch, padded
from samebits.families.gpt.config import DROPOUT
from samebits.families.gpt.weights import (
    Sizes,
    carve,
    ends,
    head_panels,
    layer_panels,
    layer_panels_back,
    weights,
)

EPS = 1e-5
DRAWS = 16  # dropout draws of 16 bits from one Philox block


class Dropout(NamedTuple):
    """Draws below `threshold` of 65,536 are dropped; what stays is scaled so that the mean does."""

    threshold: int
    scale: float
    seed: int
    step: int


class Model(NamedTuple):
    """What every unit reads."""

    params: Array
    panels: Array  # weights.py
    drop: Dropout
    z: Sizes


class Samples(NamedTuple):
    """The samples of a wave."""

    inputs: Array  # (samples, T)
    targets: Array  # (samples, T)
    first: int  # the place of the first one in the step


class Memory(NamedTuple):
    """Scratch, a row each worker."""

    activations: Array
    masks: Array


def scratch_size(z: Sizes) -> int:
    """Numbers of float scratch a worker needs for one unit."""
    M, (R, C, _) = z.S * z.T, padded(z.T, z.D // z.H)
    layer = M * (10 * z.D + 2) + z.S * z.H * R * C
    shared = M * (3 * z.D + 1 + 2 * 4 * z.D + z.V) + transposed_size(M, 4 * z.D)
    return z.L * layer + shared + head_scratch(z.T, z.D // z.H)


def mask_size(z: Sizes, dropout: Dropout) -> int:
    return (2 * z.L + 1) * z.S * z.T * z.D if dropout.threshold else 1


@kernel
def layer_memory(memory: Array, layer: int, M: int, S: int, z: Sizes) -> tuple[Array, ...]:
    """What a layer keeps for the way back: n1, qkv, y, n2, p, (r1, r2), and P (S·H·R, C)."""
    R, C, _ = padded(z.T, z.D // z.H)
    at = layer * (M * (10 * z.D + 2) + S * z.H * R * C)
    n1, at = carve(memory, at, M, z.D)
    qkv, at = carve(memory, at, M, 3 * z.D)
    y, at = carve(memory, at, M, z.D)
    n2, at = carve(memory, at, M, z.D)
    p, at = carve(memory, at, M, 4 * z.D)
    r, at = carve(memory, at, 2, M)
    P, at = carve(memory, at, S * z.H * R, C)
    return n1, qkv, y, n2, p, r, P


@kernel
def work_memory(memory: Array, M: int, S: int, z: Sizes) -> tuple[Array, ...]:
    """What is shared by all layers: x, nf, dx, dn, rf, two hidden rows, dqkv, logits, a panel, a head's scratch.

    nf and dqkv lie in the first hidden rows, which nobody needs between forward and backward, nor when attention goes
    back.
    """
    R, C, _ = padded(z.T, z.D // z.H)
    at = z.L * (M * (10 * z.D + 2) + S * z.H * R * C)
    x, at = carve(memory, at, M, z.D)
    dx, at = carve(memory, at, M, z.D)
    dn, at = carve(memory, at, M, z.D)
    rf, at = carve(memory, at, 1, M)
    nf, dqkv = carve(memory, at, M, z.D)[0], carve(memory, at, M, 3 * z.D)[0]
    a, at = carve(memory, at, M, 4 * z.D)
    da, at = carve(memory, at, M, 4 * z.D)
    logits, at = carve(memory, at, M, z.V)
    end = at + transposed_size(M, 4 * z.D)
    return x, nf, dx, dn, rf[0], a, da, dqkv, logits, memory[at:end], memory[end:]


@kernel
def copy(out: Array, x: Array) -> None:
    target, source = out.reshape(-1), x.reshape(-1)
    for i in range(target.size):
        target[i] = source[i]


@kernel
def norm_forward(n: Array, r: Array, x: Array) -> None:
    """n = x · r, r = 1 / √(mean x² + eps), row by row."""
    M, D = x.shape
    for m in range(M):
        source, target = x[m], n[m]
        share = x.dtype.type(1.0 / math.sqrt(np.float64(dot(source, source)) / D + EPS))
        r[m] = share
        for i in range(D):
            target[i] = source[i] * share


@kernel
def norm_backward(dx: Array, dn: Array, n: Array, r: Array) -> None:
    """dx += r · (dn − n · mean(dn·n))."""
    M, D = n.shape
    for m in range(M):
        out, slope, value = dx[m], dn[m], n[m]
        mean = -dot(slope, value) / n.dtype.type(D)
        for i in range(D):
            out[i] = fused(r[m], fused(value[i], mean, slope[i]), out[i])


@kernel
def square_relu_forward(a: Array, p: Array) -> None:
    """p = max(0, p) in place; a = p²."""
    source, target = p.reshape(-1), a.reshape(-1)
    for i in range(source.size):
        positive = max(source[i], p.dtype.type(0))
        source[i] = positive
        target[i] = positive * positive


@kernel
def square_relu_backward(a: Array, dh: Array, p: Array) -> None:
    """a = p² once more, for the weights' gradient; dh = 2 p · dh."""
    values, slopes, squares = p.reshape(-1), dh.reshape(-1), a.reshape(-1)
    two = p.dtype.type(2)
    for i in range(values.size):
        squares[i] = values[i] * values[i]
        slopes[i] *= two * values[i]


@kernel
def draw_dropout(mask: Array, first_sample: int, samples: int, site: int, drop: Dropout) -> None:
    """mask (M, D): 1 where a draw of 16 bits, by (seed, step, sample, site, element), is not below the threshold."""
    flat = mask.reshape(-1)
    each = flat.size // samples
    for s in range(samples):
        mine = flat[s * each : (s + 1) * each]
        for block in range((each + DRAWS - 1) // DRAWS):
            drawn = philox(
                np.uint64(block), np.uint64(site), np.uint64(first_sample + s), np.uint64(drop.step),
                np.uint64(drop.seed), np.uint64(DROPOUT),
            )  # fmt: skip
            for j in range(min(DRAWS, each - DRAWS * block)):
                lane = (drawn[j >> 2] >> np.uint64(16 * (j & 3))) & np.uint64(0xFFFF)
                mine[DRAWS * block + j] = lane >= np.uint64(drop.threshold)


@kernel
def add_with_dropout(x: Array, branch: Array, mask: Array, scale: float) -> None:
    """x += branch, dropped and scaled."""
    out, source, keep = x.reshape(-1), branch.reshape(-1), mask.reshape(-1)
    for i in range(out.size):
        out[i] = fused(source[i], x.dtype.type(keep[i]) * x.dtype.type(scale), out[i])


@kernel
def apply_dropout(out: Array, dx: Array, mask: Array, scale: float) -> None:
    """out = dx, dropped and scaled: the way back of add_with_dropout."""
    target, source, keep = out.reshape(-1), dx.reshape(-1), mask.reshape(-1)
    for i in range(target.size):
        target[i] = source[i] * (dx.dtype.type(keep[i]) * dx.dtype.type(scale))


@routine
def forward(
    memory: Array, masks: Array, params: Array, panels: Array, inputs: Array, first_sample: int, drop: Dropout, z: Sizes
) -> None:
    """Up to the logits, which lie in work memory. inputs (S, T)."""
    S, T = inputs.shape
    M, d = S * T, z.D // z.H
    R, _, _ = padded(T, d)
    x, nf, _, dn, rf, a, _, _, logits, panel, scratch = work_memory(memory, M, S, z)
    token, position, _ = ends(params, z)
    dropping = drop.threshold > 0
    for m in range(M):
        row, left, right = x[m], token[inputs[m // T, m % T]], position[m % T]
        for i in range(z.D):
            row[i] = left[i] + right[i]
    if dropping:
        draw_dropout(masks[0, :M], first_sample, S, 0, drop)
        apply_dropout(x, x, masks[0, :M], drop.scale)
    for layer in range(z.L):
        n1, qkv, y, n2, p, r, P = layer_memory(memory, layer, M, S, z)
        w_qkv, w_out, w_up, w_down = layer_panels(panels, layer, z)
        norm_forward(n1, r[0], x)
        multiply_panels(qkv, n1, w_qkv, panel, False)
        for s in range(S):
            for h in range(z.H):
                at = (s * z.H + h) * R
                rows = slice(s * T, s * T + T)
                attention_forward(y[rows], P[at : at + R], qkv[rows], h * d, z.D, d, scratch)
        if dropping:
            multiply_panels(dn, y, w_out, panel, False)
            draw_dropout(masks[2 * layer + 1, :M], first_sample, S, 2 * layer + 1, drop)
            add_with_dropout(x, dn, masks[2 * layer + 1, :M], drop.scale)
        else:
            multiply_panels(x, y, w_out, panel, True)
        norm_forward(n2, r[1], x)
        multiply_panels(p, n2, w_up, panel, False)
        square_relu_forward(a, p)
        if dropping:
            multiply_panels(dn, a, w_down, panel, False)
            draw_dropout(masks[2 * layer + 2, :M], first_sample, S, 2 * layer + 2, drop)
            add_with_dropout(x, dn, masks[2 * layer + 2, :M], drop.scale)
        else:
            multiply_panels(x, a, w_down, panel, True)
    if z.final_norm:
        norm_forward(nf, rf, x)
    else:
        copy(nf, x)
    multiply_panels(logits, nf, head_panels(panels, z)[0], panel, False)


@kernel
def cross_entropy(logits: Array, targets: Array) -> tuple[float, int, int]:
    """Summed nats, counted targets and right guesses; logits become dloss/dlogits. Targets of −1 do not count."""
    flat = targets.reshape(-1)
    loss, counted, hits = 0.0, 0, 0
    for m in range(logits.shape[0]):
        row, target = logits[m], flat[m]
        if target < 0:
            row[:] = 0
            continue
        wanted = row[target]
        top, sums = softmax_row(row)
        hits += wanted == top
        row[target] -= logits.dtype.type(1)
        loss += log(np.float64(sums)) - np.float64(wanted - top)
        counted += 1
    return loss, counted, hits


@routine
def backward(memory: Array, masks: Array, panels: Array, grads: Array, inputs: Array, drop: Dropout, z: Sizes) -> None:
    """From dloss/dlogits in work memory to the gradient of every parameter; grads (P,) is overwritten."""
    S, T = inputs.shape
    M, d = S * T, z.D // z.H
    R, _, _ = padded(T, d)
    x, nf, dx, dn, rf, a, da, dqkv, logits, panel, scratch = work_memory(memory, M, S, z)
    head = head_panels(panels, z)[1]
    d_token, d_position, d_head = ends(grads, z)
    dropping = drop.threshold > 0
    multiply_transposed(d_head, nf, logits, panel, False)
    if z.final_norm:
        multiply_panels(dn, logits, head, panel, False)
        dx[:] = 0
        norm_backward(dx, dn, nf, rf)
    else:
        multiply_panels(dx, logits, head, panel, False)
    for layer in range(z.L - 1, -1, -1):
        n1, qkv, y, n2, p, r, P = layer_memory(memory, layer, M, S, z)
        w_qkv, w_out, w_up, w_down = layer_panels_back(panels, layer, z)
        d_qkv, d_out, d_up, d_down = weights(grads, layer, z)
        branch = dx
        if dropping:
            branch = x  # the stream itself is no longer needed
            apply_dropout(branch, dx, masks[2 * layer + 2, :M], drop.scale)
        multiply_panels(da, branch, w_down, panel, False)
        square_relu_backward(a, da, p)
        multiply_transposed(d_down, a, branch, panel, False)
        multiply_transposed(d_up, n2, da, panel, False)
        multiply_panels(dn, da, w_up, panel, False)
        norm_backward(dx, dn, n2, r[1])
        if dropping:
            apply_dropout(branch, dx, masks[2 * layer + 1, :M], drop.scale)
        multiply_transposed(d_out, y, branch, panel, False)
        multiply_panels(dn, branch, w_out, panel, False)
        for s in range(S):
            for h in range(z.H):
                at = (s * z.H + h) * R
                rows = slice(s * T, s * T + T)
                attention_backward(dqkv[rows], dn[rows], P[at : at + R], qkv[rows], h * d, z.D, d, scratch)
        multiply_transposed(d_qkv, n1, dqkv, panel, False)
        multiply_panels(dn, dqkv, w_qkv, panel, False)
        norm_backward(dx, dn, n1, r[0])
    if dropping:
        apply_dropout(dx, dx, masks[0, :M], drop.scale)
    d_token[:] = 0
    d_position[:] = 0
    for m in range(M):
        row, left, right = dx[m], d_token[inputs[m // T, m % T]], d_position[m % T]
        for i in range(z.D):
            left[i] += row[i]
            right[i] += row[i]


@kernel
def gradient_worker(
    worker: int, tickets: Array, schedule: Schedule, slots: Array, losses: Array, wave: Samples, memory: Memory,
    model: Model,
) -> None:  # fmt: skip
    """Units of S samples."""
    params, panels, drop, z = model.params, model.panels, model.drop, model.z
    inputs, targets, own = wave.inputs, wave.targets, memory.activations[worker]
    samples = inputs.shape[0]
    masks = memory.masks[worker].reshape(2 * z.L + 1 if drop.threshold > 0 else 1, -1, z.D if drop.threshold > 0 else 1)
    while True:
        unit = claim(tickets)
        first = unit * z.S
        if first >= samples:
            break
        last = min(first + z.S, samples)
        seen = inputs[first:last]
        started = ticks()
        forward(own, masks, params, panels, seen, wave.first + first, drop, z)
        logits = work_memory(own, (last - first) * z.T, last - first, z)[8]
        losses[unit, 0] = cross_entropy(logits, targets[first:last])[0]
        halfway = ticks()
        backward(own, masks, panels, slots[unit], seen, drop, z)
        schedule.clock[worker, FORWARD] += halfway - started
        schedule.clock[worker, BACKWARD] += ticks() - halfway


@kernel
def evaluate_worker(worker: int, tickets: Array, rows: Array, wave: Samples, memory: Memory, model: Model) -> None:
    """rows (units, 3): nats, counted targets, right guesses."""
    z, own, masks = model.z, memory.activations[worker], memory.masks[worker].reshape(1, -1, 1)
    samples = wave.inputs.shape[0]
    while True:
        unit = claim(tickets)
        first = unit * z.S
        if first >= samples:
            break
        last = min(first + z.S, samples)
        forward(own, masks, model.params, model.panels, wave.inputs[first:last], 0, model.drop, z)
        logits = work_memory(own, (last - first) * z.T, last - first, z)[8]
        rows[unit, 0], rows[unit, 1], rows[unit, 2] = cross_entropy(logits, wave.targets[first:last])


@kernel
def logits_worker(worker: int, tickets: Array, out: Array, inputs: Array, memory: Memory, model: Model) -> None:
    """out (samples, T, V)."""
    z, own, masks = model.z, memory.activations[worker], memory.masks[worker].reshape(1, -1, 1)
    samples = inputs.shape[0]
    while True:
        first = claim(tickets) * z.S
        if first >= samples:
            break
        last = min(first + z.S, samples)
        forward(own, masks, model.params, model.panels, inputs[first:last], 0, model.drop, z)
        logits = work_memory(own, (last - first) * z.T, last - first, z)[8]
        copy(out[first:last], logits)
