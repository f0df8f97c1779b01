"""The soft structural loss: how well the nodes that the action head promises can be matched to the target's nodes.

For one graph with n nodes and a target with m. Node i keeps label k with probability a(i, k) and survives with s(i).
Matching i to u costs c = 1 − a(i, label u) · ½ (1 + the same of both parents), leaving i over costs s(i), leaving u
over costs 1. Sinkhorn's scaling (Cuturi 2013) turns the costs into a soft one-to-one matching P with a spare row and a
spare column; the loss is Σ P c. The gradient goes back through every round of the scaling.

Shapes: cost, kernel (n + 1, m + 1), the last row and column spare; u (rounds + 1, n + 1), v (rounds + 1, m + 1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.simd import exp
from samebits.arithmetic.softmax import softmax_segment_backward
from samebits.compiler.jit import routine

KEEP, DELETE, FIRST_LABEL = 0, 1, 2  # classes of the action head


class Scaling(NamedTuple):
    """Sinkhorn's scaling of one graph."""

    plan: Array  # (n + 1, m + 1)
    u: Array  # (rounds + 1, n + 1)
    v: Array  # (rounds + 1, m + 1)
    cost: Array  # (n + 1, m + 1)


def scratch_size(most_nodes: int, rounds: int, classes: int) -> int:
    """Numbers that one graph needs: agreement, cost and kernel and their gradients, all u and v, and d probability."""
    side = most_nodes + 1
    return 6 * side * side + 4 * (rounds + 1) * side + most_nodes * classes


@routine
def agreement_forward(a: Array, p: Array, labels: Array, next_labels: Array, gives: Array) -> None:
    """a (n, m): the probability that node i gets the label of target node u."""
    for i in range(a.shape[0]):
        for u in range(a.shape[1]):
            wanted = next_labels[u]
            a[i, u] = p[i, KEEP] if labels[i] == wanted else p[i, KEEP] - p[i, KEEP]
            if gives[wanted] >= 0:
                a[i, u] += p[i, FIRST_LABEL + gives[wanted]]


@routine
def agreement_backward(dp: Array, da: Array, labels: Array, next_labels: Array, gives: Array) -> None:
    for i in range(da.shape[0]):
        for u in range(da.shape[1]):
            wanted = next_labels[u]
            if labels[i] == wanted:
                dp[i, KEEP] += da[i, u]
            if gives[wanted] >= 0:
                dp[i, FIRST_LABEL + gives[wanted]] += da[i, u]


@routine
def cost_forward(cost: Array, a: Array, p: Array, parents: Array, next_parents: Array, half: Any) -> None:
    n, m = a.shape
    one = half + half
    for i in range(n):
        for u in range(m):
            both = one if parents[i] < 0 and next_parents[u] < 0 else one - one
            if parents[i] >= 0 and next_parents[u] >= 0:
                both = a[parents[i], next_parents[u]]
            cost[i, u] = one - a[i, u] * half * (one + both)
        cost[i, m] = one - p[i, DELETE]
    for u in range(m):
        cost[n, u] = one
    cost[n, m] = 0


@routine
def cost_backward(da: Array, dp: Array, dcost: Array, a: Array, parents: Array, next_parents: Array, half: Any) -> None:
    """Every pair writes to itself and to the pair of its parents, one after the other: one graph, one worker."""
    n, m = a.shape
    one = half + half
    for i in range(n):
        for u in range(m):
            both = one if parents[i] < 0 and next_parents[u] < 0 else one - one
            if parents[i] >= 0 and next_parents[u] >= 0:
                both = a[parents[i], next_parents[u]]
                da[parents[i], next_parents[u]] -= dcost[i, u] * half * a[i, u]
            da[i, u] -= dcost[i, u] * half * (one + both)
        dp[i, DELETE] -= dcost[i, m]


@routine
def mass(index: int, spare: int, others: int) -> int:
    """Every node has mass 1; the spare one can take all of the other side."""
    return others if index == spare else 1


@routine
def scaling_forward(scaling: Scaling, temperature: float) -> float:
    """plan becomes exp(−cost / temperature); u, v keep every round. The loss Σ u · plan · v · cost."""
    plan, u, v, cost = scaling.plan, scaling.u, scaling.v, scaling.cost
    n, m = cost.shape[0] - 1, cost.shape[1] - 1
    rounds = u.shape[0] - 1
    for i in range(n + 1):
        for j in range(m + 1):
            plan[i, j] = exp(-cost[i, j] / temperature)
    v[0] = 1
    for t in range(1, rounds + 1):
        for i in range(n + 1):
            total = plan[i, 0] * v[t - 1, 0]
            for j in range(1, m + 1):
                total += plan[i, j] * v[t - 1, j]
            u[t, i] = mass(i, n, m) / total
        for j in range(m + 1):
            total = plan[0, j] * u[t, 0]
            for i in range(1, n + 1):
                total += plan[i, j] * u[t, i]
            v[t, j] = mass(j, m, n) / total
    loss = 0.0
    for i in range(n + 1):
        for j in range(m + 1):
            loss += np.float64(u[rounds, i] * plan[i, j] * v[rounds, j] * cost[i, j])
    return loss


