"""The GPT on a GPU: all samples of a wave at once, a kernel after another (gpt.cl, devices/gpu/gemm.cl)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.gpu import elementary, philox, products
from samebits.devices.gpu.arrays import Packed
from samebits.devices.gpu.device import LANES, THREADS, Gpu
from samebits.devices.gpu.opened import require_single
from samebits.devices.gpu.products import Gradient, Products, Size
from samebits.families.gpt.config import DROPOUT, GptConfig
from samebits.families.gpt.kernels import EPS, Dropout
from samebits.families.gpt.transformer import NO_DROPOUT, cut, dropout_of, sizes
from samebits.families.gpt.weights import Sizes
from samebits.training.contract import Batch, Filled, Kernels, Wave, Work

OWNER = "gpt"
WORDS = {**elementary.WORDS, **philox.WORDS, **products.WORDS}
WARP, QUERIES, ATTENTION = 32, 64, 128  # threads; rows of a head that a group of attention has; its threads
NORMS = 8  # rows of a group
ATTENDING = 8  # groups of attention for every processor, at most: it has four at once
MOST_CHANCES = 256 << 20  # bytes of attention that are kept for the way back; more is computed again
MOST_WAITING = 64 << 20  # bytes of gradients that wait for the end; more are folded layer by layer


class Weights(NamedTuple):
    """Where the matrices lie in the flat vector, and in a slot: (inputs, outputs) each."""

    token: int
    position: int
    layers: tuple[Mapping[str, tuple[int, int, int]], ...]  # start, inputs, outputs
    head: tuple[int, int, int]
    size: int


@lru_cache(maxsize=8)
def weights_of(z: Sizes) -> Weights:
    at, layers = (z.V + z.T) * z.D, []
    for _ in range(z.L):
        layer = {}
        for name, inputs, outputs in (
            ("qkv", z.D, 3 * z.D),
            ("out", z.D, z.D),
            ("up", z.D, 4 * z.D),
            ("down", 4 * z.D, z.D),
        ):
            layer[name] = at, inputs, outputs
            at += inputs * outputs
        layers.append(layer)
    return Weights(0, z.V * z.D, tuple(layers), (at, z.D, z.V), at + z.D * z.V)


def kernels_for(width: int, context: int, device: Gpu) -> Mapping[str, Any]:
    """For heads so wide, and samples so long."""
    shape = (4, 2, 16, 8) if width <= 16 else (4, 4, 16, 8) if width <= 32 else (8, 4, 8, 16)  # 64 rows of a head
    head = Size("HEAD", *shape, 16)
    files = (
        LANES, elementary.FILE, philox.FILE, *products.FILES, Size("SCORES", 8, 4, 8, 16, 16).part(),
        head.part(), "families/gpt/gpt.cl",
    )  # fmt: skip
    words = {"HEAD_M": head.m, "HEAD_N": head.n, "KEPT": min(8, -(-context // WARP)), "EPS": EPS}
    return device.program(files, **words, **WORDS)


class Transformer:
    """One wave: its tokens on the device, and what the way back needs."""

    def __init__(
        self, z: Sizes, params: Any, samples: int, sent: Mapping[str, Any], when: Any, drop: Dropout, device: Gpu,
        levels: int = 0,
    ) -> None:  # fmt: skip
        self.device, self.params, self.z, self.drop, self.when = device, params, z, drop, when
        self.weights, self.scratch = weights_of(z), device.scratch(OWNER)
        self.kernels = kernels_for(z.D // z.H, z.T, device)
        self.products = Products(device, self.kernels)
        self.samples, self.rows, self.units = samples, samples * z.T, -(-samples // z.S)
        self.each = z.S * z.T  # rows of a unit
        self.levels = levels  # of the tree, that are folded where gradients are computed
        self.again = 4 * self.rows * z.H * z.T * z.L > MOST_CHANCES  # chances are computed on the way back, too
        self.groups = z.H * -(-z.T // QUERIES)  # of attention, for a sample
        parts = -(-samples * self.groups // (ATTENDING * device.backend.busy))
        self.attending = -(-samples // parts)  # samples: as many as there are processors for
        self.inputs, self.targets, self.starts = sent["inputs"], sent["targets"], sent["starts"]
        self.scale = float(np.float32(1.0 / math.sqrt(z.D // z.H)))

    def memory(self, name: str, width: int, dtype: Any = np.float32) -> Any:
        return self.scratch.buffer(name, (self.rows, width), dtype)

    def run(self, name: str, groups: int | tuple[int, int], threads: int, *args: Any) -> None:
        self.device.post(self.kernels[name], groups, threads, *args)

    def each_number(self, name: str, array: Any, *args: Any) -> None:
        self.run(name, -(-array.size // THREADS), THREADS, array, *args, array.size)

    def of(self, matrix: tuple[int, int, int]) -> tuple[Any, tuple[int, int, int]]:
        """A matrix, and the shape of a product with it."""
        start, inputs, outputs = matrix
        return self.params[start:], (self.rows, inputs, outputs)

    def back_of(self, matrix: tuple[int, int, int]) -> tuple[Any, tuple[int, int, int]]:
        start, inputs, outputs = matrix
        return self.params[start:], (self.rows, outputs, inputs)

    def gradient_of(self, a: Any, b: Any, matrix: tuple[int, int, int]) -> Gradient:
        return Gradient(matrix[0], a, b, *matrix[1:])

    def attend(self, name: str, samples: int, *arrays: Any, parts: int = 1) -> None:
        z = self.z
        self.run(name, (samples * self.groups, parts), ATTENTION, *arrays, z.T, z.D, z.H, self.scale)

    def some_samples(self, number: int, *arrays: Any) -> Iterator[tuple[int, Any, list[Any]]]:
        """Of a layer, as many as attend at once: how many, where their chances are, and their rows of these arrays."""
        for first in range(0, self.samples, self.attending):
            if self.again:
                chances = self.looks("P")
            else:
                chances = self.memory(f"P {number}", self.z.H * self.z.T)[first * self.z.T :]
            own = [array[first * self.z.T :] for array in arrays]
            yield min(self.attending, self.samples - first), chances, own

    def looks(self, name: str) -> Any:
        """A number for every look of a query at a key, of the samples that attend at once."""
        return self.scratch.buffer(name, (self.attending * self.z.T, self.z.H * self.z.T), np.float32)

    def attention(self, number: int, y: Any, qkv: Any) -> None:
        for samples, chances, (own_y, own_qkv) in self.some_samples(number, y, qkv):
            self.attend("attention_forward", samples, own_y, chances, own_qkv)

    def attention_back(self, number: int, dqkv: Any, dy: Any, qkv: Any) -> None:
        slopes = self.looks("slopes")
        for samples, chances, (own, own_dy, own_qkv) in self.some_samples(number, dqkv, dy, qkv):
            if self.again:
                self.attend("attention_chances", samples, chances, own_qkv)
            self.attend("attention_back_rows", samples, own, slopes, own_dy, chances, own_qkv)
            self.attend("attention_back_columns", samples, own, slopes, own_dy, chances, own_qkv, parts=2)

    def norm(self, n: Any, r: Any, x: Any) -> None:
        self.run("norm_forward", -(-self.rows // NORMS), NORMS * WARP, n, r, x, self.z.D, self.rows)

    def norm_back(self, dx: Any, old: Any, dn: Any, n: Any, r: Any) -> None:
        """dx = what it was, or nothing, and what comes through the norm."""
        fresh = old is None
        more = self.z.D, self.rows, int(fresh)
        self.run("norm_backward", -(-self.rows // NORMS), NORMS * WARP, dx, dx if fresh else old, dn, n, r, *more)

    def mask(self, site: int) -> Any:
        return self.memory(f"mask {site}", self.z.D, np.uint8)

    def draw(self, site: int) -> Any:
        found, drop, each = self.mask(site), self.drop, self.z.T * self.z.D
        threads = self.samples * -(-each // 16)
        self.run(
            "draw_dropout", -(-threads // THREADS), THREADS, found, self.when, each, self.samples, site,
            drop.threshold, drop.seed, DROPOUT,
        )  # fmt: skip
        return found

    def branch(self, x: Any, a: Any, matrix: tuple[int, int, int], site: int, squares: bool = False) -> None:
        """x += a, or its squares, · matrix, with dropout."""
        if not self.drop.threshold:
            self.products.times(x, a, *self.of(matrix), add=True, squares=squares)
            return
        made = self.memory("dn", self.z.D)
        self.products.times(made, a, *self.of(matrix), squares=squares)
        self.each_number("add_with_dropout", x, made, self.draw(site), self.drop.scale)

    def forward(self) -> Any:
        """The logits."""
        z, weights = self.z, self.weights
        x = self.memory("x", z.D)
        token, position = self.params[weights.token :], self.params[weights.position :]
        self.run("embed", self.rows, min(THREADS, -(-z.D // WARP) * WARP), x, token, position, self.inputs, z.D, z.T)
        if self.drop.threshold:
            self.each_number("apply_dropout", x, x, self.draw(0), self.drop.scale)
        for number, layer in enumerate(weights.layers):
            n1, qkv, y, n2, p, r1, r2 = self.layer(number)
            self.norm(n1, r1, x)
            self.products.scaled(qkv, n1, *self.of(layer["qkv"]), z.D, self.scale)  # queries
            self.attention(number, y, qkv)
            self.branch(x, y, layer["out"], 2 * number + 1)
            self.norm(n2, r2, x)
            self.products.positive(p, n2, *self.of(layer["up"]))
            self.branch(x, p, layer["down"], 2 * number + 2, squares=True)
        nf = x
        if z.final_norm:
            nf = self.memory("nf", z.D)
            self.norm(nf, self.memory("rf", 1), x)
        logits = self.memory("logits", z.V)
        self.products.times(logits, nf, *self.of(weights.head))
        return logits

    def layer(self, number: int) -> tuple[Any, ...]:
        """What a layer keeps for the way back."""
        D = self.z.D
        widths = {"n1": D, "qkv": 3 * D, "y": D, "n2": D, "p": 4 * D, "r1": 1, "r2": 1}
        return tuple(self.memory(f"{name} {number}", width) for name, width in widths.items())

    def losses(self, logits: Any, rows: Any) -> None:
        """Nats, and in three columns counts and hits, of every unit; logits become their gradient."""
        told = self.memory("told", 3, np.float64)
        self.run("cross_entropy", self.rows, WARP, logits, told, self.targets, self.z.V)
        columns = rows.shape[1]
        self.device.post(
            self.kernels["sum_rows"], self.units, WARP, rows, told, self.each, self.rows, columns, aside=True,
        )  # fmt: skip

    def backward(self, logits: Any, slots: Any) -> None:
        z, weights, drop = self.z, self.weights, self.drop
        x, nf, dx, dn = (self.memory(name, z.D) for name in ("x", "nf", "dx", "dn"))
        middle = self.memory("dx between", z.D)  # after the wide layer, before attention
        da, dqkv = self.memory("da", 4 * z.D), self.memory("dqkv", 3 * z.D)
        gradients = [self.gradient_of(nf if z.final_norm else x, logits, weights.head)]
        if z.final_norm:
            self.products.transposed(dn, logits, *self.back_of(weights.head))
            self.norm_back(dx, None, dn, nf, self.memory("rf", 1))
        else:
            self.products.transposed(dx, logits, *self.back_of(weights.head))
            if drop.threshold:
                self.collect(slots, gradients)  # before x is written to
                gradients = []
        for number in range(z.L - 1, -1, -1):
            layer, (n1, qkv, y, n2, p, r1, r2) = weights.layers[number], self.layer(number)
            branch, other = dx, middle
            if drop.threshold:
                branch, other = x, self.memory("branch", z.D)  # the stream itself is no longer needed
                self.each_number("apply_dropout", branch, dx, self.mask(2 * number + 2), drop.scale)
            self.products.slope(da, p, branch, *self.back_of(layer["down"]))  # p becomes the square again
            self.products.transposed(dn, da, *self.back_of(layer["up"]))
            self.norm_back(middle, dx, dn, n2, r2)
            if drop.threshold:
                self.each_number("apply_dropout", other, middle, self.mask(2 * number + 1), drop.scale)
            self.products.transposed(dn, other, *self.back_of(layer["out"]))
            self.attention_back(number, dqkv, dn, qkv)
            gradients += [
                self.gradient_of(p, branch, layer["down"]),
                self.gradient_of(n2, da, layer["up"]),
                self.gradient_of(n1, dqkv, layer["qkv"]),
                self.gradient_of(y, other, layer["out"]),
            ]
            self.collect(slots, gradients)
            gradients = []
            self.products.transposed(dn, dqkv, *self.back_of(layer["qkv"]))
            self.norm_back(dx, middle, dn, n1, r1)
        if drop.threshold:
            self.each_number("apply_dropout", dx, dx, self.mask(0), drop.scale)
        with self.rows_of(slots, 0, (z.V + z.T) * z.D) as rows:
            self.run(
                "embed_backward", (z.V + z.T, len(rows)), min(THREADS, -(-z.D // WARP) * WARP), rows, dx, self.inputs,
                z.D, z.T, z.V, self.each, self.rows, rows.shape[1], self.levels,
            )  # fmt: skip

    def collect(self, slots: Any, gradients: list[Gradient]) -> None:
        """Every unit's gradients of matrices that lie side by side."""
        first = min(one.start for one in gradients)
        with self.rows_of(slots, first, sum(one.rows * one.columns for one in gradients)) as rows:
            there = first if rows is not slots else 0
            moved = [one._replace(start=one.start - there) for one in gradients]
            self.products.by_unit(rows, moved, self.starts, self.each)

    @contextmanager
    def rows_of(self, slots: Any, first: int, width: int) -> Iterator[Any]:
        """Where nodes of the tree are computed: the slots themselves, or rows of so many numbers, which are folded on
        the way out."""
        count = self.units >> self.levels
        if count == len(slots):
            yield slots
            return
        rows = self.scratch.buffer("rows", (count, width), np.float32)
        yield rows
        each = count // len(slots)
        for slot in range(len(slots)):
            self.device.fold(slots[slot][first:], rows[slot * each : (slot + 1) * each], aside=True)


