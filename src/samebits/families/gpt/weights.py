"""The parameters as kernels see them: views of the flat vector, and the weights packed into panels once a step.

D width, L layers, V symbols. A matrix is (inputs, outputs). Panels (engine/gemm.py) are read in order by every unit,
which a row of a matrix would not be; the way back has its own, of the transposed matrices.
"""

from __future__ import annotations

from typing import NamedTuple

from samebits.engine.arrays import Array
from samebits.engine.gemm import pack_panels, packed_size
from samebits.engine.jit import kernel
from samebits.engine.sync import claim


class Sizes(NamedTuple):
    S: int  # most samples of a unit
    T: int
    D: int
    H: int
    L: int
    V: int
    final_norm: bool


@kernel
def carve(memory: Array, at: int, rows: int, columns: int) -> tuple[Array, int]:
    """The next (rows, columns) of a flat buffer, and where it ends."""
    end = at + rows * columns
    return memory[at:end].reshape(rows, columns), end


@kernel
def weights(params: Array, layer: int, z: Sizes) -> tuple[Array, Array, Array, Array]:
    """qkv, out, up, down of a layer, as views of the flat vector (or of a gradient of its shape)."""
    at = (z.V + z.T) * z.D + 12 * z.D * z.D * layer
    qkv, at = carve(params, at, z.D, 3 * z.D)
    out, at = carve(params, at, z.D, z.D)
    up, at = carve(params, at, z.D, 4 * z.D)
    down, at = carve(params, at, 4 * z.D, z.D)
    return qkv, out, up, down


@kernel
def ends(params: Array, z: Sizes) -> tuple[Array, Array, Array]:
    """token, position and head."""
    token, at = carve(params, 0, z.V, z.D)
    position, at = carve(params, at, z.T, z.D)
    head, at = carve(params, at + 12 * z.D * z.D * z.L, z.D, z.V)
    return token, position, head


@kernel
def packed_layer(z: Sizes) -> int:
    """Numbers of a layer's packed weights, one way."""
    D = z.D
    return packed_size(D, 3 * D) + packed_size(D, D) + packed_size(D, 4 * D) + packed_size(4 * D, D)


@kernel
def packed_layer_back(z: Sizes) -> int:
    D = z.D
    return packed_size(3 * D, D) + packed_size(D, D) + packed_size(4 * D, D) + packed_size(D, 4 * D)


@kernel
def packed_total(z: Sizes) -> int:
    ends = packed_size(z.D, z.V) + packed_size(z.V, z.D)
    return z.L * (packed_layer(z) + packed_layer_back(z)) + ends


@kernel
def packed_weights(packed: Array, layer: int, z: Sizes) -> tuple[Array, Array, Array, Array]:
    """qkv, out, up, down of a layer as panels, for the way forward."""
    D = z.D
    a = layer * packed_layer(z)
    b = a + packed_size(D, 3 * D)
    c = b + packed_size(D, D)
    d = c + packed_size(D, 4 * D)
    return packed[a:b], packed[b:c], packed[c:d], packed[d : d + packed_size(4 * D, D)]


@kernel
def packed_weights_back(packed: Array, layer: int, z: Sizes) -> tuple[Array, Array, Array, Array]:
    """The same transposed, for the way back."""
    D = z.D
    a = z.L * packed_layer(z) + layer * packed_layer_back(z)
    b = a + packed_size(3 * D, D)
    c = b + packed_size(D, D)
    d = c + packed_size(4 * D, D)
    return packed[a:b], packed[b:c], packed[c:d], packed[d : d + packed_size(D, 4 * D)]


@kernel
def packed_head(packed: Array, z: Sizes) -> tuple[Array, Array]:
    """The head, and transposed."""
    a = z.L * (packed_layer(z) + packed_layer_back(z))
    b = a + packed_size(z.D, z.V)
    return packed[a:b], packed[b : b + packed_size(z.V, z.D)]


@kernel
def pack_worker(worker: int, tickets: Array, packed: Array, params: Array, z: Sizes) -> None:
    """Every matrix as panels, once a step: all units read their weights in order. One task a matrix and way."""
    while True:
        task = claim(tickets)
        layer, which = task // 8, task % 8
        if layer < z.L:
            back = which >= 4
            views = packed_weights_back(packed, layer, z) if back else packed_weights(packed, layer, z)
            qkv, out, up, down = weights(params, layer, z)
            if which % 4 == 0:
                pack_panels(views[0], qkv, back)
            elif which % 4 == 1:
                pack_panels(views[1], out, back)
            elif which % 4 == 2:
                pack_panels(views[2], up, back)
            else:
                pack_panels(views[3], down, back)
        elif which < 2:
            pack_panels(packed_head(packed, z)[which], ends(params, z)[2], which == 1)
        else:
            break