@routine
def scaling_backward(dcost: Array, dplan: Array, du: Array, dv: Array, scaling: Scaling, temperature: float) -> None:
    """du, dv are scratch rows of n + 1 and m + 1."""
    plan, u, v, cost = scaling.plan, scaling.u, scaling.v, scaling.cost
    n, m = cost.shape[0] - 1, cost.shape[1] - 1
    rounds = u.shape[0] - 1
    du[:] = 0
    dv[:] = 0
    for i in range(n + 1):
        for j in range(m + 1):
            weight = u[rounds, i] * v[rounds, j]
            dplan[i, j] = weight * cost[i, j]
            dcost[i, j] = weight * plan[i, j]
            du[i] += plan[i, j] * v[rounds, j] * cost[i, j]
            dv[j] += plan[i, j] * u[rounds, i] * cost[i, j]
    for t in range(rounds, 0, -1):
        for j in range(m + 1):  # v = mass / (planᵀ u)
            down = -dv[j] * v[t, j] * v[t, j] / mass(j, m, n)
            for i in range(n + 1):
                du[i] += plan[i, j] * down
                dplan[i, j] += u[t, i] * down
        dv[:] = 0
        for i in range(n + 1):  # u = mass / (plan v) of the round before
            down = -du[i] * u[t, i] * u[t, i] / mass(i, n, m)
            for j in range(m + 1):
                dv[j] += plan[i, j] * down
                dplan[i, j] += down * v[t - 1, j]
        du[:] = 0
    for i in range(n + 1):
        for j in range(m + 1):
            dcost[i, j] -= dplan[i, j] * plan[i, j] / temperature


@routine
def structural_loss(
    dlogits: Array, p: Array, scratch: Array, sizes: Any, store: Any, chosen: Array, first: int, last: int
) -> float:
    """The unit's loss, weighted; dlogits (n, A) becomes its gradient to the action head's logits, p (n, ≥ A) are the
    probabilities."""
    A, rounds = dlogits.shape[1], sizes.sinkhorn_steps
    half, weight = p.dtype.type(0.5), p.dtype.type(sizes.sinkhorn)
    loss, base = 0.0, 0
    for g in chosen[first:last]:
        begin, end = store.nodes[g], store.nodes[g + 1]
        low, high = store.next_nodes[g], store.next_nodes[g + 1]
        n, m = end - begin, high - low
        side = (n + 1) * (m + 1)
        labels, parents = store.labels[begin:end], store.parents[begin:end]
        next_labels, next_parents = store.next_labels[low:high], store.next_parents[low:high]
        a, da = scratch[: n * m].reshape(n, m), scratch[side : side + n * m].reshape(n, m)
        cost = scratch[2 * side : 3 * side].reshape(n + 1, m + 1)
        dcost = scratch[3 * side : 4 * side].reshape(n + 1, m + 1)
        plan = scratch[4 * side : 5 * side].reshape(n + 1, m + 1)
        dplan = scratch[5 * side : 6 * side].reshape(n + 1, m + 1)
        rest = scratch[6 * side :]
        across, along = (rounds + 1) * (n + 1), (rounds + 1) * (m + 1)
        u, v = rest[:across].reshape(rounds + 1, n + 1), rest[across : across + along].reshape(rounds + 1, m + 1)
        rest = rest[across + along :]
        du, dv = rest[: n + 1], rest[n + 1 : n + m + 2]
        dp = rest[n + m + 2 : n + m + 2 + n * A].reshape(n, A)
        mine = p[base : base + n]
        agreement_forward(a, mine, labels, next_labels, sizes.gives)
        cost_forward(cost, a, mine, parents, next_parents, half)
        scaling = Scaling(plan, u, v, cost)
        loss += scaling_forward(scaling, p.dtype.type(sizes.temperature))
        scaling_backward(dcost, dplan, du, dv, scaling, p.dtype.type(sizes.temperature))
        da[:] = 0
        dp[:] = 0
        cost_backward(da, dp, dcost, a, parents, next_parents, half)
        agreement_backward(dp, da, labels, next_labels, sizes.gives)
        for i in range(n):
            softmax_segment_backward(dlogits[base + i], mine[i, :A], dp[i], weight)
        base += n
    return sizes.sinkhorn * loss
