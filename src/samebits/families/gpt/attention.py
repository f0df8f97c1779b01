"""Causal attention of one head of one sample, forward and backward, by tiles (arithmetic/gemm.py).

Shapes. T tokens, d numbers a head (D / heads); in scratch both are padded with zeros to whole tiles:
  R = T up to a multiple of ROWS (of a tile), C and E = T and d up to a multiple of LANES; R ≤ C
  q, k, v, o   (R, E)   one head, packed; q is scaled by 1/√d
  kt, vt       (E, C)   the same, transposed
  P, dS        (R, C)   attention chances, row i over the columns j ≤ i, and their gradient
Row block r (ROWS rows) reaches columns below r + ROWS only: the upper half is never computed. Up to the end of the last
tile that a row block touches, P is 0 above the diagonal, so later products need no mask.
"""

from __future__ import annotations

import math

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.gemm import DEPTH, ROWS, Block, next_width, round_up, stride, tile, tile_transposed
from samebits.arithmetic.simd import LANES, move
from samebits.arithmetic.softmax import softmax, softmax_backward
from samebits.compiler.jit import kernel, routine


@kernel
def padded(T: int, d: int) -> tuple[int, int, int]:
    return round_up(T, ROWS), round_up(T, LANES), round_up(d, LANES)


def head_scratch(T: int, d: int) -> int:
    """Numbers of scratch one head needs, backward: q, k, do and one gradient; vt; dS. Forward takes less."""
    R, C, E = padded(T, d)
    return 4 * R * E + E * C + R * C


@kernel
def copy_rows(out: Array, to: int, x: Array, start: int, T: int, d: int, scale: float) -> None:
    """Columns to … to + d of out = scale · columns start … start + d of x, T rows."""
    ldo, ldx, whole = stride(out), stride(x), d // LANES * LANES
    for i in range(T):
        for e in range(0, whole, LANES):
            move(out, i * ldo + to + e, x, i * ldx + start + e, scale)
        for e in range(whole, d):
            out[i, to + e] = scale * x[i, start + e]


@kernel
def pad_head(out: Array, x: Array, first: int, T: int, d: int, scale: float) -> None:
    """out (R, E) = scale · the head's columns of x, zeros around."""
    copy_rows(out, 0, x, first, T, d, scale)
    for i in range(T):
        for e in range(d, out.shape[1]):
            out[i, e] = 0
    for i in range(T, out.shape[0]):
        out[i, :] = 0


@kernel
def pad_head_transposed(out: Array, x: Array, first: int, T: int, d: int) -> None:
    """out (E, C) = the head's columns of x, as rows, zeros around."""
    for e in range(out.shape[0]):
        row = out[e]
        filled = T if e < d else 0
        for j in range(filled):
            row[j] = x[j, first + e]
        for j in range(filled, row.size):
            row[j] = 0


@routine
def lower_tiles(out: Array, a: Array, b: Array, r: int) -> None:
    """Row block r of out (R, C) = a (R, E) · b (E, C), columns below r + ROWS."""
    C, E = out.shape[1], a.shape[1]
    end = min(round_up(r + ROWS, LANES), C)
    c = 0
    while c < end:
        width = next_width(end - c)
        tile(Block(out, r * C + c, C), Block(a, r * E, E), Block(b, c, C), E, False, width)
        c += width


@routine
def gather_rows(out: Array, chances: Array, b: Array, r: int) -> None:
    """Row block r of out (R, E) = chances (R, C) · b (R, E), over the columns below r + ROWS."""
    C, E = chances.shape[1], b.shape[1]
    e = 0
    while e < E:
        width = next_width(E - e)
        for k in range(0, r + ROWS, DEPTH):
            count = min(DEPTH, r + ROWS - k)
            left, right = Block(chances, r * C + k, C), Block(b, k * E + e, E)
            tile(Block(out, r * E + e, E), left, right, count, k > 0, width)
        e += width


