"""Oracles: the definitions, written as plainly as possible. Kept for ever."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


def tree_sum(rows):
    """The fixed tree, level by level: a missing right child passes the left one on."""
    nodes = [np.array(row) for row in rows]
    while len(nodes) > 1:
        nodes = [nodes[i] + nodes[i + 1] if i + 1 < len(nodes) else nodes[i] for i in range(0, len(nodes), 2)]
    return nodes[0]


def fewest_nodes(begin, end):
    """Into how many nodes of the tree the units begin … end can be cut at least, by trying all ways."""
    fewest = {end: 0}
    for unit in range(end - 1, begin - 1, -1):
        sizes = [1 << level for level in range(end.bit_length()) if unit % (1 << level) == 0]
        fewest[unit] = 1 + min(fewest[unit + size] for size in sizes if unit + size <= end)
    return fewest[begin]


def adamw(params, gradients, lr, beta1, beta2, eps, decay, clip_element=math.inf, clip_norm=math.inf):
    """Several AdamW steps in float64, one gradient each."""
    p = np.array(params, np.float64)
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(gradients, start=1):
        g = np.clip(np.array(g, np.float64), -clip_element, clip_element)
        norm = math.sqrt((g**2).sum())
        g = g * min(1.0, clip_norm / norm)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        p = p - lr * (m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + decay * p)
    return p


def rounded(exact, dtype):
    """The number of this type nearest to a fraction, the even one of two."""
    if exact == 0:
        return dtype(0)
    bits, least = np.finfo(dtype).nmant + 1, np.finfo(dtype).minexp - np.finfo(dtype).nmant
    exponent = max(abs(exact.numerator).bit_length() - exact.denominator.bit_length() - bits, least)
    while abs(exact) >= Fraction(2) ** (exponent + bits):
        exponent += 1
    return dtype(math.ldexp(round(exact / Fraction(2) ** exponent), exponent))


def fma(a, b, c):
    """a · b + c in one rounding, in the type of c."""
    return rounded(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), type(c))


def fold_by_halves(sums):
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [sums[i] + sums[half + i] for i in range(half)]
    return sums[0]


def running_sums(rows, dtype, accumulate):
    """32 running sums, number i of every row into sum i mod 32, folded by halves; accumulate(sum, numbers …) → sum."""
    sums = [dtype(0)] * 32
    for i, numbers in enumerate(zip(*rows, strict=True)):
        sums[i % 32] = accumulate(sums[i % 32], *numbers)
    return fold_by_halves(sums)


def total(x):
    return running_sums([x], x.dtype.type, lambda s, a: s + a)


def dot(x, y):
    return running_sums([x, y], x.dtype.type, lambda s, a, b: fma(a, b, s))


def wide_squares(x):
    return running_sums([x], np.float64, lambda s, a: fma(a, a, s))


def product(a, b, before=None):
    """a (m, k) · b (k, n) in panels of 512 terms: each one chain of fused multiply-adds from 0 on, then added, first to
    `before` if there is one."""
    dtype, out = a.dtype.type, None if before is None else before.copy()
    for k in range(0, a.shape[1], 512):
        panel = np.zeros((len(a), b.shape[1]), dtype)
        for i, j in np.ndindex(panel.shape):
            for left, right in zip(a[i, k : k + 512], b[k : k + 512, j], strict=True):
                panel[i, j] = fma(left, right, panel[i, j])
        out = panel if out is None else out + panel
    return out
