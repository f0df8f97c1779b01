"""The parameters as kernels see them: views of the flat vector, and the weights cut into panels once a step.

D width, L layers, V symbols. A matrix is (inputs, outputs). Panels (arithmetic/gemm.py) are read in order by every
unit, which a row of a matrix would not be; the way back has its own, of the transposed matrices.
"""

from __future__ import annotations

from typing import NamedTuple

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.gemm import fill_panels, panels_size
from samebits.compiler.jit import kernel
from samebits.devices.cpu.sync import claim


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
def layer_panels_size(z: Sizes) -> int:
    """Numbers of a layer's panels, one way."""
    D = z.D
    return panels_size(D, 3 * D) + panels_size(D, D) + panels_size(D, 4 * D) + panels_size(4 * D, D)


@kernel
def layer_panels_back_size(z: Sizes) -> int:
    D = z.D
    return panels_size(3 * D, D) + panels_size(D, D) + panels_size(4 * D, D) + panels_size(D, 4 * D)


@kernel
def panels_total(z: Sizes) -> int:
    ends = panels_size(z.D, z.V) + panels_size(z.V, z.D)
    return z.L * (layer_panels_size(z) + layer_panels_back_size(z)) + ends


@kernel
def layer_panels(panels: Array, layer: int, z: Sizes) -> tuple[Array, Array, Array, Array]:
    """qkv, out, up, down of a layer as panels, for the way forward."""
    D = z.D
    a = layer * layer_panels_size(z)
    b = a + panels_size(D, 3 * D)
    c = b + panels_size(D, D)
    d = c + panels_size(D, 4 * D)
    return panels[a:b], panels[b:c], panels[c:d], panels[d : d + panels_size(4 * D, D)]


@kernel
def layer_panels_back(panels: Array, layer: int, z: Sizes) -> tuple[Array, Array, Array, Array]:
    """The same transposed, for the way back."""
    D = z.D
    a = z.L * layer_panels_size(z) + layer * layer_panels_back_size(z)
    b = a + panels_size(3 * D, D)
    c = b + panels_size(D, D)
    d = c + panels_size(4 * D, D)
    return panels[a:b], panels[b:c], panels[c:d], panels[d : d + panels_size(D, 4 * D)]


@kernel
def head_panels(panels: Array, z: Sizes) -> tuple[Array, Array]:
    """The head, and transposed."""
    a = z.L * (layer_panels_size(z) + layer_panels_back_size(z))
    b = a + panels_size(z.D, z.V)
    return panels[a:b], panels[b : b + panels_size(z.V, z.D)]


@kernel
def panel_worker(worker: int, tickets: Array, panels: Array, params: Array, z: Sizes) -> None:
    """Every matrix as panels, once a step: all units read their weights in order. One task a matrix and way."""
    while True:
        task = claim(tickets)
        layer, which = task // 8, task % 8
        if layer < z.L:
            back = which >= 4
            views = layer_panels_back(panels, layer, z) if back else layer_panels(panels, layer, z)
            qkv, out, up, down = weights(params, layer, z)
            if which % 4 == 0:
                fill_panels(views[0], qkv, back)
            elif which % 4 == 1:
                fill_panels(views[1], out, back)
            elif which % 4 == 2:
                fill_panels(views[2], up, back)
            else:
                fill_panels(views[3], down, back)
        elif which < 2:
            fill_panels(head_panels(panels, z)[which], ends(params, z)[2], which == 1)
        else:
            break
