"""A training step in PyTorch on a GPU, as fast as its users can make it without rewriting it.

Batches wait in page-locked memory before the clock runs. A step sends its own, computes, and looks at nothing. With
`graph` the whole of it, forward, backward, clip and fused AdamW, is captured once as a CUDA graph and replayed: inputs
and the learning rate are tensors that keep their places, and the first steps, which compile and which choose
algorithms, run as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from samebits.arithmetic.arrays import Array
from samebits.bench.peers import OnGpu, Problem, Stepper
from samebits.bench.torch_peers import clip
from samebits.training.contract import Batch

WARM_UP = 3  # steps that are not captured


class Recipe(NamedTuple):
    """A model on a device."""

    tensors: Sequence[Tensor]  # its parameters
    loss: Callable[..., Tensor]  # of a batch's tensors, on the device
    inputs: Callable[[Batch], Sequence[Any]]  # what of a batch is sent there: NumPy arrays or tensors
    weights: Callable[[], Array]


class Training:
    """One model in training: where its batch lies, and the graph once it is captured."""

    def __init__(self, problem: Problem, device: torch.device, recipe: Recipe, graph: bool) -> None:
        self.problem, self.device, self.recipe, self.with_graph = problem, device, recipe, graph
        config = problem.config
        self.optimiser = torch.optim.AdamW(
            recipe.tensors, lr=torch.tensor(config.lr, device=device) if graph else config.lr,
            betas=(config.beta1, config.beta2), eps=config.eps, weight_decay=config.weight_decay, fused=True,
            capturable=graph and device.type == "cuda",
        )  # fmt: skip
        # Everything on one stream of our own: a capture cannot be on the default one.
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.there: list[Tensor] = []
        self.graph: Any = None
        self.value = torch.zeros(())

    def train(self) -> Tensor:
        """What a graph captures."""
        self.optimiser.zero_grad(set_to_none=True)
        value = self.recipe.loss(*self.there)
        value.backward()
        clip(self.problem.config, self.recipe.tensors)
        self.optimiser.step()
        return value.detach()

    def step(self, number: int, ready: Sequence[Tensor]) -> None:
        with self.on_stream():
            self.send(ready)
            self.set_rate(self.problem.lr(number))
            if number == WARM_UP and self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
                torch.cuda.reset_peak_memory_stats(self.device)  # what compiling and choosing took is not the step's
                if self.with_graph:
                    self.capture()
            if self.graph is not None:
                self.graph.replay()
            else:
                self.value = self.train()

    def on_stream(self) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self.stream) if self.stream else nullcontext()

    def send(self, ready: Sequence[Tensor]) -> None:
        if not self.with_graph:
            self.there = [part.to(self.device, non_blocking=True) for part in ready]
        elif not self.there:
            self.there = [part.to(self.device) for part in ready]
        else:
            for there, part in zip(self.there, ready, strict=True):
                there.copy_(part, non_blocking=True)

    def set_rate(self, rate: float) -> None:
        group = self.optimiser.param_groups[0]
        if self.with_graph:
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

    def capture(self) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.value = self.train()
        self.graph = graph

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def loss(self) -> float:
        self.wait()
        return float(self.value)

    def megabytes(self) -> float:
        """What PyTorch's allocator gave out at most: parameters, moments, gradients, activations, workspaces."""
        return torch.cuda.max_memory_allocated(self.device) / 1e6 if self.device.type == "cuda" else 0.0


def stepper(problem: Problem, device: str, make: Callable[[torch.device], Recipe], graph: bool) -> Stepper:
    where = torch.device(device)
    if where.type == "cuda":
        torch.cuda.set_device(where)
    training = Training(problem, where, make(where), graph)
    training.wait()  # the parameters came by another stream

    def ready(batch: Batch) -> list[Tensor]:
        parts = training.recipe.inputs(batch)
        tensors = [part if isinstance(part, Tensor) else torch.from_numpy(np.ascontiguousarray(part)) for part in parts]
        return [t.pin_memory() if t.numel() else t for t in tensors] if where.type == "cuda" else tensors

    def weights() -> Array:
        training.wait()
        return training.recipe.weights()

    return Stepper(training.step, weights, ready, OnGpu(training.loss, training.wait, training.megabytes))