def send(z: Sizes, inputs: Array, targets: Array, first: int, step: int, device: Gpu) -> tuple[Packed, Any]:
    """Tokens and the rows where units begin; and where in the step, and at which, we are."""
    scratch, starts = device.scratch(OWNER), np.arange(-(-len(inputs) // z.S) + 1) * z.S * z.T
    tokens = {"inputs": inputs, "targets": targets, "starts": np.minimum(starts, inputs.size)}
    when = scratch.send("when", {"when": np.array([first, step])}, np.int64)["when"]
    return scratch.send("tokens", tokens, np.int32), when


def play(
    config: GptConfig, params: Any, batch: Batch, wave: Wave, rows: tuple[Any, ...], device: Gpu, train: bool
) -> None:
    """Send a wave's tokens, and post what is done with them, or post it again."""
    inputs, targets, step, first = cut(config, batch, wave)
    z, drop = sizes(config), dropout_of(config, step) if train else NO_DROPOUT
    sent, when = send(z, inputs, targets, first, drop.step, device)

    levels = folded_by_products(config, wave)
    device.replay(post_wave, z, params, len(inputs), sent, when, drop._replace(step=0), levels, rows, train)


def post_wave(
    device: Gpu, z: Sizes, params: Any, samples: int, sent: Packed, when: Any, drop: Dropout, levels: int,
    rows: tuple[Any, ...], train: bool,
) -> None:  # fmt: skip
    """What is done with a wave's tokens; the step is in `when`."""
    run = Transformer(z, params, samples, sent, when, drop, device, levels)
    logits = run.forward()
    run.losses(logits, rows[0])
    if train:
        run.backward(logits, rows[1])


def post_logits(device: Gpu, z: Sizes, params: Any, samples: int, sent: Packed, when: Any) -> Any:
    return Transformer(z, params, samples, sent, when, NO_DROPOUT, device).forward()


def gradient(work: Work[GptConfig, Gpu], slots: Any, losses: Any) -> Filled:
    play(work.config, work.params, work.batch, work.wave, (losses, slots), work.device, train=True)
    return Filled(levels(work.config, work.wave))


def evaluate(work: Work[GptConfig, Gpu], rows: Any) -> None:
    play(work.config, work.params, work.batch, work.wave, (rows,), work.device, train=False)


def logits(config: GptConfig, params: Any, inputs: Array, device: Gpu) -> Array:
    """transformer.logits."""
    require_single(params)
    z = sizes(config)
    sent, when = send(z, inputs, inputs, 0, 0, device)
    made = device.replay(post_logits, z, params, len(inputs), sent, when)
    return device.download(made).reshape(*inputs.shape, -1)


def folded_by_products(config: GptConfig, wave: Wave) -> int:
    """Levels of the tree over units, where gradients are computed."""
    shapes = [matrix[1:] for matrix in weights_of(sizes(config)).layers[0].values()]
    return products.levels_for(shapes, wave.first_unit, wave.last_unit)


def levels(config: GptConfig, wave: Wave) -> int:
    """… that `gradient` folds: if they are large, all that it can."""
    found, units = folded_by_products(config, wave), wave.last_unit - wave.first_unit
    large = 4 * weights_of(sizes(config)).size * (units >> found) > MOST_WAITING
    return products.most_levels(wave.first_unit, wave.last_unit) if large else found


KERNELS = Kernels(gradient, evaluate, row_level=levels)
