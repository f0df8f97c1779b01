"""What a device can promise: asked of itself, with numbers whose answers are known, instead of believed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.cpu.modes import flushing
from samebits.devices.gpu.device import THREADS, Gpu

FILE = ("devices/gpu/probe.cl",)
COUNT = 4096
EXACT = 512  # of them are compared with fractions, which take long
OPERATIONS = ("fma", "multiply and add apart", "division", "square root", "denormals flushed")
WIDE = ("float64 fma", "float64 division", "float64 square root")


def rounded(value: Fraction) -> np.float64:
    """To the nearest float64; Python rounds quotients of integers right."""
    return np.float64(value.numerator / value.denominator)


def numbers(seed: int) -> Array:
    draw = np.random.default_rng(seed)
    return (draw.normal(size=COUNT) * 2.0 ** draw.integers(-8, 8, COUNT)).astype(np.float32)


def promises(device: Gpu) -> dict[str, bool]:
    """By operation, whether the device computes what IEEE says and what our CPU kernels compute."""
    kernels = device.program(FILE)
    x, y, z = (numbers(seed) for seed in range(3))
    out = device.vector((len(OPERATIONS), COUNT), np.float32)
    sent = [device.upload(array) for array in (x, y, z)]
    device.post(kernels["probe"], COUNT // THREADS, THREADS, out, *sent, COUNT)
    wide = x.astype(np.float64) / 3, y.astype(np.float64) / 7
    out_wide = device.vector((len(WIDE), COUNT), np.float64)
    device.post(kernels["probe_wide"], COUNT // THREADS, THREADS, out_wide, *map(device.upload, wide), COUNT)
    found = dict(zip(OPERATIONS, device.download(out), strict=True))
    found_wide = dict(zip(WIDE, device.download(out_wide), strict=True))
    kept = {name: _same(array, _expected(name, x, y, z)) for name, array in found.items()}
    return kept | {name: _same(array, _expected_wide(name, *wide)) for name, array in found_wide.items()}


def _same(found: Array, wanted: Array) -> bool:
    return found[: len(wanted)].tobytes() == wanted.tobytes()


def _expected(name: str, x: Array, y: Array, z: Array) -> Array:
    with np.errstate(all="ignore"):
        if name == "fma":  # a float32 of the exact number: through float64 it would be rounded twice
            exact = [
                Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z, strict=True)
            ]
            return np.array([_single(value) for value in exact[:EXACT]], np.float32)
        if name == "multiply and add apart":
            return x * y + z
        if name == "division":
            return x / y
        if name == "square root":
            return np.sqrt(np.abs(x))
        with flushing():
            return x * np.float32(1e-37) * y * np.float32(1e-3)


def _expected_wide(name: str, x: Array, y: Array) -> Array:
    if name == "float64 fma":
        pairs = zip(x[:EXACT].tolist(), y[:EXACT].tolist(), strict=True)
        return np.array([rounded(Fraction(a) * Fraction(b) - Fraction(a)) for a, b in pairs])
    return x / y if name == "float64 division" else np.sqrt(np.abs(x))


def _single(value: Fraction) -> np.float32:
    """To the nearest float32, ties to even, of the exact number."""
    near = np.float32(rounded(value))
    options = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
    return min(options, key=lambda one: (abs(Fraction(float(one)) - value), int(one.view(np.uint32)) & 1))
