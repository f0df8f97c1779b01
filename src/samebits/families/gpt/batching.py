"""Places for texts that are written together, a token each a step (batching_kernels.py). `samebits serve` uses them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.arithmetic.gemm import round_up
from samebits.arithmetic.simd import LANES
from samebits.devices.cpu.workers import Workers
from samebits.families.gpt.batching_kernels import (
    NONE,
    SPAN,
    Groups,
    Places,
    fill_forward,
    plan,
    scratch_size,
    step_worker,
)
from samebits.families.gpt.decoding import Draw, in_view
from samebits.families.gpt.model import GptModel
from samebits.families.gpt.transformer import sizes
from samebits.families.gpt.weights import panels_total

__all__ = ["NONE", "Batch", "place_bytes"]


class Batch:
    """Places for texts of one model. Who uses it says which place is whose."""

    def __init__(self, model: GptModel, places: int, workers: Workers) -> None:
        self.z, self.workers, self.params = sizes(model.config), workers, model.weights
        T, dtype = self.z.T, self.params.dtype
        self.panels = np.empty(panels_total(self.z), dtype)
        fill_forward(self.panels, self.params, self.z)
        self.view = np.zeros((places, T + 1), np.int32)
        self.held, self.read = np.zeros(places, np.int64), np.zeros(places, np.int64)
        self.keys = np.zeros((places, self.z.L, round_up(T, SPAN) // SPAN, self.z.D, SPAN), dtype)
        padded = round_up(self.z.D // self.z.H, LANES)
        self.values = np.zeros((places, self.z.L, self.z.H, T, padded), dtype)
        self.logits = np.zeros((places, self.z.V), dtype)
        self.counts, self.reals = np.zeros((places, 4), np.int64), np.zeros((places, 2))
        self.cuts, self.out = np.zeros(places + 1, np.int64), np.full(places, NONE, np.int64)

    def put(self, place: int, tokens: Sequence[int], how: Draw, sample: int, drawn: int) -> None:
        """A text takes a place: its tokens so far, of which the last `drawn` were drawn. The next steps read it."""
        kept = tokens[in_view(len(tokens), self.z.T) :]
        self.view[place, : len(kept)] = kept
        self.held[place], self.read[place] = len(kept), 0
        self.counts[place] = drawn, sample, how.seed, how.top_k
        self.reals[place] = how.temperature, how.top_p

    def step(self, active: Array) -> Array:
        """The next token of each active place, or NONE while it reads. (K,), valid until the next step."""
        memory = self.workers.scratch("gpt.batching").per_worker("group", scratch_size(self.z), self.params.dtype)
        groups = Groups(plan(self.cuts, active, self.held, self.read), self.cuts, active)
        places = Places(
            self.view, self.held, self.read, self.keys, self.values, self.logits, self.counts, self.reals, self.out
        )
        self.workers.run(step_worker, self.workers.tickets(), groups, places, self.params, self.panels, memory, self.z)
        return self.out


def place_bytes(model: GptModel) -> int:
    """Memory that one place takes."""
    z = sizes(model.config)
    values = z.H * z.T * round_up(z.D // z.H, LANES)
    return (z.L * (z.D * round_up(z.T, SPAN) + values) + z.V) * model.weights.itemsize
