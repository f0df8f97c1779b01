"""The small GPT in PyTorch: no biases, RMSNorm without gains, squared ReLU, untied head; fused AdamW, clipping by norm.

Shapes: B samples, T positions, D width, H heads. A linear layer's weight is (outputs, inputs), PyTorch's way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from samebits.arithmetic.arrays import Array
from samebits.bench.peers import Problem, Stepper
from samebits.bench.torch_gpu import Recipe, stepper
from samebits.bench.torch_peers import optimise
from samebits.errors import SamebitsError
from samebits.training.contract import Batch

NORM_EPS = 1e-5
SHOWN_STEPS = 3  # whose losses are held to ours


class Shape(NamedTuple):
    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    final_norm: bool = True


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        D = shape.width
        self.heads = shape.heads
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.out = nn.Linear(D, D, bias=False)
        self.up = nn.Linear(D, 4 * D, bias=False)
        self.down = nn.Linear(4 * D, D, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = self.qkv(norm(x)).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(B, T, D))
        return x + self.down(functional.relu(self.up(norm(x))).square())


class GPT(nn.Module):  # type: ignore[misc]
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.final_norm = shape.final_norm
        self.token = nn.Embedding(shape.vocabulary, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        x = self.token(inputs) + self.position.weight[: inputs.shape[1]]
        for block in self.blocks:
            x = block(x)
        scores = self.head(norm(x) if self.final_norm else x)
        return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def norm(x: Tensor) -> Tensor:
    return functional.rms_norm(x, (x.shape[-1],), eps=NORM_EPS)


def model_of(shape: Shape, weights: Mapping[str, Array]) -> GPT:
    """A model with these weights, by the names of its state_dict."""
    model = GPT(shape)
    model.load_state_dict({name: torch.from_numpy(np.array(value, np.float32)) for name, value in weights.items()})
    return model


def build(problem: Problem, compiled: bool = False, distributed: bool = False) -> Stepper:
    """Our names are those of the state_dict without ".weight"; our matrices are (inputs, outputs).

    Distributed, every process of the group has an equal share of the batch, and gradients are averaged by DDP.
    """
    model = model_for(problem)
    forward: Any = torch.compile(model) if compiled else model
    ranks, rank = (torch.distributed.get_world_size(), torch.distributed.get_rank()) if distributed else (1, 0)
    if distributed:
        forward = nn.parallel.DistributedDataParallel(forward)

    def loss(batch: Batch) -> Tensor:
        shares = (np.split(part, ranks)[rank] for part in batch.arrays[:2])
        inputs, targets = (torch.from_numpy(np.ascontiguousarray(share, np.int64)) for share in shares)
        return forward(inputs, targets)

    train = optimise(problem, list(model.parameters()), loss)

    def step(number: int, batch: Batch) -> float:
        found = train(number, batch)
        if distributed and number < SHOWN_STEPS:  # what is compared is the whole batch's
            mean = torch.tensor([found])
            torch.distributed.all_reduce(mean)
            found = mean.item() / ranks
        return found

    return Stepper(step, lambda: weights_of(model, problem))


def build_on(
    problem: Problem, device: str, compiled: bool = False, graph: bool = False, arithmetic: str = "float32"
) -> Stepper:
    """On a GPU. The arithmetic of matrix products: float32, or with fewer digits tf32, or bf16 by autocast."""
    torch.set_float32_matmul_precision("high" if arithmetic == "tf32" else "highest")

    def make(where: torch.device) -> Recipe:
        model = model_for(problem).to(where)
        forward: Any = torch.compile(model) if compiled else model

        def loss(inputs: Tensor, targets: Tensor) -> Tensor:
            # Without its cache of cast weights, which would outlive the capture of a step.
            with torch.autocast(where.type, torch.bfloat16, arithmetic == "bf16", cache_enabled=False):
                return forward(inputs, targets)

        return Recipe(
            list(model.parameters()),
            loss,
            lambda batch: [part.astype(np.int64) for part in batch.arrays[:2]],
            lambda: weights_of(model, problem),
        )

    return stepper(problem, device, make, graph)


def model_for(problem: Problem) -> GPT:
    config = problem.config
    if config.dropout:
        raise SamebitsError(f"dropout is {config.dropout}, and a peer draws other masks; use --set dropout=0")
    shape = Shape(config.layers, config.heads, config.width, config.context, config.symbols, config.final_norm)
    return model_of(shape, {f"{name}.weight": transposed(name, value) for name, value in problem.params.items()})


def weights_of(model: GPT, problem: Problem) -> Array:
    """The flat vector, in our order."""
    tensors = dict(model.named_parameters())
    found = [transposed(name, tensors[f"{name}.weight"].detach().cpu().numpy()) for name in problem.params]
    return np.concatenate([value.ravel() for value in found])


def transposed(name: str, value: Array) -> Array:
    """Between (inputs, outputs) and (outputs, inputs); an embedding is rows in both."""
    return value if name in ("token", "position") else value.T
