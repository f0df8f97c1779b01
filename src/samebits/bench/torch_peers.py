"""One training step in PyTorch: backward, clip, fused AdamW, with our settings and learning rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from samebits.bench.peers import Problem
from samebits.training.contract import Batch


def optimise(
    problem: Problem, tensors: Sequence[Tensor], loss: Callable[[Batch], Tensor]
) -> Callable[[int, Batch], float]:
    config = problem.config
    betas = (config.beta1, config.beta2)
    optimiser = torch.optim.AdamW(
        tensors, lr=config.lr, betas=betas, eps=config.eps, weight_decay=config.weight_decay, fused=True
    )

    def step(number: int, batch: Batch) -> float:
        optimiser.param_groups[0]["lr"] = problem.lr(number)
        optimiser.zero_grad(set_to_none=True)
        value = loss(batch)
        value.backward()
        clip(config, tensors)
        optimiser.step()
        return value.item()

    return step


def clip(config: Any, tensors: Sequence[Tensor]) -> None:
    if config.clip_element:
        torch.nn.utils.clip_grad_value_(tensors, config.clip_element)
    if config.clip_norm:
        torch.nn.utils.clip_grad_norm_(tensors, config.clip_norm)
