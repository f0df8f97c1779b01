"""Oracles: the definitions, written as plainly as possible. Kept for ever."""

from __future__ import annotations

import math

import numpy as np


def tree_sum(rows):
    """The fixed tree, level by level: a missing right child passes the left one on."""
    nodes = [np.array(row) for row in rows]
    while len(nodes) > 1:
        nodes = [nodes[i] + nodes[i + 1] if i + 1 < len(nodes) else nodes[i] for i in range(0, len(nodes), 2)]
    return nodes[0]


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