@routine
def gather_columns(out: Array, chances: Array, b: Array, r: int) -> None:
    """Row block r of out (R, E) = chancesᵀ · b (R, E), over the rows from r on."""
    R, C, E = b.shape[0], chances.shape[1], b.shape[1]
    e = 0
    while e < E:
        width = next_width(E - e)
        k = r  # panels begin at the same rows for every block: what lies before r is 0
        while k < R:
            count = min(DEPTH - k % DEPTH, R - k)
            left, right = Block(chances, k * C + r, C), Block(b, k * E + e, E)
            tile_transposed(Block(out, r * E + e, E), left, right, count, k > r, width)
            k += count
        e += width


@kernel
def softmax_rows(P: Array, r: int, T: int) -> None:
    """Scores → chances in row block r: zero above the diagonal, and in rows past T."""
    C = P.shape[1]
    width = min(round_up(r + ROWS, LANES), C)
    for i in range(r, min(r + ROWS, T)):
        softmax(P, i * C, width, i + 1)
    for i in range(max(r, T), r + ROWS):
        P[i, :width] = 0


@kernel
def softmax_rows_backward(dS: Array, P: Array, r: int) -> None:
    """dP → dS = P · (dP − Σ P·dP) in row block r."""
    C = P.shape[1]
    width = min(round_up(r + ROWS, LANES), C)
    for i in range(r, r + ROWS):
        softmax_backward(dS, P, i * C, width)


@routine
def attention_forward(y: Array, P: Array, qkv: Array, first: int, D: int, d: int, scratch: Array) -> None:
    """y (T, D): its columns first … first + d; P (R, C) is kept. qkv (T, 3D) holds q, k, v side by side."""
    T = qkv.shape[0]
    R, C, E = padded(T, d)
    q, kt = scratch[: R * E].reshape(R, E), scratch[R * E : R * E + E * C].reshape(E, C)
    rest = scratch[R * E + E * C :]
    v, o = rest[: R * E].reshape(R, E), rest[R * E : 2 * R * E].reshape(R, E)
    pad_head(q, qkv, first, T, d, qkv.dtype.type(1.0 / math.sqrt(d)))
    pad_head_transposed(kt, qkv, D + first, T, d)
    pad_head(v, qkv, 2 * D + first, T, d, qkv.dtype.type(1))
    for r in range(0, R, ROWS):
        lower_tiles(P, q, kt, r)
        softmax_rows(P, r, T)
        gather_rows(o, P, v, r)
    copy_rows(y, first, o, 0, T, d, qkv.dtype.type(1))


@routine
def attention_backward(
    dqkv: Array, dy: Array, P: Array, qkv: Array, first: int, D: int, d: int, scratch: Array
) -> None:
    """dqkv (T, 3D): the head's columns of dq, dk and dv. The same names as forward, gradients with a d."""
    T = qkv.shape[0]
    R, C, E = padded(T, d)
    n = R * E
    q, k, do = scratch[:n].reshape(R, E), scratch[n : 2 * n].reshape(R, E), scratch[2 * n : 3 * n].reshape(R, E)
    g = scratch[3 * n : 4 * n].reshape(R, E)
    vt = scratch[4 * n : 4 * n + E * C].reshape(E, C)
    dS = scratch[4 * n + E * C : 4 * n + E * C + R * C].reshape(R, C)
    scale, one = qkv.dtype.type(1.0 / math.sqrt(d)), qkv.dtype.type(1)
    pad_head(q, qkv, first, T, d, scale)
    pad_head(k, qkv, D + first, T, d, one)
    pad_head_transposed(vt, qkv, 2 * D + first, T, d)
    pad_head(do, dy, first, T, d, one)
    for r in range(0, R, ROWS):
        lower_tiles(dS, do, vt, r)
        softmax_rows_backward(dS, P, r)
        gather_rows(g, dS, k, r)  # dq / scale
    copy_rows(dqkv, first, g, 0, T, d, scale)
    for r in range(0, R, ROWS):
        gather_columns(g, dS, q, r)  # dk: q carries the scale
    copy_rows(dqkv, D + first, g, 0, T, d, one)
    for r in range(0, R, ROWS):
        gather_columns(g, P, do, r)  # dv
    copy_rows(dqkv, 2 * D + first, g, 0, T, d, one)
